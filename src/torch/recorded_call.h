// The arguments of one call of an op on the device, as its signature's key, operands and numbers.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "torch/host.h"
#include "torch/op_facts.h"

namespace torch_pjrt::lazy {

class RecordedCall {
 public:
  // `arguments` are those of the op's schema. Throws c10::Error for tensors on another device.
  RecordedCall(const OpFacts& facts, std::span<const c10::IValue> arguments);

  const std::string& key() const { return key_; }
  // On the device, or 0-d tensors on the CPU; among the arguments, which outlive this.
  std::span<const at::Tensor* const> operands() const { return operands_; }
  // Which of them an argument of the op is; none if it is no such tensor.
  std::optional<size_t> operand_of(size_t argument) const;
  const std::vector<Scalar>& numbers() const { return numbers_; }
  std::vector<Scalar> take_numbers() { return std::move(numbers_); }
  const std::optional<at::Generator>& generator() const { return generator_; }
  // The arguments of the traced op.
  std::vector<TraceArgument> trace_arguments() const;

 private:
  // `traced` is the value's place among the arguments, nothing for an item of a list.
  void add(const c10::IValue& value, std::optional<size_t> traced);
  void add_tensor(const at::Tensor& tensor, std::optional<size_t> traced);
  void add_number(const at::Scalar& number, std::optional<size_t> traced);
  bool is_value(std::optional<size_t> traced, const Number& number) const;
  void add_count();
  c10::IValue argument(size_t traced) const;

  const OpFacts& facts_;
  std::span<const c10::IValue> arguments_;
  std::string key_;
  c10::SmallVector<const at::Tensor*, 8> operands_;
  std::vector<Scalar> numbers_;
  std::optional<at::Generator> generator_;
};

}  // namespace torch_pjrt::lazy
