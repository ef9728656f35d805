// Comparisons: operands in their promoted type, bool out.
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

template <hlo::Direction direction>
Results compare(const Call& c) {
  return c.compare(direction, c.aligned(0), c.aligned(1));
}

constexpr Entry kRules[] = {
    {"aten::eq.Scalar", compare<hlo::Direction::kEq>},
    {"aten::eq.Tensor", compare<hlo::Direction::kEq>},
    {"aten::ge.Scalar", compare<hlo::Direction::kGe>},
    {"aten::ge.Tensor", compare<hlo::Direction::kGe>},
    {"aten::gt.Scalar", compare<hlo::Direction::kGt>},
    {"aten::gt.Tensor", compare<hlo::Direction::kGt>},
    {"aten::le.Scalar", compare<hlo::Direction::kLe>},
    {"aten::le.Tensor", compare<hlo::Direction::kLe>},
    {"aten::lt.Scalar", compare<hlo::Direction::kLt>},
    {"aten::lt.Tensor", compare<hlo::Direction::kLt>},
    {"aten::ne.Scalar", compare<hlo::Direction::kNe>},
    {"aten::ne.Tensor", compare<hlo::Direction::kNe>},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> compare_rules() { return kRules; }

}  // namespace torch_pjrt::lower
