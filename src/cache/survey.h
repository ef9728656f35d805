// What a folder of the cache holds, for whoever looks after it.
#pragma once

#include <string>
#include <vector>

#include "cache/folder.h"
#include "cache/key.h"

namespace torch_pjrt::cache {

struct Surveyed {
  FileInfo file;
  // Of a file that was read: why it would not be used, or "", and else its key.
  std::string problem = {};
  Key key = {};
};

// The entries and unfinished files by name. `with_content` reads each entry as a program would,
// and checks it; one that is removed meanwhile is left out.
std::vector<Surveyed> survey(const Folder& folder, bool with_content);

}  // namespace torch_pjrt::cache
