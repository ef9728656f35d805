#include "cache/disk.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "cache/entry.h"
#include "cache/prune.h"

namespace torch_pjrt::cache {
std::string Disk::path(const Key& key) const {
  return options_.folder + "/" + entry_name(key.bytes());
}

void Disk::report(const Problem& problem) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = seen_.insert(problem.fault).second;
  }
  if (report_) report_(problem.fault, problem.text, is_first);
}

std::optional<std::string> Disk::read_from(const Folder& folder, const Key& key) {
  if (folder.state() == Folder::State::kRefused) report(folder.problem());
  if (folder.state() != Folder::State::kUsable) return std::nullopt;
  const std::string name = entry_name(key.bytes());
  const Folder::Read read = folder.read(name);
  if (read.problem) report(*read.problem);
  if (!read.found || read.problem) return std::nullopt;
  const EntryView entry = view_entry(read.content);
  std::string damage = entry.damage;
  if (damage.empty() && entry.key != key.bytes()) damage = "it is another program's";
  if (damage.empty()) return std::string(entry.value);
  report({Fault::kDamaged,
          str(folder.path(), "/", name, ": ", damage, "; it is ignored and replaced")});
  return std::nullopt;
}

std::optional<std::string> Disk::read(const Key& key) {
  const Folder own(options_.folder);
  if (std::optional<std::string> value = read_from(own, key)) {
    own.touch(entry_name(key.bytes()));
    return value;
  }
  if (options_.shared_folder.empty()) return std::nullopt;
  const Folder shared(options_.shared_folder);
  // Somebody named it, so it should be there.
  if (shared.state() == Folder::State::kAbsent) report(shared.problem());
  return read_from(shared, key);
}

std::optional<Folder> Disk::make_folder() {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(options_.folder).parent_path(),
                                      ignored);
  if (mkdir(options_.folder.c_str(), 0700) != 0 && errno != EEXIST) {
    report(
        {Fault::kWrite, str(options_.folder, ": the folder can't be made (", std::strerror(errno),
                            "), so programs are compiled anew in each process; name another")});
    return std::nullopt;
  }
  Folder folder(options_.folder);
  if (folder.state() == Folder::State::kUsable) return folder;
  report(folder.problem());
  return std::nullopt;
}

void Disk::write(const Key& key, std::string_view value) {
  const std::string entry = to_entry(key, value);
  if (static_cast<int64_t>(entry.size()) > options_.max_bytes) return;
  const std::optional<Folder> folder = make_folder();
  if (!folder) return;
  if (const auto problem = folder->write(entry_name(key.bytes()), entry)) return report(*problem);
  prune(*folder, options_.max_bytes);
}

void Disk::refuse(const Key& key, const std::string& why) {
  const Folder folder(options_.folder);
  const bool removed =
      folder.state() == Folder::State::kUsable && folder.remove(entry_name(key.bytes()));
  const std::string& place = removed ? options_.folder : options_.shared_folder;
  report({Fault::kDamaged, str(place, "/", entry_name(key.bytes()), ": ", why,
                               removed ? "; it is removed" : "; it is ignored")});
}

}  // namespace torch_pjrt::cache
