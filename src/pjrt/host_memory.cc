#include "pjrt/host_memory.h"

#include <array>
#include <vector>

#include "base/error.h"
#include "pjrt/client.h"

namespace torch_pjrt::pjrt {
namespace {

constexpr int64_t kElements = 16;

// The second argument is only there to give its memory to the result.
constexpr const char* kProgram = R"(module @probe {
  func.func public @main(%arg0: tensor<16xf32>,
                              %arg1: tensor<16xf32> {tf.aliasing_output = 0 : i32})
      -> tensor<16xf32> {
    %0 = stablehlo.negate %arg0 : tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}
)";

struct alignas(kHostAlignment) Memory {
  std::array<float, kElements> values = {};
};

bool takes_without_copy(const Client& client, const Memory& memory, const Type& type) {
  try {
    const Buffer buffer =
        client.from_host(memory.values.data(), type, HostSemantics::kImmutableZeroCopy);
    return buffer.unsafe_pointer() == memory.values.data();
  } catch (const Error&) {
    return false;
  }
}

bool writes_to_donated(const Client& client, const Memory& input, Memory& output,
                       const Type& type) {
  try {
    const auto program = client.compile(kProgram, {});
    const Buffer argument =
        client.from_host(input.values.data(), type, HostSemantics::kImmutableOnlyDuringCall);
    const Buffer donated =
        client.from_host(output.values.data(), type, HostSemantics::kMutableZeroCopy);
    const std::array<PJRT_Buffer*, 2> arguments = {argument.get(), donated.get()};
    std::vector<Buffer> outputs;
    program->execute(arguments, {}, outputs).await();
    return outputs.at(0).unsafe_pointer() == output.values.data();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

HostMemory probe_host_memory(const Client& client) {
  const Type type{DType::kF32, {kElements}};
  const Memory input;
  Memory output;
  return {takes_without_copy(client, input, type), writes_to_donated(client, input, output, type)};
}

}  // namespace torch_pjrt::pjrt
