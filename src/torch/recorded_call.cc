#include "torch/recorded_call.h"

#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/arange.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>

#include "lower/lower.h"
#include "torch/key_bytes.h"
#include "torch/storage.h"
#include "torch/tensor.h"

namespace torch_pjrt::lazy {
namespace {

constexpr size_t kUsualKeySize = 256;  // bytes

bool is_wrapped_number(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

at::Scalar number_of(const at::Tensor& tensor) {
  return at::native::_local_scalar_dense_cpu(tensor);
}

// Ops that take indices on the CPU with a tensor on the device, as on other devices.
bool takes_host_tensors(const OpFacts& facts) { return facts.name.starts_with("aten::index"); }

bool is_dtype_type(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::OptionalType) {
    return is_dtype_type(*type.castRaw<c10::OptionalType>()->getElementType());
  }
  return type.kind() == c10::TypeKind::ScalarTypeType;
}

std::string name_of_dtype(int64_t number) {
  return name(aten::from_torch(static_cast<at::ScalarType>(number)));
}

TraceArgument traced(const at::Scalar& number) {
  if (number.isBoolean()) return {number.toBool()};
  if (number.isIntegral(false)) return {number.toLong()};
  if (number.isComplex()) return {std::complex<double>(number.toComplexDouble())};
  return {number.toDouble()};
}

TraceArgument traced(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (is_wrapped_number(tensor)) return traced(number_of(tensor));
  return {Geometry::of(*tensor.unsafeGetTensorImpl())};
}

TraceArgument traced(const c10::IValue& value) {
  if (value.isTensor()) return traced(value.toTensor());
  if (value.isScalar()) return traced(value.toScalar());
  if (value.isString()) return {value.toStringRef()};
  if (!value.isList()) return {};
  std::vector<TraceArgument> items;
  for (const c10::IValue& item : value.toListRef()) items.push_back(traced(item));
  return {std::move(items)};
}

}  // namespace

RecordedCall::RecordedCall(const OpFacts& facts, std::span<const c10::IValue> arguments)
    : facts_(facts), arguments_(arguments) {
  key_.reserve(kUsualKeySize);
  append(key_, reinterpret_cast<uintptr_t>(facts.traced));
  key_.push_back(static_cast<char>(c10::get_default_dtype_as_scalartype()));
  for (size_t i = 0; i < facts.sources.size(); ++i) {
    const int32_t given = facts.sources[i].argument;
    given >= 0 ? add(arguments[given], i) : add(argument(i), i);
  }
  if (facts.counts) add_count();
}

c10::IValue RecordedCall::argument(size_t traced) const {
  const OpFacts::Source& source = facts_.sources[traced];
  if (source.argument >= 0) return arguments_[source.argument];
  if (!source.dtype_of_out) return {};
  return static_cast<int64_t>(arguments_[facts_.written.front()].toTensor().scalar_type());
}

void RecordedCall::add(const c10::IValue& value, std::optional<size_t> traced) {
  if (value.isTensor()) return add_tensor(value.toTensor(), traced);
  if (value.isScalar()) return add_number(value.toScalar(), traced);
  if (value.isGenerator()) generator_ = value.toGenerator();
  if (value.isNone() || value.isDevice() || value.isGenerator()) {
    key_.push_back('n');
  } else if (value.isString()) {
    key_.push_back('s');
    append(key_, value.toStringRef().size());
    key_ += value.toStringRef();
  } else if (value.isIntList()) {
    const auto list = value.toIntList();
    key_.push_back('I');
    append(key_, list.size());
    for (const int64_t item : list) append(key_, item);
  } else if (value.isList()) {
    const auto list = value.toListRef();
    key_.push_back('L');
    append(key_, list.size());
    for (const c10::IValue& item : list) add(item, std::nullopt);
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(false, facts_.name, ": device pjrt takes no argument of type ",
                                value.tagKind());
  }
}

void RecordedCall::add_tensor(const at::Tensor& tensor, std::optional<size_t> traced) {
  if (!tensor.defined()) {
    key_.push_back('n');
    return;
  }
  if (is_wrapped_number(tensor)) return add_number(number_of(tensor), traced);
  TORCH_CHECK(tensor.device().type() == kDevice || (tensor.is_cpu() && tensor.dim() == 0) ||
                  (tensor.is_cpu() && takes_host_tensors(facts_)),
              "Expected all tensors to be on the same device, but found at least two devices, "
              "pjrt:0 and ",
              tensor.device(), "! (in ", facts_.name, ")");
  key_.push_back('t');
  Geometry::append_to(key_, *tensor.unsafeGetTensorImpl());
  operands_.push_back(&tensor);
}

bool RecordedCall::is_value(std::optional<size_t> traced, const Number& number) const {
  if (!traced) return false;
  const OpFacts::Role role = facts_.sources[*traced].role;
  if (role != OpFacts::Role::kByNumber) return role == OpFacts::Role::kValue;
  return lower::is_value(facts_.traced_name, facts_.traced->arguments()[*traced].name(),
                         facts_.sources[*traced].is_number, &number);
}

void RecordedCall::add_number(const at::Scalar& number, std::optional<size_t> traced) {
  using Kind = ScalarKind;
  const Kind kind = number.isBoolean()         ? Kind::kBool
                    : number.isIntegral(false) ? Kind::kInt
                    : number.isComplex()       ? Kind::kComplex
                                               : Kind::kFloat;
  key_.push_back('0' + static_cast<char>(kind));
  if (kind == Kind::kComplex) {
    const c10::complex<double> v = number.toComplexDouble();
    if (!traced || facts_.sources[*traced].role == OpFacts::Role::kStructure) {
      return append(key_, v);
    }
    numbers_.push_back(Scalar::constant(kind, Number::of_float(v.real())));
    numbers_.push_back(Scalar::constant(Kind::kFloat, Number::of_float(v.imag())));
    key_.push_back('v');
    key_.push_back(static_cast<char>(numbers_[numbers_.size() - 2].scalar_class));
    key_.push_back(static_cast<char>(numbers_.back().scalar_class));
    return;
  }
  const Number n = kind == Kind::kFloat  ? Number::of_float(number.toDouble())
                   : kind == Kind::kBool ? Number::of_int(number.toBool())
                                         : Number::of_int(number.toLong());
  if (!is_value(traced, n)) {
    key_.push_back('=');
    return kind == Kind::kFloat ? append(key_, n.f) : append(key_, n.i);
  }
  numbers_.push_back(Scalar::constant(kind, n));
  key_.push_back('v');
  key_.push_back(static_cast<char>(numbers_.back().scalar_class));
}

// The size of the result of arange. Throws what eager does for numbers that it doesn't take.
void RecordedCall::add_count() {
  at::Scalar start = 0;
  at::Scalar end = 0;
  at::Scalar step = 1;
  at::TensorOptions options(at::kMeta);
  for (size_t i = 0; i < facts_.sources.size(); ++i) {
    const std::string& name = facts_.traced->arguments()[i].name();
    const c10::IValue value = argument(i);
    if (name == "start") start = value.toScalar();
    if (name == "end") end = value.toScalar();
    if (name == "step") step = value.toScalar();
    if (name == "dtype" && value.isInt()) {
      options = options.dtype(static_cast<at::ScalarType>(value.toInt()));
    }
  }
  append(key_, at::arange(start, end, step, options).size(0));
}

std::optional<size_t> RecordedCall::operand_of(size_t argument) const {
  if (!arguments_[argument].isTensor()) return std::nullopt;
  const auto it = std::ranges::find(operands_, &arguments_[argument].toTensor());
  if (it == operands_.end()) return std::nullopt;
  return static_cast<size_t>(it - operands_.begin());
}

std::vector<TraceArgument> RecordedCall::trace_arguments() const {
  std::vector<TraceArgument> arguments;
  for (size_t i = 0; i < facts_.sources.size(); ++i) {
    const c10::IValue value = argument(i);
    const bool is_dtype =
        value.isInt() && is_dtype_type(*facts_.traced->arguments()[i].real_type());
    arguments.push_back(is_dtype ? TraceArgument{name_of_dtype(value.toInt())} : traced(value));
  }
  return arguments;
}

}  // namespace torch_pjrt::lazy
