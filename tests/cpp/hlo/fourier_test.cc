// Fourier transforms, computed by the plugin.
#include "base/error.h"
#include "program.h"

namespace torch_pjrt::hlo {
namespace {

TEST(Fourier, OfRealNumbers) {
  Program p;
  const Value half = p.build.fft(p.floats({4}, {1, 2, 3, 4}), Fourier::kOfReal, 4);
  EXPECT_EQ(half.type, (Type{DType::kC64, {3}}));
  EXPECT_EQ(p.floats(p.build.elementwise(Op::kReal, {half})), (std::vector<float>{10, -2, -2}));
}

TEST(Fourier, ThereAndBack) {
  Program p;
  const Value half = p.build.fft(p.floats({5}, {1, 2, 3, 4, 7}), Fourier::kOfReal, 5);
  const std::vector<float> back = p.floats(p.build.fft(half, Fourier::kToReal, 5));
  const std::vector<float> expected = {1, 2, 3, 4, 7};
  ASSERT_EQ(back.size(), expected.size());
  for (size_t i = 0; i < back.size(); ++i) EXPECT_NEAR(back[i], expected[i], 1e-5);
}

TEST(Fourier, AnInverseIsDividedByTheLength) {
  Program p;
  const Value x = p.floats({2}, {6, 2});
  const Value z = p.build.elementwise(Op::kComplex, {x, p.floats({2}, {0, 0})});
  const Value inverse = p.build.fft(z, Fourier::kInverse, 2);
  EXPECT_EQ(p.floats(p.build.elementwise(Op::kReal, {inverse})), (std::vector<float>{4, 2}));
}

TEST(Fourier, TheLengthHasToFit) {
  Program p;
  const Value x = p.floats({4}, {1, 2, 3, 4});
  EXPECT_THROW(p.build.fft(x, Fourier::kOfReal, 5), Error);
  EXPECT_THROW(p.build.fft(x, Fourier::kForward, 4), Error);
}

}  // namespace
}  // namespace torch_pjrt::hlo
