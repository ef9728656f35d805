#include "compile/result_form.h"

#include "compile/binding.h"

namespace torch_pjrt::compile {

ResultForm result_form(const Graph& graph, const lower::ProgramResult& result,
                       std::span<const int64_t> symbols) {
  ResultForm form;
  if (result.kind == lower::ProgramResult::Kind::kMutation) {
    form.kind = ResultForm::Kind::kInput;
    form.index = graph.mutations[result.index].input;
    return form;
  }
  if (result.kind == lower::ProgramResult::Kind::kStatus) {
    form.kind = ResultForm::Kind::kStatus;
    return form;
  }
  const SymType& type = graph.outputs[result.index].type;
  form.index = result.index;
  form.dtype = type.dtype;
  form.dims = evaluate(graph.exprs, type.dims, symbols);
  form.strides = evaluate(graph.exprs, type.strides, symbols);
  form.memory_dims = result.dims;
  form.memory_strides = dense_strides(result.dims, result.order);
  for (size_t d = 0; d < form.dims.size(); ++d) {
    if (form.memory_dims[d] != form.dims[d] && form.strides[d] == 0) {
      if (form.kind == ResultForm::Kind::kDense) form.kind = ResultForm::Kind::kExpanded;
    } else if (form.dims[d] > 1 && form.strides[d] != form.memory_strides[d]) {
      form.kind = ResultForm::Kind::kGaps;
    }
  }
  // Strides of an empty tensor reach no memory.
  if (Type{form.dtype, form.dims}.num_elements() == 0) form.kind = ResultForm::Kind::kDense;
  return form;
}

}  // namespace torch_pjrt::compile
