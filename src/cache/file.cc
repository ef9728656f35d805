#include "cache/file.h"

#include <unistd.h>

#include <cerrno>

namespace torch_pjrt::cache {

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool File::status(struct stat& result) const { return fstat(descriptor_, &result) == 0; }

bool File::read_all(std::string& content) const {
  struct stat info = {};
  if (!status(info)) return false;
  content.resize(static_cast<size_t>(info.st_size));
  for (size_t done = 0; done < content.size();) {
    const ssize_t n = ::read(descriptor_, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = 0;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

bool File::write_all(std::string_view content) const {
  while (!content.empty()) {
    const ssize_t n = ::write(descriptor_, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    content.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

std::string unsafe_reason(const struct stat& status) {
  if (status.st_uid != geteuid() && status.st_uid != 0) {
    return "belongs to user " + std::to_string(status.st_uid);
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "may be written by other users";
  return "";
}

}  // namespace torch_pjrt::cache
