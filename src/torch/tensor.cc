#include "torch/tensor.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

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

const char* remedy_for_special(const at::Tensor& tensor) {
  if (tensor.is_quantized()) return "convert it with .dequantize()";
  if (tensor.layout() != at::kStrided) return "convert it with .to_dense()";
  if (tensor.key_set().has(c10::DispatchKey::Python))
    return "pass one that is no subclass, such as FakeTensor, of torch.Tensor";
  return "pass one that no function transform has wrapped";
}

// Whether the elements are other than what lies in memory.
bool is_lazy(const at::Tensor& tensor) {
  return tensor.is_neg() || tensor.is_conj() || tensor._is_zerotensor();
}

// Throws Error(kInvalid) if elements lie beyond the storage's end.
void require_memory(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return;
  const auto held = static_cast<int64_t>(tensor.storage().nbytes() / tensor.dtype().itemsize());
  int64_t last = tensor.storage_offset();
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  if (last < held) return;
  fail(Code::kInvalid, "the tensor's storage holds ", held, " elements, and the tensor reads ",
       last + 1, ": it was resized, and has to be given its memory back before the call");
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
    case at::kComplexFloat:
      return DType::kC64;
    case at::kComplexDouble:
      return DType::kC128;
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
    case DType::kC64:
      return at::kComplexFloat;
    case DType::kC128:
      return at::kComplexDouble;
  }
  fail(Code::kInternal, "no such dtype: ", static_cast<int>(dtype));
}

bool is_plain(const at::Tensor& tensor) {
  // What nearly every tensor is, told at one look.
  constexpr c10::DispatchKeySet kDense(c10::DispatchKey::CPU);
  constexpr c10::DispatchKeySet kUsual(
      {c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU, c10::DispatchKey::ADInplaceOrView});
  const c10::DispatchKeySet keys = tensor.key_set();
  if (kUsual.has_all(keys) && keys.has_all(kDense)) return true;
  return tensor.defined() && tensor.is_cpu() && !is_special(tensor) && !is_lazy(tensor);
}

at::Tensor plain(const at::Tensor& tensor) {
  if (!tensor.defined()) fail(Code::kInvalid, "the tensor is undefined");
  if (!tensor.is_cpu()) {
    fail(Code::kUnsupported, "the tensor is on ", tensor.device().str(),
         "; this program takes tensors on the CPU: ",
         tensor.is_meta() ? "a meta tensor has no data, make a real one" : "move it with .cpu()");
  }
  if (is_special(tensor)) {
    fail(Code::kUnsupported, "a tensor of type ", tensor.toString(),
         " is no plain dense tensor: ", remedy_for_special(tensor));
  }
  if (!is_lazy(tensor)) return tensor;
  const c10::AutoGradMode no_grad(false);
  if (tensor._is_zerotensor()) return at::zeros(tensor.sizes(), tensor.options());
  require_memory(tensor);
  return tensor.resolve_conj().resolve_neg();
}

run::HostTensor host_tensor(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const c10::Storage& storage = impl.unsafe_storage();  // dense tensors have one
  const size_t item = impl.itemsize();
  const auto offset = static_cast<size_t>(impl.storage_offset());
  const auto count = static_cast<size_t>(impl.numel());
  // Of a tensor without gaps this is where it ends.
  const size_t end = (offset + count) * item;
  if (!impl.is_non_overlapping_and_dense() || end > storage.nbytes()) require_memory(tensor);
  const auto* memory = static_cast<const char*>(storage.data());
  const at::IntArrayRef sizes = impl.sizes();
  const at::IntArrayRef strides = impl.strides();
  return {count == 0 ? nullptr : memory + offset * item,
          from_torch(tensor.scalar_type()),
          {sizes.data(), sizes.size()},
          {strides.data(), strides.size()}};
}

at::Tensor empty(const Dims& dims, const Dims& strides, DType dtype) {
  return at::Tensor(at::detail::empty_strided_cpu(dims, strides, to_torch(dtype)));
}

}  // namespace torch_pjrt::aten
