// Which memory the program writes a result to, and how an output of the graph is made from it.
#pragma once

#include <cstdint>
#include <span>

#include "base/type.h"
#include "graph/graph.h"
#include "lower/lower.h"

namespace torch_pjrt::compile {

struct ResultForm {
  enum class Kind : uint8_t {
    kDense,     // the memory is the output
    kExpanded,  // the output is a view of the memory, with strides of 0
    kGaps,      // the output has gaps: the memory is copied into it
    kInput,     // the memory is an input's
    kStatus,    // the memory is i64[2] and no output
  };
  Kind kind = Kind::kDense;
  int32_t index = 0;  // in Graph::outputs; kInput: in Graph::inputs
  DType dtype = DType::kF32;
  Dims dims;  // of the output
  Dims strides;
  Dims memory_dims;  // of the memory, with the same rank
  Dims memory_strides;
};

ResultForm result_form(const Graph& graph, const lower::ProgramResult& result,
                       std::span<const int64_t> symbols);

}  // namespace torch_pjrt::compile
