#include "torch/tensor.h"

#include <ATen/EmptyTensor.h>

#include "base/error.h"

namespace torch_pjrt::aten {
namespace {

// Kinds of tensors whose memory isn't all that they are, or that have none.
bool is_special(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kSpecial({c10::DispatchKey::Python, c10::DispatchKey::Functionalize,
                                          c10::DispatchKey::FuncTorchBatched,
                                          c10::DispatchKey::FuncTorchGradWrapper});
  return tensor.key_set().has_any(kSpecial) || tensor.layout() != at::kStrided ||
         tensor.is_quantized();
}

}  // namespace

DType from_torch(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBool:
      return DType::kBool;
    case at::kByte:
      return DType::kU8;
    case at::kChar:
      return DType::kI8;
    case at::kShort:
      return DType::kI16;
    case at::kInt:
      return DType::kI32;
    case at::kLong:
      return DType::kI64;
    case at::kHalf:
      return DType::kF16;
    case at::kBFloat16:
      return DType::kBF16;
    case at::kFloat:
      return DType::kF32;
    case at::kDouble:
      return DType::kF64;
    default:
      fail(Code::kUnsupported, "tensors of dtype ", c10::toString(dtype), " are not supported");
  }
}

at::ScalarType to_torch(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return at::kBool;
    case DType::kU8:
      return at::kByte;
    case DType::kI8:
      return at::kChar;
    case DType::kI16:
      return at::kShort;
    case DType::kI32:
      return at::kInt;
    case DType::kI64:
      return at::kLong;
    case DType::kF16:
      return at::kHalf;
    case DType::kBF16:
      return at::kBFloat16;
    case DType::kF32:
      return at::kFloat;
    case DType::kF64:
      return at::kDouble;
  }
  fail(Code::kInternal, "no such dtype: ", static_cast<int>(dtype));
}

bool is_plain(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() && !is_special(tensor) && !tensor.is_neg();
}

at::Tensor plain(const at::Tensor& tensor) {
  if (!tensor.defined()) fail(Code::kInvalid, "the tensor is undefined");
  if (!tensor.is_cpu()) {
    fail(Code::kUnsupported, "the tensor is on ", tensor.device().str(),
         "; this program takes tensors on the CPU: move it with .cpu()");
  }
  if (is_special(tensor)) {
    fail(Code::kUnsupported, "a tensor of type ", tensor.toString(),
         " is no plain dense tensor; sparse and quantized tensors and tensor subclasses are not "
         "supported");
  }
  return tensor.resolve_neg();
}

run::HostTensor host_tensor(const at::Tensor& tensor) {
  // Asked of the storage, since a view's address is beyond null.
  if (!tensor.storage().data() && tensor.numel() > 0) {
    fail(Code::kInvalid,
         "the tensor's storage has no memory; give it back before the call, by "
         "untyped_storage().resize_() or what freed it");
  }
  const at::IntArrayRef sizes = tensor.sizes();
  const at::IntArrayRef strides = tensor.strides();
  return {tensor.const_data_ptr(),
          from_torch(tensor.scalar_type()),
          {sizes.data(), sizes.size()},
          {strides.data(), strides.size()}};
}

at::Tensor empty(const Dims& dims, const Dims& strides, DType dtype) {
  return at::Tensor(at::detail::empty_strided_cpu(dims, strides, to_torch(dtype)));
}

}  // namespace torch_pjrt::aten
