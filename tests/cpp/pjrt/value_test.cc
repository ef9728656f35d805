// Values, on a plugin that computes them.
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "device_test.h"

namespace torch_pjrt::pjrt {
namespace {

// The bits of 1, 2 and 3 in each dtype, in the order of DType; bool has `true` for each.
template <class T>
std::vector<char> bytes_of(const std::vector<T>& values) {
  std::vector<char> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

struct Numbers {
  DType dtype;
  std::vector<char> one;
  std::vector<char> two;
  std::vector<char> three;
};

template <class T>
Numbers numbers(DType dtype, T one, T two, T three) {
  return {dtype, bytes_of<T>({one, one}), bytes_of<T>({two, two}), bytes_of<T>({three, three})};
}

TEST_P(DeviceTest, EveryDTypeIsComputed) {
  const std::vector<Numbers> all = {
      numbers<uint8_t>(DType::kBool, 1, 0, 1),
      numbers<uint8_t>(DType::kU8, 1, 254, 255),
      numbers<int8_t>(DType::kI8, 1, -3, -2),
      numbers<int16_t>(DType::kI16, 1, 1000, 1001),
      numbers<int32_t>(DType::kI32, 1, 1 << 20, (1 << 20) + 1),
      numbers<int64_t>(DType::kI64, 1, int64_t{1} << 40, (int64_t{1} << 40) + 1),
      numbers<uint16_t>(DType::kF16, 0x3c00, 0x4000, 0x4200),
      numbers<uint16_t>(DType::kBF16, 0x3f80, 0x4000, 0x4040),
      numbers<float>(DType::kF32, 1, 2, 3),
      numbers<double>(DType::kF64, 1, 1e-15, 1 + 1e-15),
      numbers<std::complex<float>>(DType::kC64, {1, 2}, {3, -1}, {4, 1}),
      numbers<std::complex<double>>(DType::kC128, {1, 2}, {1e-15, -1}, {1 + 1e-15, 1}),
  };
  ASSERT_EQ(all.size(), static_cast<size_t>(kNumDTypes));
  for (const Numbers& n : all) {
    const Type type{n.dtype, {2}};
    const std::string tensor = std::string("tensor<2x") + mlir_name(n.dtype) + ">";
    const std::string operation = n.dtype == DType::kBool ? "or" : "add";
    const auto executable =
        client().compile(module_text("%a: " + tensor + ", %b: " + tensor, tensor,
                                     "%0 = stablehlo." + operation + " %a, %b : " + tensor +
                                         "\n    return %0 : " + tensor),
                         {});
    EXPECT_EQ(executable->output_types(), std::vector<Type>{type});
    const auto from = [&](const std::vector<char>& bytes) {
      return client().from_host(bytes.data(), type, HostSemantics::kImmutableOnlyDuringCall);
    };
    const Buffer a = from(n.one);
    const Buffer b = from(n.two);
    const std::vector<Buffer> outputs = run(*executable, {&a, &b});
    EXPECT_EQ(outputs[0].type(), type);
    std::vector<char> result(n.three.size());
    outputs[0].to_host(result.data(), result.size());
    EXPECT_EQ(result, n.three) << name(n.dtype);
  }
}

TEST_P(DeviceTest, TransposedResultComesBackInRowMajorOrder) {
  const auto executable = client().compile(
      module_text("%a: tensor<2x3xf32>", "tensor<3x2xf32>",
                  "%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> "
                  "tensor<3x2xf32>\n    return %0 : tensor<3x2xf32>"),
      {});
  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  const Buffer a = client().from_host(values.data(), {DType::kF32, {2, 3}},
                                      HostSemantics::kImmutableOnlyDuringCall);
  EXPECT_EQ(floats(run(*executable, {&a})[0]), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

std::vector<float> maximum_of_one_and_nan(const Client& client, const CompileOptions& options) {
  const auto executable =
      client.compile(module_text("%a: tensor<16xf32>, %b: tensor<16xf32>", "tensor<16xf32>",
                                 "%0 = stablehlo.maximum %a, %b : tensor<16xf32>\n"
                                 "    return %0 : tensor<16xf32>"),
                     options);
  const std::vector<float> ones(16, 1.0f);
  const std::vector<float> nans(16, std::numeric_limits<float>::quiet_NaN());
  const Buffer a = client.from_host(ones.data(), kVector, HostSemantics::kImmutableOnlyDuringCall);
  const Buffer b = client.from_host(nans.data(), kVector, HostSemantics::kImmutableOnlyDuringCall);
  return floats(run(*executable, {&a, &b})[0]);
}

TEST_P(DeviceTest, OverridesReachTheCompiler) {
  const std::string flag = "xla_cpu_enable_fast_min_max";
  const auto fast = maximum_of_one_and_nan(client(), {{{flag, true}}});
  EXPECT_EQ(fast, std::vector<float>(16, 1.0f));
  const auto exact = maximum_of_one_and_nan(client(), {{{flag, false}}});
  for (const float value : exact) EXPECT_TRUE(std::isnan(value)) << value;
}

TEST_P(DeviceTest, EveryKindOfOverrideIsAccepted) {
  // A number, a string and a second flag beside each other, by the names of XLA's debug options.
  EXPECT_EQ(error_of([&] {
              client().compile(kNegate, {{{"xla_backend_optimization_level", int64_t{1}},
                                          {"xla_dump_hlo_module_re", "no such module"},
                                          {"xla_cpu_enable_fast_math", false}}});
            }),
            "");
}

TEST_P(DeviceTest, UnknownOrMistypedOverrideIsAnError) {
  const std::string unknown =
      error_of([&] { client().compile(kNegate, {{{"xla_no_such_flag", true}}}); });
  EXPECT_NE(unknown.find("xla_no_such_flag"), std::string::npos) << unknown;
  EXPECT_NE(error_of([&] { client().compile(kNegate, {{{"xla_cpu_enable_fast_min_max", 0.5}}}); }),
            "");
  EXPECT_EQ(client().compile(kNegate, {})->num_outputs(), 1u);
}

// Large enough for the plugin to run it on a thread of its own.
TEST_P(DeviceTest, EventIsCompleteWhenTheValuesAreThere) {
  const Type type{DType::kF32, {512, 512}};
  const auto size = static_cast<size_t>(type.num_bytes());
  const auto executable = client().compile(
      module_text("%a: tensor<512x512xf32>, %b: tensor<512x512xf32> {tf.aliasing_output = 0 : i32}",
                  "tensor<512x512xf32>",
                  "%0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : "
                  "(tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>\n"
                  "    return %0 : tensor<512x512xf32>"),
      {});
  EXPECT_GT(executable->flops().value(), 1e6);
  const HostArray input(size);
  const HostArray output(size);
  input.fill(512 * 512, 1.0f);
  for (const int64_t spin_us : {0, 1, 100000}) {
    output.fill(512 * 512, 0.0f);
    const Buffer a = client().from_host(input.data(), type, HostSemantics::kImmutableZeroCopy);
    const Buffer b = client().from_host(output.data(), type, HostSemantics::kMutableZeroCopy);
    const std::vector<PJRT_Buffer*> arguments = {a.get(), b.get()};
    std::vector<Buffer> outputs;
    executable->execute(arguments, {}, outputs).wait(spin_us);
    EXPECT_EQ(std::count(output.data<float>(), output.data<float>() + 512 * 512, 512.0f),
              512 * 512);
  }
}

TEST_P(DeviceTest, IdentityOfTheRealPlugin) {
  const std::string identity = client().plugin().identity();
  EXPECT_EQ(identity, client().plugin().identity());
  EXPECT_TRUE(identity.starts_with("content:") || identity.starts_with("build-id:")) << identity;
}

}  // namespace
}  // namespace torch_pjrt::pjrt
