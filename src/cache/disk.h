// Values that outlive the process: one file per key in a folder of the user's.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "cache/folder.h"
#include "cache/key.h"

namespace torch_pjrt::cache {

// Any number of threads and processes may use a folder at once. The content is code: a checksum
// finds damage, not malice, so the folder and each entry must belong to the user or to root, and
// nobody else may write to them.
class Disk {
 public:
  struct Options {
    std::string folder;              // made at the first write, for the user alone
    int64_t max_bytes = 0;           // of all entries; the least recently used go first
    std::string shared_folder = {};  // looked at second, and never written to; may be empty
  };
  // Called at each fault, on the thread that meets it, with a text that names the file and what to
  // do; `is_first`: of its kind.
  using Report = std::function<void(Fault, const std::string& text, bool is_first)>;

  Disk(Options options, Report report) : options_(std::move(options)), report_(std::move(report)) {}

  // The value last written for exactly this key.
  std::optional<std::string> read(const Key& key);
  // Replaces the key's value: whoever reads meanwhile gets the old one or the new one, whole.
  void write(const Key& key, std::string_view value);
  // Removes the key's value, which turned out to be useless, and reports it as damaged. A value of
  // the shared folder stays there.
  void refuse(const Key& key, const std::string& why);

  const Options& options() const { return options_; }
  // Where the key's value is, whether or not it exists.
  std::string path(const Key& key) const;

 private:
  void report(const Problem& problem);
  std::optional<std::string> read_from(const Folder& folder, const Key& key);
  std::optional<Folder> make_folder();

  const Options options_;
  const Report report_;
  std::mutex mutex_;
  std::set<Fault> seen_;
};

}  // namespace torch_pjrt::cache
