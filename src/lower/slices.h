// Slices of one dim, whose start is structure or a value.
#pragma once

#include <cstdint>
#include <optional>

#include "lower/rule.h"

namespace torch_pjrt::lower {

// Where a slice starts.
struct Start {
  std::optional<int64_t> known;  // the same in every call of the program
  hlo::Value value;              // else, 0-d i64
};

// Argument `key` as a position in a dim of `size` elements: negative ones count from the end, None
// is 0. One that is known is moved to the edge if it lies outside; HLO's own ops move values.
Start start_of(const Call& c, ArgKey key, int64_t size);

// `count` elements of `t` along logical dim `dim`, `step` apart.
Tensor sliced(const Call& c, const Tensor& t, int64_t dim, const Start& start, int64_t count,
              int64_t step = 1);

// `self`, the call's first argument, with `src`, of its order, over those elements along logical
// dim `dim`. Writes nothing where the call may not.
Tensor overwritten(const Call& c, const Tensor& self, const Tensor& src, int64_t dim,
                   const Start& start, int64_t step = 1);

}  // namespace torch_pjrt::lower
