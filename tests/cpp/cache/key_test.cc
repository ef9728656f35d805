#include "cache/key.h"

#include <gtest/gtest.h>

namespace torch_pjrt::cache {
namespace {

Key key(std::string_view graph, std::vector<int64_t> sizes, int64_t threads) {
  Key k;
  k.add("graph", graph);
  k.add("sizes", sizes);
  k.add("threads", threads);
  return k;
}

TEST(Key, EqualPartsAreEqual) {
  EXPECT_EQ(key("g", {1, 2}, 4), key("g", {1, 2}, 4));
  EXPECT_EQ(key("g", {1, 2}, 4).bytes(), key("g", {1, 2}, 4).bytes());
  EXPECT_TRUE(difference(key("g", {1, 2}, 4), key("g", {1, 2}, 4)).empty());
}

TEST(Key, DifferenceNamesTheParts) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(difference(key("g", {1}, 4), key("h", {1}, 4)), Names{"graph"});
  EXPECT_EQ(difference(key("g", {1}, 4), key("g", {1, 2}, 2)), (Names{"sizes", "threads"}));
  EXPECT_EQ(difference(key("g", {1}, 4), Key()), (Names{"graph", "sizes", "threads"}));
}

TEST(Key, PartsDontRunIntoOneAnother) {
  Key a;
  a.add("x", "ab");
  a.add("y", "c");
  Key b;
  b.add("x", "a");
  b.add("y", "bc");
  EXPECT_NE(a.bytes(), b.bytes());
  EXPECT_FALSE(a == b);
}

TEST(Key, ComesBackFromItsBytes) {
  const Key whole = key("g", {1, 2}, 4);
  const auto back = Key::from_bytes(whole.bytes());
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, whole);
  EXPECT_TRUE(difference(*back, whole).empty());
  ASSERT_EQ(back->parts().size(), 3u);
  EXPECT_EQ(back->parts()[0].first, "graph");
  EXPECT_EQ(back->parts()[0].second, "g");
  for (size_t size = 1; size < whole.bytes().size(); ++size) {
    const auto cut = Key::from_bytes(std::string_view(whole.bytes()).substr(0, size));
    EXPECT_TRUE(!cut || cut->parts().size() < 3) << size;  // a cut between two parts is a key
  }
}

}  // namespace
}  // namespace torch_pjrt::cache
