#include "base/error.h"

#include <gtest/gtest.h>

namespace torch_pjrt {
namespace {

TEST(ErrorTest, FailJoinsItsPartsAndKeepsTheCode) {
  try {
    fail(Code::kUnsupported, "aten::foo: rank ", 3, " of ", 2);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnsupported);
    EXPECT_STREQ(error.what(), "aten::foo: rank 3 of 2");
    return;
  }
  FAIL() << "nothing was thrown";
}

TEST(ErrorTest, EveryCodeHasAName) {
  EXPECT_STREQ(name(Code::kUnsupported), "unsupported");
  EXPECT_STREQ(name(Code::kInvalid), "invalid");
  EXPECT_STREQ(name(Code::kPlugin), "plugin");
  EXPECT_STREQ(name(Code::kOutOfMemory), "out_of_memory");
  EXPECT_STREQ(name(Code::kIo), "io");
  EXPECT_STREQ(name(Code::kInternal), "internal");
}

}  // namespace
}  // namespace torch_pjrt
