// The fixture of tests that run on the fake plugin and on a real one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "pjrt/client.h"

namespace torch_pjrt::pjrt {

struct Device {
  // Empty where it isn't known.
  std::string plugin_path;
  // Whether results are computed; else they are left as they are.
  bool computes;
};

class DeviceTest : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    ASSERT_FALSE(GetParam().plugin_path.empty())
        << "set TORCH_PJRT_TEST_PLUGIN to the path of a plugin";
  }

  // One for all tests of the process, since a plugin is loaded once.
  static const Client& client() {
    static const std::unique_ptr<const Client> client =
        Client::create(Plugin::load(GetParam().plugin_path));
    return *client;
  }
  static bool computes() { return GetParam().computes; }
};

// Uninitialised host memory aligned as a plugin wants it, or `offset` bytes past that.
class HostArray {
 public:
  explicit HostArray(size_t size, size_t offset = 0)
      : memory_(std::aligned_alloc(
            kHostAlignment, (size + offset + kHostAlignment) / kHostAlignment * kHostAlignment)),
        offset_(offset) {}

  template <class T = char>
  T* data() const {
    return reinterpret_cast<T*>(static_cast<char*>(memory_.get()) + offset_);
  }

  template <class T>
  const HostArray& fill(size_t count, T value) const {
    std::fill_n(data<T>(), count, value);
    return *this;
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  std::unique_ptr<void, Free> memory_;
  size_t offset_;
};

inline std::vector<float> floats(const Buffer& buffer) {
  std::vector<float> values(static_cast<size_t>(buffer.type().num_elements()));
  buffer.to_host(values.data(), values.size() * sizeof(float));
  return values;
}

// Runs, waits, and gives back the outputs.
inline std::vector<Buffer> run(const Executable& executable,
                               const std::vector<const Buffer*>& arguments,
                               const std::vector<int64_t>& non_donatable = {}) {
  std::vector<PJRT_Buffer*> handles;
  for (const Buffer* argument : arguments) handles.push_back(argument->get());
  std::vector<Buffer> outputs;
  executable.execute(handles, non_donatable, outputs).wait(100);
  return outputs;
}

// The message of the Error that `body` throws, after its code: "plugin: ..."; empty if it throws
// nothing.
template <class Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return std::string(name(error.code())) + ": " + error.what();
  }
  return "";
}

// Whether `text` has line:column somewhere.
inline bool has_line_and_column(const std::string& text) {
  const auto digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == ':' && digit(i - 1) && digit(i + 1)) return true;
  }
  return false;
}

// One function of `parameters` (named %a, %b, ...) to `results`, which `body` returns.
inline std::string module_text(const std::string& parameters, const std::string& results,
                               const std::string& body) {
  return "module {\n  func.func public @main(" + parameters + ") -> (" + results + ") {\n    " +
         body + "\n  }\n}\n";
}

inline const std::string kNegate =
    module_text("%a: tensor<16xf32>", "tensor<16xf32>",
                "%0 = stablehlo.negate %a : tensor<16xf32>\n    return %0 : tensor<16xf32>");
// Its result goes to its argument's memory.
inline const std::string kNegateInPlace =
    module_text("%a: tensor<16xf32> {tf.aliasing_output = 0 : i32}", "tensor<16xf32>",
                "%0 = stablehlo.negate %a : tensor<16xf32>\n    return %0 : tensor<16xf32>");
// Its result goes to the memory of the second argument, which it doesn't read.
inline const std::string kNegateInto = module_text(
    "%a: tensor<16xf32>, %b: tensor<16xf32> {tf.aliasing_output = 0 : i32}", "tensor<16xf32>",
    "%0 = stablehlo.negate %a : tensor<16xf32>\n    return %0 : tensor<16xf32>");
inline const Type kVector{DType::kF32, {16}};
inline constexpr size_t kVectorBytes = 64;

}  // namespace torch_pjrt::pjrt
