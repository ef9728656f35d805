// Bitwise logic and shifts.
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

template <Op op>
Results bitwise(const Call& c) {
  return c.emit(op, {c.aligned(0), c.aligned(1)});
}

Results bitwise_not(const Call& c) { return c.emit(Op::kNot, {c.aligned(0)}); }

// A distance that is negative or not below the width shifts every bit out, here and in PyTorch.
Results shift_left(const Call& c) { return c.emit(Op::kShiftLeft, {c.aligned(0), c.aligned(1)}); }

Results shift_right(const Call& c) {
  const Tensor x = c.aligned(0);
  const Op op = x.dtype() == DType::kU8 ? Op::kShiftRightLogical : Op::kShiftRightArithmetic;
  return c.emit(op, {x, c.aligned(1)});
}

constexpr Entry kRules[] = {
    {"aten::__lshift__.Scalar", shift_left},
    {"aten::__lshift__.Tensor", shift_left},
    {"aten::__rshift__.Scalar", shift_right},
    {"aten::__rshift__.Tensor", shift_right},
    {"aten::bitwise_and.Scalar", bitwise<Op::kAnd>},
    {"aten::bitwise_and.Scalar_Tensor", bitwise<Op::kAnd>},
    {"aten::bitwise_and.Tensor", bitwise<Op::kAnd>},
    {"aten::bitwise_left_shift.Scalar_Tensor", shift_left},
    {"aten::bitwise_left_shift.Tensor", shift_left},
    {"aten::bitwise_left_shift.Tensor_Scalar", shift_left},
    {"aten::bitwise_not", bitwise_not},
    {"aten::bitwise_or.Scalar", bitwise<Op::kOr>},
    {"aten::bitwise_or.Scalar_Tensor", bitwise<Op::kOr>},
    {"aten::bitwise_or.Tensor", bitwise<Op::kOr>},
    {"aten::bitwise_right_shift.Scalar_Tensor", shift_right},
    {"aten::bitwise_right_shift.Tensor", shift_right},
    {"aten::bitwise_right_shift.Tensor_Scalar", shift_right},
    {"aten::bitwise_xor.Scalar", bitwise<Op::kXor>},
    {"aten::bitwise_xor.Scalar_Tensor", bitwise<Op::kXor>},
    {"aten::bitwise_xor.Tensor", bitwise<Op::kXor>},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> bits_rules() { return kRules; }

}  // namespace torch_pjrt::lower
