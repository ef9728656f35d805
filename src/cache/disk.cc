#include "cache/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "cache/file.h"

namespace torch_pjrt::cache {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".program";
constexpr std::string_view kUnfinished = ".unfinished-";
// A file being written is younger than this, unless its process was stopped.
constexpr auto kUnfinishedAge = std::chrono::hours(1);

// An entry is this header, the key's bytes and the value. `check` is the hash of all after it.
struct Header {
  char magic[8] = {'t', 'p', 'j', 'r', 't', 'e', 'x', 'e'};
  uint64_t version = 1;  // of this format; another byte order is another version
  uint64_t check = 0;
  uint64_t key_size = 0;
  uint64_t value_size = 0;
};
constexpr size_t kChecked = offsetof(Header, key_size);

std::string to_entry(const Key& key, std::string_view value) {
  Header header;
  header.key_size = key.bytes().size();
  header.value_size = value.size();
  const auto bytes = [&] {
    return std::string_view(reinterpret_cast<const char*>(&header), sizeof(header));
  };
  std::string entry(bytes());
  entry += key.bytes();
  entry += value;
  header.check = hash(std::string_view(entry).substr(kChecked));
  return entry.replace(0, sizeof(header), bytes());
}

uint64_t key_size(std::string_view entry) {
  uint64_t size = 0;
  entry.copy(reinterpret_cast<char*>(&size), sizeof(size), offsetof(Header, key_size));
  return size;
}

// What is wrong with an entry, or "".
std::string damage(std::string_view entry) {
  const Header expected;
  Header header;
  if (entry.size() < sizeof(header)) return str("it has only ", entry.size(), " bytes");
  std::memcpy(&header, entry.data(), sizeof(header));
  if (std::memcmp(header.magic, expected.magic, sizeof(header.magic)) != 0) {
    return "it doesn't begin as entries do";
  }
  if (header.version != expected.version) return "it is of another version of the format";
  const size_t rest = entry.size() - sizeof(header);
  if (header.key_size > rest || header.value_size != rest - header.key_size) {
    return "its size isn't what its header says";
  }
  if (header.check != hash(entry.substr(kChecked))) return "its checksum doesn't fit";
  return "";
}

// The value, of an entry without damage, if it is the key's.
std::optional<std::string> value_for(std::string_view entry, const Key& key) {
  const size_t size = key_size(entry);
  entry.remove_prefix(sizeof(Header));
  if (entry.substr(0, size) != key.bytes()) return std::nullopt;
  return std::string(entry.substr(size));
}

}  // namespace

std::string Disk::path(const Key& key) const {
  return options_.folder + "/" + hex(uint64_t{key.bytes().size()}).substr(8) +
         hex(hash(key.bytes())) + std::string(kSuffix);
}

void Disk::fault(Fault kind, const std::string& text) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = seen_.insert(kind).second;
  }
  if (report_) report_(kind, text, is_first);
}

// False, with no fault, if there is none.
bool Disk::is_safe_folder() {
  const File folder(open(options_.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status = {};
  if (!folder || !folder.status(status)) {
    if (errno != ENOENT) {
      fault(Fault::kRead, str(options_.folder, ": the folder can't be opened (",
                              std::strerror(errno), "); check what is there, and its mode"));
    }
    return false;
  }
  const std::string reason = unsafe_reason(status);
  if (reason.empty()) return true;
  fault(Fault::kUnsafe, str(options_.folder, " ", reason,
                            ", and what is in it would be run as code, so it isn't used; chmod it "
                            "to 0700, or name a folder of your own"));
  return false;
}

std::optional<std::string> Disk::read(const Key& key) {
  const std::string name = path(key);
  const File file(open(name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status = {};
  const int cause = file && file.status(status) ? 0 : errno;
  if (cause == ENOENT || !is_safe_folder()) return std::nullopt;
  if (cause != 0) {
    fault(cause == ELOOP ? Fault::kUnsafe : Fault::kRead,  // ELOOP: a symbolic link
          str(name, ": can't be opened (", std::strerror(cause), "); remove it"));
    return std::nullopt;
  }
  const std::string reason =
      S_ISREG(status.st_mode) ? unsafe_reason(status) : std::string("is no regular file");
  if (!reason.empty()) {
    fault(Fault::kUnsafe, str(name, " ", reason, ", so it isn't used; remove it"));
    return std::nullopt;
  }
  std::string entry;
  if (!file.read_all(entry)) {
    fault(Fault::kRead, str(name, ": can't be read (", std::strerror(errno), "); remove it"));
    return std::nullopt;
  }
  if (const std::string what = damage(entry); !what.empty()) {
    fault(Fault::kDamaged, str(name, ": ", what, "; it is ignored and replaced"));
    return std::nullopt;
  }
  std::optional<std::string> value = value_for(entry, key);
  // The time of the last use. Not where others' entries are shared read-only.
  if (value) futimens(file.get(), nullptr);
  return value;
}

bool Disk::make_folder() {
  std::error_code error;
  const fs::path folder(options_.folder);
  fs::create_directories(folder.parent_path(), error);
  if (mkdir(options_.folder.c_str(), 0700) == 0 || errno == EEXIST) return is_safe_folder();
  fault(Fault::kWrite, str(options_.folder, ": the folder can't be made (", std::strerror(errno),
                           "), so programs are compiled anew in each process; name another"));
  return false;
}

void Disk::write(const Key& key, std::string_view value) {
  const std::string entry = to_entry(key, value);
  if (static_cast<int64_t>(entry.size()) > options_.max_bytes || !make_folder()) return;
  std::string unfinished = options_.folder + "/" + std::string(kUnfinished) + "XXXXXX";
  const File file(mkostemp(unfinished.data(), O_CLOEXEC));
  // Complete on the disk before it has its name, so that no crash leaves half an entry.
  const bool written = file && file.write_all(entry) && fsync(file.get()) == 0 &&
                       std::rename(unfinished.c_str(), path(key).c_str()) == 0;
  if (!written) {
    const int cause = errno;
    if (file) unlink(unfinished.c_str());
    fault(Fault::kWrite, str(options_.folder, ": no entry can be written (", std::strerror(cause),
                             "), so programs are compiled anew in each process; free space there, "
                             "or name another folder"));
    return;
  }
  prune();
}

void Disk::refuse(const Key& key, const std::string& why) {
  const std::string name = path(key);
  unlink(name.c_str());
  fault(Fault::kDamaged, str(name, ": ", why, "; it is removed"));
}

void Disk::prune() {
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    int64_t size;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator i(options_.folder, error), end; !error && i != end;
       i.increment(error)) {
    // Another process may remove any of them meanwhile.
    std::error_code gone;
    const std::string name = i->path().filename();
    const fs::file_time_type used = i->last_write_time(gone);
    const auto size = static_cast<int64_t>(i->file_size(gone));
    if (gone) continue;
    if (name.ends_with(kSuffix)) {
      entries.push_back({i->path(), used, size});
      total += size;
    } else if (name.starts_with(kUnfinished) &&
               fs::file_time_type::clock::now() - used > kUnfinishedAge) {
      fs::remove(i->path(), gone);
    }
  }
  if (total <= options_.max_bytes) return;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= options_.max_bytes) break;
    fs::remove(entry.path, error);
    total -= entry.size;
  }
}

}  // namespace torch_pjrt::cache
