// Arithmetic rounded as eager's is, where XLA's CPU compiler would do otherwise.
#pragma once

#include "lower/rule.h"

namespace torch_pjrt::lower {

// a * b as a number of its own, whatever is added to it later: the compiler makes a product and a
// sum one operation that is rounded once.
Tensor exact_product(const Call& c, const Tensor& a, const Tensor& b);

}  // namespace torch_pjrt::lower
