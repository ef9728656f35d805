#include "pjrt/compile_options.h"

#include <gtest/gtest.h>

namespace torch_pjrt::pjrt {
namespace {

using namespace std::string_literals;

// ExecutableBuildOptions with device_ordinal -1, one replica, one partition.
const std::string kBuild = "\x1a\x0f\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x01\x28\x01"s;

TEST(CompileOptionsTest, WithoutOverrides) { EXPECT_EQ(serialize({}), kBuild); }

TEST(CompileOptionsTest, OneFieldPerKindOfValue) {
  EXPECT_EQ(serialize({{{"a", "xyz"}}}), kBuild +
                                             "\x3a\x0a\x0a\x01"
                                             "a\x12\x05\x0a\x03xyz"s);
  EXPECT_EQ(serialize({{{"a", true}}}), kBuild +
                                            "\x3a\x07\x0a\x01"
                                            "a\x12\x02\x10\x01"s);
  EXPECT_EQ(serialize({{{"a", false}}}), kBuild +
                                             "\x3a\x07\x0a\x01"
                                             "a\x12\x02\x10\x00"s);
  EXPECT_EQ(serialize({{{"a", 300}}}), kBuild +
                                           "\x3a\x08\x0a\x01"
                                           "a\x12\x03\x18\xac\x02"s);
  EXPECT_EQ(serialize({{{"a", 1.0}}}), kBuild +
                                           "\x3a\x0e\x0a\x01"
                                           "a\x12\x09\x21\x00\x00\x00\x00\x00\x00\xf0\x3f"s);
}

TEST(CompileOptionsTest, LongNamesAndSeveralOverrides) {
  const std::string name(200, 'n');
  const std::string entry = "\x0a\xc8\x01"s + name + "\x12\x02\x10\x01"s;
  EXPECT_EQ(serialize({{{name, true}, {"a", true}}}), kBuild + "\x3a\xcf\x01"s + entry +
                                                          "\x3a\x07\x0a\x01"
                                                          "a\x12\x02\x10\x01"s);
}

}  // namespace
}  // namespace torch_pjrt::pjrt
