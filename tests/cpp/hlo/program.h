// Builds, compiles and runs a program on the plugin named by TORCH_PJRT_TEST_PLUGIN.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "hlo/builder.h"
#include "pjrt/client.h"

namespace torch_pjrt::hlo {

using Bytes = std::vector<char>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

inline const pjrt::Client& client() {
  static const auto* kept = [] {
    const char* path = std::getenv("TORCH_PJRT_TEST_PLUGIN");
    if (path == nullptr) std::abort();
    return pjrt::Client::create(pjrt::Plugin::load(path)).release();
  }();
  return *kept;
}

// A program under construction, with the data of its arguments.
class Program {
 public:
  template <class T>
  Value input(DType dtype, const Dims& dims, const std::vector<T>& values) {
    const Type type{dtype, dims};
    EXPECT_EQ(type.num_bytes(), static_cast<int64_t>(values.size() * sizeof(T)));
    inputs_.emplace_back(type, bytes_of(values));
    return build.argument(type);
  }
  Value floats(const Dims& dims, const std::vector<float>& values) {
    return input<float>(DType::kF32, dims, values);
  }
  Value longs(const Dims& dims, const std::vector<int64_t>& values) {
    return input<int64_t>(DType::kI64, dims, values);
  }

  // The data of the results, whose types are checked.
  std::vector<Bytes> run(const std::vector<Value>& results) const {
    const std::string text = build.module(results);
    SCOPED_TRACE(text);
    const pjrt::CompileOptions options{{{"xla_cpu_enable_fast_math", false}}};
    const auto executable = client().compile(text, options);
    std::vector<pjrt::Buffer> arguments;
    std::vector<PJRT_Buffer*> handles;
    std::vector<int64_t> kept;
    for (const auto& [type, bytes] : inputs_) {
      kept.push_back(static_cast<int64_t>(handles.size()));
      arguments.push_back(
          client().from_host(bytes.data(), type, pjrt::HostSemantics::kImmutableOnlyDuringCall));
      handles.push_back(arguments.back().get());
    }
    std::vector<pjrt::Buffer> outputs;
    executable->execute(handles, kept, outputs).await();
    EXPECT_EQ(outputs.size(), results.size());
    std::vector<Bytes> data;
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(outputs[i].type(), results[i].type);
      data.emplace_back(results[i].type.num_bytes());
      outputs[i].to_host(data.back().data(), data.back().size());
    }
    return data;
  }

  template <class T>
  std::vector<T> values(const Value& result) const {
    return values_of<T>(run({result})[0]);
  }
  std::vector<float> floats(const Value& result) const { return values<float>(result); }
  std::vector<int64_t> longs(const Value& result) const { return values<int64_t>(result); }

  Builder build{"HIGHEST"};

 private:
  std::vector<std::pair<Type, Bytes>> inputs_;
};

// A region that is one elementwise op of two values.
inline Region combine(Builder& build, Op op) {
  return [&build, op](std::span<const Value> v) {
    return std::vector<Value>{build.elementwise(op, v)};
  };
}

inline Region compared(Builder& build, Direction direction) {
  return [&build, direction](std::span<const Value> v) {
    return std::vector<Value>{build.compare(direction, v[0], v[1])};
  };
}

}  // namespace torch_pjrt::hlo
