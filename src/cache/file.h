// Files by descriptor: opened with checks, read and written whole.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>
#include <utility>

namespace torch_pjrt::cache {

// An open file, or none. Move-only.
class File {
 public:
  explicit File(int descriptor = -1) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&&) = delete;
  ~File();

  explicit operator bool() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

  // These set errno where they fail.
  bool status(struct stat& result) const;
  // Everything up to the end that the file had at the beginning of the call; false also where it
  // has been cut since, with errno 0.
  bool read_all(std::string& content) const;
  bool write_all(std::string_view content) const;

 private:
  int descriptor_;
};

// Why somebody else could have written the file or folder, or "".
std::string unsafe_reason(const struct stat& status);

}  // namespace torch_pjrt::cache
