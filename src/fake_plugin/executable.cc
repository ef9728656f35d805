#include "fake_plugin/executable.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fake_plugin/buffer.h"
#include "fake_plugin/client.h"
#include "fake_plugin/strict.h"
#include "fake_plugin/table.h"

struct PJRT_SerializedExecutable {
  std::string bytes;
};

namespace torch_pjrt::fake {
namespace {

// What a serialized program begins with, before its text.
constexpr std::string_view kMagic = "fake plugin: ";
constexpr std::string_view kName = "main";
constexpr std::string_view kMemoryKind = "unpinned_host";
constexpr std::string_view kFlops = "flops";
constexpr size_t kZeroedBytes = 64;

std::unique_ptr<PJRT_Executable> describe(const PJRT_LoadedExecutable& loaded) {
  auto executable = std::make_unique<PJRT_Executable>(loaded.client());
  executable->program = loaded.program;
  for (const Shape& result : loaded.program->results) {
    executable->output_types.push_back(result.type);
    executable->output_ranks.push_back(result.dims.size());
    executable->output_dims.insert(executable->output_dims.end(), result.dims.begin(),
                                   result.dims.end());
    executable->memory_kinds.push_back(kMemoryKind.data());
    executable->memory_kind_sizes.push_back(kMemoryKind.size());
  }
  PJRT_NamedValue& flops = executable->flops;
  flops.struct_size = sizeof(flops);
  flops.name = kFlops.data();
  flops.name_size = kFlops.size();
  flops.type = PJRT_NamedValue_kFloat;
  flops.float_value = 0;
  flops.value_size = 1;
  return executable;
}

bool overlap(const PJRT_Buffer& a, const PJRT_Buffer& b) {
  const auto* a_begin = static_cast<const char*>(a.storage()->data());
  const auto* b_begin = static_cast<const char*>(b.storage()->data());
  return a_begin < b_begin + b.shape.num_bytes() && b_begin < a_begin + a.shape.num_bytes();
}

bool may_donate(const PJRT_ExecuteOptions& options, size_t argument) {
  const int64_t* begin = options.non_donatable_input_indices;
  const int64_t* end = begin + options.num_non_donatable_input_indices;
  return std::find(begin, end, static_cast<int64_t>(argument)) == end;
}

// Ends the process if an argument isn't what the program says, where an ordinary client only looks
// at its size, or is memory that another argument's is to be overwritten in.
void check_strictly(const Program& program, const PJRT_LoadedExecutable_Execute_Args& args) {
  PJRT_Buffer* const* arguments = args.argument_lists[0];
  for (size_t i = 0; i < args.num_args; ++i) {
    check_alive("PJRT_LoadedExecutable_Execute", arguments[i]);
    if (i < program.parameters.size() && arguments[i]->shape != program.parameters[i]) {
      die("PJRT_LoadedExecutable_Execute: argument ", i, " is ", text(arguments[i]->shape),
          ", the program wants ", text(program.parameters[i]));
    }
  }
  for (const std::optional<size_t>& donor : program.donors) {
    if (!donor || !may_donate(*args.options, *donor)) continue;
    for (size_t i = 0; i < args.num_args; ++i) {
      if (arguments[i] == arguments[*donor] || !overlap(*arguments[i], *arguments[*donor]))
        continue;
      die("PJRT_LoadedExecutable_Execute: the memory of argument ", *donor,
          ", which is donated, overlaps that of argument ", i);
    }
  }
}

// Throws if the arguments don't fit the program. Like XLA, it compares sizes in bytes only.
void check_arguments(const Program& program, const PJRT_LoadedExecutable_Execute_Args& args) {
  if (args.num_devices != 1) {
    fail(PJRT_Error_Code_UNIMPLEMENTED, "fake plugin: execution on ", args.num_devices, " devices");
  }
  if (args.num_args != program.parameters.size()) {
    fail(PJRT_Error_Code_INVALID_ARGUMENT, "fake plugin: ", args.num_args,
         " arguments for a program with ", program.parameters.size());
  }
  for (size_t i = 0; i < args.num_args; ++i) {
    const PJRT_Buffer& argument = *args.argument_lists[0][i];
    if (argument.is_deleted()) argument.storage();  // throws
    const size_t expected = program.parameter_bytes[i];
    if (argument.num_bytes != expected) {
      fail(PJRT_Error_Code_INVALID_ARGUMENT, "fake plugin: argument ", i, " has ",
           argument.num_bytes, " bytes, the program wants ", expected);
    }
  }
}

// Marks the buffers that are to be donated; false if one of them is passed twice.
bool is_each_donated_once(const Program& program, const PJRT_LoadedExecutable_Execute_Args& args) {
  static std::atomic<uint64_t> executions = 0;
  const uint64_t mark = ++executions;
  PJRT_Buffer* const* arguments = args.argument_lists[0];
  size_t donated = 0;
  for (const std::optional<size_t>& donor : program.donors) {
    if (!donor || !may_donate(*args.options, *donor)) continue;
    if (arguments[*donor]->donated_to.exchange(mark, std::memory_order_relaxed) == mark)
      return false;
    ++donated;
  }
  for (size_t i = 0; i < args.num_args; ++i) {
    if (arguments[i]->donated_to.load(std::memory_order_relaxed) == mark) --donated;
  }
  return donated == 0;
}

// Throws if a buffer that is to be donated is passed twice.
void check_donation(const Program& program, const PJRT_LoadedExecutable_Execute_Args& args) {
  if (is_each_donated_once(program, args)) return;
  const std::span arguments(args.argument_lists[0], args.num_args);
  std::vector<std::pair<PJRT_Buffer*, size_t>> donated;
  for (const std::optional<size_t>& donor : program.donors) {
    if (donor && may_donate(*args.options, *donor)) donated.emplace_back(arguments[*donor], *donor);
  }
  std::ranges::sort(donated);
  for (size_t i = 0; i < arguments.size(); ++i) {
    for (const auto& [_, donor] : std::ranges::equal_range(donated, arguments[i], {},
                                                           &decltype(donated)::value_type::first)) {
      if (donor == i) continue;
      fail(PJRT_Error_Code_INVALID_ARGUMENT, "fake plugin: argument ", donor,
           " is donated and passed a second time");
    }
  }
}

// The memory of output `i`: its donor's if it may be written to, else fresh.
std::shared_ptr<Storage> output_storage(const Program& program, size_t i,
                                        const PJRT_LoadedExecutable_Execute_Args& args) {
  const std::optional<size_t>& donor = program.donors[i];
  if (donor && may_donate(*args.options, *donor)) {
    std::shared_ptr<Storage> storage = args.argument_lists[0][*donor]->take();
    if (storage && storage->writable()) return storage;
  }
  const size_t size = program.results[i].num_bytes();
  const bool own_memory = args.executable->client()->modes.own_memory;
  auto storage = std::make_shared<Storage>(size, own_memory);
  // So that a program's small result that says what is wrong says nothing.
  if (size <= kZeroedBytes && !own_memory) std::memset(storage->data(), 0, size);
  return storage;
}

void execute(PJRT_LoadedExecutable_Execute_Args& args) {
  if (args.executable->deleted) {
    fail(PJRT_Error_Code_FAILED_PRECONDITION, "fake plugin: the executable has been deleted");
  }
  const Program& program = *args.executable->program;
  if (args.executable->is_strict()) check_strictly(program, args);
  check_arguments(program, args);
  check_donation(program, args);
  std::vector<std::unique_ptr<PJRT_Buffer>> outputs;
  outputs.reserve(program.results.size());
  for (size_t i = 0; i < program.results.size(); ++i) {
    outputs.push_back(std::make_unique<PJRT_Buffer>(
        args.executable->client(),
        std::shared_ptr<const Shape>(args.executable->program, &program.results[i]),
        output_storage(program, i, args)));
  }
  const auto& late = args.executable->client()->late;
  const std::shared_ptr<Completion> end = late ? late->begin() : nullptr;
  for (const auto& output : outputs) output->written = end;
  if (args.device_complete_events)
    args.device_complete_events[0] = make_event(args.executable->client(), end);
  for (size_t i = 0; i < outputs.size(); ++i) args.output_lists[0][i] = outputs[i].release();
}

PJRT_LoadedExecutable* load(PJRT_Client* client, std::string_view text) {
  auto executable = std::make_unique<PJRT_LoadedExecutable>(client);
  executable->program = std::make_shared<const Program>(parse_program(text));
  return executable.release();
}

void serialize(PJRT_Executable_Serialize_Args& args) {
  auto serialized = std::make_unique<PJRT_SerializedExecutable>();
  serialized->bytes = std::string(kMagic) + args.executable->program->text;
  args.serialized_bytes = serialized->bytes.data();
  args.serialized_bytes_size = serialized->bytes.size();
  args.serialized_executable_deleter = [](PJRT_SerializedExecutable* bytes) {
    const std::unique_ptr<PJRT_SerializedExecutable> owner(bytes);
  };
  args.serialized_executable = serialized.release();
}

void deserialize(PJRT_Executable_DeserializeAndLoad_Args& args) {
  std::string_view bytes(args.serialized_executable, args.serialized_executable_size);
  if (!bytes.starts_with(kMagic)) {
    fail(PJRT_Error_Code_INVALID_ARGUMENT, "fake plugin: no serialized program of this plugin");
  }
  bytes.remove_prefix(kMagic.size());
  args.loaded_executable = load(args.client, bytes);
}

void add_loaded(Table& table) {
  table.add_destructor<&PJRT_Api::PJRT_LoadedExecutable_Destroy>(
      [](auto& args) { destroy(args.executable); });
  table.add<&PJRT_Api::PJRT_LoadedExecutable_GetExecutable>(
      [](auto& args) { args.executable = describe(*args.loaded_executable).release(); });
  table.add<&PJRT_Api::PJRT_LoadedExecutable_AddressableDevices>([](auto& args) {
    args.addressable_devices = args.executable->client()->device_list.data();
    args.num_addressable_devices = 1;
  });
  table.add<&PJRT_Api::PJRT_LoadedExecutable_Delete>(
      [](auto& args) { args.executable->deleted = true; });
  table.add<&PJRT_Api::PJRT_LoadedExecutable_IsDeleted>(
      [](auto& args) { args.is_deleted = args.executable->deleted; });
  table.add<&PJRT_Api::PJRT_LoadedExecutable_Execute>([](auto& args) { execute(args); });
  table.add<&PJRT_Api::PJRT_Executable_Serialize>([](auto& args) { serialize(args); });
  table.add<&PJRT_Api::PJRT_Executable_DeserializeAndLoad>([](auto& args) { deserialize(args); });
}

void add_facts(Table& table) {
  table.add<&PJRT_Api::PJRT_Executable_Name>([](auto& args) {
    args.executable_name = kName.data();
    args.executable_name_size = kName.size();
  });
  table.add<&PJRT_Api::PJRT_Executable_NumReplicas>([](auto& args) { args.num_replicas = 1; });
  table.add<&PJRT_Api::PJRT_Executable_NumPartitions>([](auto& args) { args.num_partitions = 1; });
  table.add<&PJRT_Api::PJRT_Executable_SizeOfGeneratedCodeInBytes>([](auto& args) {
    args.size_in_bytes = static_cast<int64_t>(args.executable->program->text.size());
  });
  table.add<&PJRT_Api::PJRT_Executable_GetCostAnalysis>([](auto& args) {
    args.properties = &args.executable->flops;
    args.num_properties = 1;
  });
}

void add_outputs(Table& table) {
  table.add<&PJRT_Api::PJRT_Executable_NumOutputs>(
      [](auto& args) { args.num_outputs = args.executable->program->results.size(); });
  table.add<&PJRT_Api::PJRT_Executable_OutputElementTypes>([](auto& args) {
    args.output_types = args.executable->output_types.data();
    args.num_output_types = args.executable->output_types.size();
  });
  table.add<&PJRT_Api::PJRT_Executable_OutputDimensions>([](auto& args) {
    args.num_outputs = args.executable->output_ranks.size();
    args.dims = args.executable->output_dims.data();
    args.dim_sizes = args.executable->output_ranks.data();
  });
  table.add<&PJRT_Api::PJRT_Executable_OutputMemoryKinds>([](auto& args) {
    args.num_outputs = args.executable->memory_kinds.size();
    args.memory_kinds = args.executable->memory_kinds.data();
    args.memory_kind_sizes = args.executable->memory_kind_sizes.data();
  });
}

}  // namespace

void compile(PJRT_Client_Compile_Args& args) {
  const std::string_view format(args.program->format, args.program->format_size);
  if (format != "mlir") {
    fail(PJRT_Error_Code_INVALID_ARGUMENT, "fake plugin: program format '", format, "'");
  }
  if (args.compile_options_size == 0) {
    // XLA aborts the process, which a test could only learn less from.
    fail(PJRT_Error_Code_INVALID_ARGUMENT, "fake plugin: no compile options");
  }
  args.executable = load(args.client, {args.program->code, args.program->code_size});
}

void add_executable_functions(Table& table) {
  table.add_destructor<&PJRT_Api::PJRT_Executable_Destroy>(
      [](auto& args) { destroy(args.executable); });
  add_loaded(table);
  add_facts(table);
  add_outputs(table);
}

}  // namespace torch_pjrt::fake
