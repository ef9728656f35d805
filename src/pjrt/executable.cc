#include "pjrt/executable.h"

#include <array>
#include <string_view>

#include "pjrt/element_type.h"

namespace torch_pjrt::pjrt {
namespace {

// The null-filled list that a plugin writes its outputs to; on the stack for all but huge programs.
class OutputList {
 public:
  explicit OutputList(size_t size) {
    if (size > few_.size()) {
      many_.resize(size);
    } else {
      std::fill_n(few_.begin(), size, nullptr);
    }
  }

  PJRT_Buffer** data() { return many_.empty() ? few_.data() : many_.data(); }

 private:
  std::array<PJRT_Buffer*, 64> few_;
  std::vector<PJRT_Buffer*> many_;
};

}  // namespace

Executable::Executable(Api api, PJRT_LoadedExecutable* executable)
    : loaded_(executable, {api}), executable_(nullptr, {api}) {
  executable_.reset(
      api.call<&PJRT_Api::PJRT_LoadedExecutable_GetExecutable>({.loaded_executable = executable})
          .executable);
  num_outputs_ = api.call<&PJRT_Api::PJRT_Executable_NumOutputs>({.executable = executable_.get()})
                     .num_outputs;
}

Event Executable::execute(std::span<PJRT_Buffer* const> arguments,
                          std::span<const int64_t> non_donatable,
                          std::vector<Buffer>& outputs) const {
  // Before anything runs, so that nothing can throw after it.
  outputs.reserve(outputs.size() + num_outputs_);
  OutputList results(num_outputs_);

  PJRT_ExecuteOptions options = {};
  options.struct_size = sizeof(options);
  options.non_donatable_input_indices = non_donatable.data();
  options.num_non_donatable_input_indices = non_donatable.size();
  PJRT_Buffer* const* argument_lists[] = {arguments.data()};
  PJRT_Buffer** output_lists[] = {results.data()};
  // Always asked for: a caller that doesn't know when the program ended frees memory that it is
  // still writing to.
  PJRT_Event* complete[] = {nullptr};
  api().call<&PJRT_Api::PJRT_LoadedExecutable_Execute>({.executable = loaded_.get(),
                                                        .options = &options,
                                                        .argument_lists = argument_lists,
                                                        .num_devices = 1,
                                                        .num_args = arguments.size(),
                                                        .output_lists = output_lists,
                                                        .device_complete_events = complete});
  for (size_t i = 0; i < num_outputs_; ++i) outputs.emplace_back(api(), results.data()[i]);
  return {api(), complete[0]};
}

std::string Executable::serialize() const {
  const auto args =
      api().call<&PJRT_Api::PJRT_Executable_Serialize>({.executable = executable_.get()});
  const std::unique_ptr<PJRT_SerializedExecutable, void (*)(PJRT_SerializedExecutable*)> owner(
      args.serialized_executable, args.serialized_executable_deleter);
  return {args.serialized_bytes, args.serialized_bytes_size};
}

std::optional<std::vector<Type>> Executable::output_types() const {
  const auto elements =
      api().ask<&PJRT_Api::PJRT_Executable_OutputElementTypes>({.executable = executable_.get()});
  const auto shapes =
      api().ask<&PJRT_Api::PJRT_Executable_OutputDimensions>({.executable = executable_.get()});
  if (!elements || !shapes || elements->num_output_types != shapes->num_outputs) {
    return std::nullopt;
  }
  std::vector<Type> types;
  const int64_t* dims = shapes->dims;
  for (size_t i = 0; i < shapes->num_outputs; ++i) {
    const std::optional<DType> dtype = from_pjrt(elements->output_types[i]);
    if (!dtype) return std::nullopt;
    types.push_back({*dtype, Dims(dims, dims + shapes->dim_sizes[i])});
    dims += shapes->dim_sizes[i];
  }
  return types;
}

std::optional<double> Executable::flops() const {
  const auto costs =
      api().ask<&PJRT_Api::PJRT_Executable_GetCostAnalysis>({.executable = executable_.get()});
  if (!costs) return std::nullopt;
  for (size_t i = 0; i < costs->num_properties; ++i) {
    const PJRT_NamedValue& cost = costs->properties[i];
    if (std::string_view(cost.name, cost.name_size) != "flops") continue;
    if (cost.type == PJRT_NamedValue_kFloat) return cost.float_value;
    if (cost.type == PJRT_NamedValue_kInt64) return static_cast<double>(cost.int64_value);
  }
  return std::nullopt;
}

std::optional<int64_t> Executable::code_size_bytes() const {
  const auto size = api().ask<&PJRT_Api::PJRT_Executable_SizeOfGeneratedCodeInBytes>(
      {.executable = executable_.get()});
  if (!size) return std::nullopt;
  return size->size_in_bytes;
}

}  // namespace torch_pjrt::pjrt
