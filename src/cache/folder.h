// A folder whose files are run as code: opened once, checked, and reached by its descriptor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/file.h"

namespace torch_pjrt::cache {

// What went wrong, for whom it may concern. No fault of a folder fails a call.
enum class Fault : uint8_t {
  kDamaged,  // an entry that is cut, changed, or of another version of the format
  kUnsafe,   // a folder or entry that somebody else could have written
  kRead,     // an entry that is there and can't be read
  kWrite,
};

struct Problem {
  Fault fault;
  std::string text;  // names the file, and says what to do
};

// A file of an entry, complete or in the making.
struct FileInfo {
  std::string name;
  int64_t bytes = 0;
  int64_t used_ns = 0;  // the time of the last use, since 1970
  bool is_finished = true;
};

// What is checked is what is used, whatever happens to the path meanwhile. Used by one thread.
class Folder {
 public:
  enum class State : uint8_t { kUsable, kAbsent, kRefused };

  explicit Folder(std::string path);

  const std::string& path() const { return path_; }
  State state() const { return state_; }
  const Problem& problem() const { return problem_; }  // of a folder that is kRefused

  // Reads the file of that name whole, and checks that nobody but the user and root could have
  // written it. A file that isn't there is no problem, and leaves `content` empty and `found`
  // false.
  struct Read {
    bool found = false;
    std::string content;
    std::optional<Problem> problem;
  };
  Read read(const std::string& name) const;
  // Notes that a file was used now, if it may be.
  void touch(const std::string& name) const;

  // Gives the file its content at once: whoever reads meanwhile gets the old one or the new one. A
  // process that dies while it writes leaves an unfinished file, and no other.
  std::optional<Problem> write(const std::string& name, std::string_view content) const;
  // False where there is none, or it can't be removed.
  bool remove(const std::string& name) const;

  // The entries, and what is being written or was left unfinished; other files aren't ours.
  std::vector<FileInfo> list() const;

 private:
  std::string full_name(const std::string& name) const { return path_ + "/" + name; }

  std::string path_;
  File folder_;
  State state_ = State::kRefused;
  Problem problem_ = {};
};

// The ending of an entry's name.
inline constexpr std::string_view kEntrySuffix = ".program";

}  // namespace torch_pjrt::cache
