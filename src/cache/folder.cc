#include "cache/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.h"

namespace torch_pjrt::cache {
namespace {

constexpr std::string_view kUnfinished = ".unfinished-";

// Another one at each call, among all processes that run now; what is left of an earlier process
// with the same number is found by O_EXCL.
std::string unfinished_name() {
  static std::atomic<uint64_t> next = 0;
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return str(kUnfinished, getpid(), "-", now.tv_sec, "-", now.tv_nsec, "-", next++);
}

}  // namespace

Folder::Folder(std::string path)
    : path_(std::move(path)), folder_(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  struct stat status = {};
  if (!folder_ || !folder_.status(status)) {
    if (errno == ENOENT) state_ = State::kAbsent;
    problem_ = {Fault::kRead, str(path_, ": the folder can't be opened (", std::strerror(errno),
                                  "); check what is there, and its mode")};
  } else if (const std::string reason = unsafe_reason(status); !reason.empty()) {
    problem_ = {Fault::kUnsafe,
                str(path_, " ", reason,
                    ", and what is in it would be run as code, so it isn't used; chmod it to 0700, "
                    "or name a folder of your own")};
  } else {
    state_ = State::kUsable;
  }
}

Folder::Read Folder::read(const std::string& name) const {
  const auto refused = [&](Fault fault, const std::string& text) {
    return Read{true, "", Problem{fault, full_name(name) + text}};
  };
  const File file(
      openat(folder_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status = {};
  if (!file || !file.status(status)) {
    if (errno == ENOENT) return {};
    return refused(errno == ELOOP ? Fault::kUnsafe : Fault::kRead,  // ELOOP: a symbolic link
                   str(": can't be opened (", std::strerror(errno), "); remove it"));
  }
  const std::string reason =
      S_ISREG(status.st_mode) ? unsafe_reason(status) : std::string("is no regular file");
  if (!reason.empty()) {
    return refused(Fault::kUnsafe, str(" ", reason, ", so it isn't used; remove it"));
  }
  Read read{true, "", std::nullopt};
  if (!file.read_all(read.content)) {
    return refused(Fault::kRead, str(": can't be read (", std::strerror(errno), "); remove it"));
  }
  return read;
}

void Folder::touch(const std::string& name) const {
  utimensat(folder_.get(), name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

std::optional<Problem> Folder::write(const std::string& name, std::string_view content) const {
  const std::string unfinished = unfinished_name();
  const File file(openat(folder_.get(), unfinished.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  // Complete on the disk before it has its name, so that no crash leaves half an entry.
  const bool written =
      file && file.write_all(content) && fsync(file.get()) == 0 &&
      renameat(folder_.get(), unfinished.c_str(), folder_.get(), name.c_str()) == 0;
  if (written) return std::nullopt;
  const int cause = errno;
  if (file) unlinkat(folder_.get(), unfinished.c_str(), 0);
  return Problem{Fault::kWrite,
                 str(path_, ": no entry can be written (", std::strerror(cause),
                     "), so programs are compiled anew in each process; free space there, or name "
                     "another folder")};
}

bool Folder::remove(const std::string& name) const {
  return unlinkat(folder_.get(), name.c_str(), 0) == 0;
}

std::vector<FileInfo> Folder::list() const {
  std::vector<FileInfo> files;
  // A descriptor of its own, since closing the directory closes it.
  const int copy = openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(copy >= 0 ? fdopendir(copy) : nullptr,
                                                      closedir);
  if (!directory) return files;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string name = entry->d_name;
    const bool is_unfinished = name.starts_with(kUnfinished);
    if (!is_unfinished && !name.ends_with(kEntrySuffix)) continue;
    struct stat status = {};
    // Another process may remove any of them meanwhile.
    if (fstatat(folder_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const int64_t used = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
    files.push_back({name, static_cast<int64_t>(status.st_size), used, !is_unfinished});
  }
  return files;
}

}  // namespace torch_pjrt::cache
