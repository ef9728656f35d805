#include "pjrt/library_identity.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/hash.h"

namespace torch_pjrt::pjrt {
namespace {

struct Search {
  uintptr_t address;
  std::string build_id;
};

bool contains(const dl_phdr_info& library, uintptr_t address) {
  for (int i = 0; i < library.dlpi_phnum; ++i) {
    const ElfW(Phdr) & segment = library.dlpi_phdr[i];
    const uintptr_t begin = library.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= begin && address < begin + segment.p_memsz) {
      return true;
    }
  }
  return false;
}

// The id among the notes of one segment: each a header, a name and a description, padded to words.
std::string find_build_id(const char* notes, size_t size) {
  const auto padded = [](size_t length) { return (length + 3) & ~size_t{3}; };
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, sizeof(note));
    const size_t total = sizeof(note) + padded(note.n_namesz) + padded(note.n_descsz);
    if (total > size) break;
    const char* owner = notes + sizeof(note);
    if (note.n_type == NT_GNU_BUILD_ID &&
        std::string_view(owner, note.n_namesz) == std::string_view("GNU\0", 4)) {
      return hex(std::string_view(owner + padded(note.n_namesz), note.n_descsz));
    }
    notes += total;
    size -= total;
  }
  return "";
}

// Stops, by returning 1, at the library that the address is in.
int visit(dl_phdr_info* library, size_t, void* data) noexcept {
  auto& search = *static_cast<Search*>(data);
  if (!contains(*library, search.address)) return 0;
  for (int i = 0; i < library->dlpi_phnum && search.build_id.empty(); ++i) {
    const ElfW(Phdr) & segment = library->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    search.build_id = find_build_id(
        reinterpret_cast<const char*>(library->dlpi_addr + segment.p_vaddr), segment.p_memsz);
  }
  return 1;
}

}  // namespace

std::string build_id(const void* address) {
  Search search{reinterpret_cast<uintptr_t>(address), ""};
  dl_iterate_phdr(visit, &search);
  return search.build_id;
}

std::string content_hash(std::string_view content) {
  return hex(uint64_t{content.size()}) + hex(hash(content));
}

}  // namespace torch_pjrt::pjrt
