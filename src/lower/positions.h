// Where index tensors point: start positions for HLO's gather and scatter.
#pragma once

#include <optional>
#include <vector>

#include "lower/rule.h"

namespace torch_pjrt::lower {

// i64 indices with negative ones counted from the end of a dim of that size.
Tensor wrapped(const Call& c, const Tensor& index, int64_t size);

// A row-major tensor with a dim of size 1 after the last.
Tensor with_last_dim(const Call& c, const Tensor& t);

// The positions [i0, .., index[i0, ..] at `dim`, .., in], one for each element of `index`, as the
// last dim. `dims`: those of the tensor that is indexed.
hlo::Value element_positions(const Call& c, const Tensor& index, int64_t dim);

// For a scatter onto the call's first argument: its starts, or ones out of range, where nothing is
// written, if the write isn't permitted.
hlo::Value permitted(const Call& c, const hlo::Value& starts);

// Dims of a tensor that have an index tensor, and what those tensors are broadcast to.
struct IndexedDims {
  std::vector<int64_t> dims;
  Dims shape;
};

IndexedDims indexed_dims(const Call& c, const std::vector<std::optional<Tensor>>& indices);

// What self[indices] names in a tensor. Adjacent index tensors keep their place, others go first
// (as NumPy has it).
struct Selection {
  std::vector<int64_t> indexed;  // the dims that have an index tensor
  hlo::Value starts;             // one position of `indexed` for each element of `shape`
  Dims shape;                    // the index tensors' common dims
  int64_t place;                 // where `shape` stands among the dims of self[indices]
  Dims dims;                     // those of self[indices]
  std::vector<int64_t> window;   // the dims of self[indices] that are self's own
};

Selection select_positions(const Call& c, const Dims& self,
                           const std::vector<std::optional<Tensor>>& indices);

}  // namespace torch_pjrt::lower
