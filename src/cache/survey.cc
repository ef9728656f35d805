#include "cache/survey.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cache/entry.h"

namespace torch_pjrt::cache {
namespace {

// Fills in what the content says.
void examine(Surveyed& found, const Folder::Read& read) {
  if (read.problem) {
    found.problem = read.problem->text;
    return;
  }
  const EntryView entry = view_entry(read.content);
  std::optional<Key> key = Key::from_bytes(entry.key);
  if (!entry.damage.empty()) {
    found.problem = entry.damage;
  } else if (entry_name(entry.key) != found.file.name || !key) {
    found.problem = "it is another program's";
  } else {
    found.key = *std::move(key);
  }
}

}  // namespace

std::vector<Surveyed> survey(const Folder& folder, bool with_content) {
  std::vector<FileInfo> files = folder.list();
  std::sort(files.begin(), files.end(),
            [](const FileInfo& a, const FileInfo& b) { return a.name < b.name; });
  std::vector<Surveyed> all;
  for (FileInfo& file : files) {
    Surveyed found{std::move(file)};
    if (with_content && found.file.is_finished) {
      const Folder::Read read = folder.read(found.file.name);
      if (!read.found) continue;
      examine(found, read);
    }
    all.push_back(std::move(found));
  }
  return all;
}

}  // namespace torch_pjrt::cache
