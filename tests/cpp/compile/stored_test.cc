#include "compile/stored.h"

#include <gtest/gtest.h>

#include "compile/program.h"
#include "device_test.h"

namespace torch_pjrt::compile {
namespace {

using pjrt::error_of;

Stored example() {
  using Argument = lower::ProgramArgument::Kind;
  using Result = lower::ProgramResult::Kind;
  Stored stored;
  const Type matrix{DType::kF32, {2, 3}};
  const Type pair{DType::kI64, {2}};
  stored.program.arguments.push_back({Argument::kMutatedInput, 1, matrix, 0});
  stored.program.arguments.push_back({Argument::kScalar, 0, {DType::kI64, {}}, -1});
  stored.program.results.push_back({Result::kMutation, 0, matrix, {1, 0}, {3, 2}});
  stored.program.results.push_back({Result::kStatus, 0, pair, {0}, {2}});
  stored.program.problems = {{lower::Problem::Kind::kRuntimeError, "index {} is bad"}};
  stored.executable = std::string("code\0more", 9);
  return stored;
}

TEST(Stored, ComesBackWhole) {
  const std::string bytes = to_bytes(example());
  const Stored stored = from_bytes(bytes);
  EXPECT_EQ(to_bytes(stored), bytes);
  EXPECT_EQ(stored.executable, example().executable);
  ASSERT_EQ(stored.program.arguments.size(), 2u);
  EXPECT_EQ(stored.program.arguments[0].kind, lower::ProgramArgument::Kind::kMutatedInput);
  EXPECT_EQ(stored.program.arguments[0].index, 1);
  EXPECT_EQ(stored.program.arguments[0].type, (Type{DType::kF32, {2, 3}}));
  EXPECT_EQ(stored.program.arguments[1].result, -1);
  ASSERT_EQ(stored.program.results.size(), 2u);
  EXPECT_EQ(stored.program.results[0].order, (lower::Order{1, 0}));
  EXPECT_EQ(stored.program.results[0].dims, (Dims{3, 2}));
  EXPECT_EQ(stored.program.results[1].kind, lower::ProgramResult::Kind::kStatus);
  ASSERT_EQ(stored.program.problems.size(), 1u);
  EXPECT_EQ(stored.program.problems[0].kind, lower::Problem::Kind::kRuntimeError);
  EXPECT_EQ(stored.program.problems[0].message, "index {} is bad");
}

TEST(Stored, OtherSizesAreErrors) {
  const std::string bytes = to_bytes(example());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(error_of([&] { from_bytes(std::string_view(bytes).substr(0, size)); }), "");
  }
  EXPECT_NE(error_of([&] { from_bytes(bytes + "x"); }).find("io: "), std::string::npos);
}

}  // namespace
}  // namespace torch_pjrt::compile
