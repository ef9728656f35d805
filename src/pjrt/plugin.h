// A PJRT plugin: a shared library, found by path, checked and initialised.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "pjrt/api.h"
#include "pjrt/mapped_file.h"

namespace torch_pjrt::pjrt {

// Any thread may use it. The library stays loaded when the object goes, since buffers and deleters
// may outlive everything of ours; a process loads a plugin once and passes it along.
class Plugin {
  struct Private {};

 public:
  // Throws Error(kInvalid) where the file is missing, is no PJRT plugin, or speaks another major
  // version of the PJRT C API; Error(kPlugin) where the plugin doesn't initialise.
  static std::shared_ptr<const Plugin> load(const std::string& path);
  Plugin(Private, std::string path, MappedFile file);

  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const Api& api() const { return api_; }
  const std::string& path() const { return path_; }

  // What the plugin says about itself, e.g. "stablehlo_current_version" is "1.13.3".
  const std::map<std::string, std::string>& attributes() const { return attributes_; }

  // Identifies the library's code, for a program key: its build-id, or else a hash of the file
  // (the first call reads all of it). A copy elsewhere has the same. It doesn't cover the libraries
  // that the plugin itself loads.
  const std::string& identity() const;

 private:
  std::string path_;
  // Mapped before the library is loaded, so that identity() sees the same file even if another has
  // taken its place since; empty once it has.
  mutable std::optional<MappedFile> file_;
  Api api_;
  std::map<std::string, std::string> attributes_;
  mutable std::once_flag identity_once_;
  mutable std::string identity_;
};

}  // namespace torch_pjrt::pjrt
