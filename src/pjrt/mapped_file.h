// A file's content, mapped read-only.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace torch_pjrt::pjrt {

// It keeps the content that the path had when it was made, also when another file takes its place.
// Nothing is read before it is looked at. Move-only.
class MappedFile {
 public:
  // Throws Error(kInvalid) if the file can't be opened, Error(kIo) if it can't be mapped.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::string_view content() const { return {data_, size_}; }

 private:
  const char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace torch_pjrt::pjrt
