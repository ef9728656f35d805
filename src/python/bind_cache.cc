// The folder of what outlives the process: for `python -m torch_pjrt cache`, and for captures.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/config.h"
#include "base/error.h"
#include "cache/folder.h"
#include "cache/prune.h"
#include "cache/survey.h"
#include "python/bind.h"
#include "python/gil.h"
#include "torch/runtime.h"

namespace torch_pjrt::python {
namespace {

namespace nb = nanobind;

using State = cache::Folder::State;

nb::dict settings() {
  nb::dict d;
  d["folder"] = config::cache_folder();
  d["shared_folder"] = config::shared_cache_folder();
  d["max_bytes"] = config::cache_max_bytes();
  return d;
}

void check(const cache::Folder& folder) {
  if (folder.state() == State::kRefused) fail(Code::kIo, folder.problem().text);
}

nb::dict described(const cache::Surveyed& found) {
  nb::dict parts;
  for (const auto& [name, content] : found.key.parts()) {
    parts[nb::str(name.data(), name.size())] = nb::bytes(content.data(), content.size());
  }
  nb::dict d;
  d["name"] = found.file.name;
  d["bytes"] = found.file.bytes;
  d["used_ns"] = found.file.used_ns;
  d["is_finished"] = found.file.is_finished;
  d["problem"] = found.problem;
  d["key"] = parts;
  return d;
}

nb::object list(const std::string& path, bool with_content) {
  const cache::Folder folder(path);
  check(folder);
  if (folder.state() == State::kAbsent) return nb::none();
  nb::list all;
  for (const cache::Surveyed& found : cache::survey(folder, with_content)) {
    all.append(described(found));
  }
  return all;
}

std::pair<int64_t, int64_t> prune(const std::string& path, int64_t max_bytes) {
  const cache::Folder folder(path);
  check(folder);
  if (folder.state() == State::kAbsent) return {0, 0};
  const cache::Removed removed = cache::prune(folder, max_bytes);
  return {removed.entries, removed.bytes};
}

std::string unsafe_reason(int descriptor) {
  struct stat status = {};
  if (fstat(descriptor, &status) != 0) return "can't be looked at";
  return S_ISREG(status.st_mode) ? cache::unsafe_reason(status) : "is no regular file";
}

// What AOTAutograd made of a function, by torch's key of it.
cache::Key capture_key(const std::string& of) {
  cache::Key key;
  key.add("capture", of);
  return key;
}

nb::object read_capture(const std::string& of) {
  std::optional<std::string> found;
  {
    Gil gil;
    gil.release();
    if (cache::Disk* disk = aten::runtime().disk()) found = disk->read(capture_key(of));
  }
  if (!found) return nb::none();
  return nb::bytes(found->data(), found->size());
}

void write_capture(const std::string& of, const nb::bytes& content) {
  const std::string_view bytes(content.c_str(), content.size());
  Gil gil;
  gil.release();
  if (cache::Disk* disk = aten::runtime().disk()) disk->write(capture_key(of), bytes);
}

}  // namespace

void bind_cache(nb::module_& m) {
  m.def("unsafe_reason", &unsafe_reason, nb::arg("descriptor"));
  m.def("cache_settings", &settings);
  m.def("read_capture", &read_capture, nb::arg("key"));
  m.def("write_capture", &write_capture, nb::arg("key"), nb::arg("content"));
  m.def("cache_list", &list, nb::arg("folder"), nb::arg("with_content"));
  m.def("cache_prune", &prune, nb::arg("folder"), nb::arg("max_bytes"));
}

}  // namespace torch_pjrt::python
