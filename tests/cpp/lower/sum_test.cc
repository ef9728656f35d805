// In how many stages sums are taken, and in which types.
#include "lower/sum.h"

#include <gtest/gtest.h>

#include <string>

namespace torch_pjrt::lower {
namespace {

// The reductions and slices in the program of one sum, without their regions.
std::vector<std::string> statements(const Type& type, const std::vector<int64_t>& dims,
                                    DType wide) {
  hlo::Builder b("HIGHEST");
  const hlo::Value v = b.argument(type);
  const std::string text = b.module(std::vector{sum(b, v, dims, wide)});
  std::vector<std::string> found;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    const size_t arrow = line.find(" : (");
    const bool is_end_of_reduce = line.find("}) {dimensions") != std::string::npos;
    if (arrow != std::string::npos &&
        (is_end_of_reduce || line.find("stablehlo.slice") != std::string::npos))
      found.push_back(line.substr(line.find("-> ") + 3));
    begin = end + 1;
  }
  return found;
}

using Lines = std::vector<std::string>;

TEST(SumTest, FewElementsAndIntegersAreOneReduction) {
  EXPECT_EQ(statements({DType::kF32, {4, 1024}}, {1}, DType::kF64), (Lines{"tensor<4xf32>"}));
  EXPECT_EQ(statements({DType::kF32, {32, 3, 32}}, {0, 2}, DType::kF64), (Lines{"tensor<3xf32>"}));
  EXPECT_EQ(statements({DType::kI64, {1 << 20}}, {0}, DType::kI64), (Lines{"tensor<i64>"}));
  EXPECT_EQ(statements({DType::kF32, {5000, 0}}, {0}, DType::kF64), (Lines{"tensor<0xf32>"}));
}

TEST(SumTest, ChainsLieSideBySide) {
  EXPECT_EQ(statements({DType::kF32, {1 << 14}}, {0}, DType::kF64),
            (Lines{"tensor<8x64xf32>", "tensor<f64>"}));
  // Neighbours along the dim are far enough apart already.
  EXPECT_EQ(statements({DType::kF32, {1 << 14, 64}}, {0}, DType::kF64),
            (Lines{"tensor<512x1x64xf32>", "tensor<64xf64>"}));
  EXPECT_EQ(statements({DType::kF32, {2, 8, 16, 64}}, {0, 1, 2}, DType::kF64),
            (Lines{"tensor<64xf32>"}));
  EXPECT_EQ(statements({DType::kF32, {2, 32, 32, 64}}, {0, 1, 2}, DType::kF64),
            (Lines{"tensor<64x1x64xf32>", "tensor<64xf64>"}));
}

TEST(SumTest, WhatIsLeftOverIsAddedByItself) {
  const Lines found = statements({DType::kF32, {4099}}, {0}, DType::kF64);
  EXPECT_EQ(found, (Lines{"tensor<4096xf32>", "tensor<2x64xf32>", "tensor<f64>", "tensor<3xf32>",
                          "tensor<f64>"}));
}

TEST(SumTest, WithoutAWiderTypeTheLastChainIsShortToo) {
  EXPECT_EQ(statements({DType::kF64, {1 << 16}}, {0}, DType::kF64),
            (Lines{"tensor<32x64xf64>", "tensor<1x64xf64>", "tensor<1x2xf64>", "tensor<f64>"}));
}

}  // namespace
}  // namespace torch_pjrt::lower
