#include "pjrt/library_identity.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace torch_pjrt::pjrt {
namespace {

const void* address_in(const char* library, const char* symbol) {
  return dlsym(dlopen(library, RTLD_NOW | RTLD_LOCAL), symbol);
}

TEST(LibraryIdentityTest, BuildId) {
  EXPECT_EQ(build_id(address_in(OLD_PLUGIN, "GetPjrtApi")), "0123456789abcdef");
  EXPECT_EQ(build_id(address_in(NO_SYMBOL_PLUGIN, "another_function")), "");
  EXPECT_EQ(build_id(nullptr), "");
}

TEST(LibraryIdentityTest, ContentHashTellsContentsApart) {
  EXPECT_EQ(content_hash("text"), content_hash(std::string("text")));
  const std::string base(1001, 'x');
  std::set<std::string> hashes;
  for (const std::string& text : {std::string(), std::string("x"), std::string("x\0", 2), base,
                                  base + std::string(1, '\0')}) {
    hashes.insert(content_hash(text));
  }
  for (const size_t position : {0, 8, 500, 992, 1000}) {
    std::string changed = base;
    changed[position] = 'y';
    hashes.insert(content_hash(changed));
  }
  EXPECT_EQ(hashes.size(), 10u);
}

}  // namespace
}  // namespace torch_pjrt::pjrt
