#include "torch/kernels.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_native_batch_norm_legit.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conj_physical.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/view_native.h>

#include <optional>
#include <tuple>
#include <utility>

#include "torch/host.h"
#include "torch/run.h"
#include "torch/signature.h"
#include "torch/storage.h"
#include "torch/tensor.h"

namespace torch_pjrt::lazy {
namespace {

using at::Tensor;

at::IntArrayRef ints(c10::SymIntArrayRef sizes) { return C10_AS_INTARRAYREF_SLOW(sizes); }

at::ScalarType or_default(std::optional<at::ScalarType> dtype) {
  return dtype.value_or(c10::get_default_dtype_as_scalartype());
}

void require_strided(std::optional<at::Layout> layout) {
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(at::kStrided) == at::kStrided,
                              "device pjrt has no tensors of layout ", *layout,
                              ": make dense ones");
}

// --- memory

Tensor empty_memory_format(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype,
                           std::optional<at::Layout> layout, std::optional<at::Device>,
                           std::optional<bool>, std::optional<at::MemoryFormat> format) {
  require_strided(layout);
  const at::TensorBase meta = at::detail::empty_meta(ints(size), or_default(dtype), format);
  return empty(meta.sizes(), meta.strides(), meta.scalar_type());
}

Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                     std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                     std::optional<at::Device>, std::optional<bool>) {
  require_strided(layout);
  return empty(ints(size), ints(stride), or_default(dtype));
}

Tensor new_empty_strided(const Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device>, std::optional<bool>) {
  require_strided(layout);
  return empty(ints(size), ints(stride), dtype.value_or(self.scalar_type()));
}

void reserve(const Tensor& tensor) {
  const Geometry geometry = Geometry::of(*tensor.unsafeGetTensorImpl());
  const auto bytes = static_cast<size_t>(geometry.extent()) * byte_size(geometry.dtype);
  if (tensor.storage().nbytes() < bytes) storage_of(tensor).set_nbytes(bytes);
}

const Tensor& resize(const Tensor& self, c10::SymIntArrayRef size,
                     std::optional<at::MemoryFormat> format) {
  // As eager: a tensor of these sizes stays as it is.
  if (!format && self.sizes() == ints(size)) return self;
  const at::TensorBase meta = at::detail::empty_meta(ints(size), self.scalar_type(), format);
  self.unsafeGetTensorImpl()->set_sizes_and_strides(meta.sizes(), meta.strides());
  reserve(self);
  // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): as torch declares it.
  return self;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): as torch calls it.
Tensor& set_storage_at(Tensor& self, at::Storage source, c10::SymInt offset,
                       c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  TORCH_CHECK(source.device().type() == kDevice,
              "Attempted to set the storage of a tensor on "
              "device \"",
              self.device(), "\" to a storage on different device \"", source.device(), "\".");
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(offset.expect_int());
  const at::IntArrayRef dims = ints(size);
  const Dims dense = contiguous_strides(Dims(dims.begin(), dims.end()));
  impl->set_sizes_and_strides(dims,
                              stride.size() == size.size() ? ints(stride) : at::IntArrayRef(dense));
  reserve(self);
  return self;
}

Tensor& set_storage(Tensor& self, at::Storage source) {
  const auto size = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage_at(self, std::move(source), 0, {c10::SymInt(size)}, {});
}

Tensor& set_tensor(Tensor& self, const Tensor& source) {
  return set_storage_at(self, source.storage(), source.sym_storage_offset(), source.sym_sizes(),
                        source.sym_strides());
}

Tensor& set_nothing(Tensor& self) { return set_tensor(self, empty({0}, {1}, self.scalar_type())); }

// --- views

Tensor as_strided(const Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                  std::optional<c10::SymInt> offset) {
  const auto place = offset ? std::optional(offset->expect_int()) : std::nullopt;
  return at::native::as_strided_tensorimpl(self, ints(size), ints(stride), place);
}

// What transpose_, squeeze_ and the like come to.
const Tensor& as_strided_in_place(const Tensor& self, c10::SymIntArrayRef size,
                                  c10::SymIntArrayRef stride, std::optional<c10::SymInt> offset) {
  return at::native::as_strided__symint(self, size, stride, std::move(offset));
}

Tensor view_sizes(const Tensor& self, c10::SymIntArrayRef size) {
  return at::native::view(self, ints(size));
}

Tensor reshape_alias(const Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return as_strided(self, size, stride, self.sym_storage_offset());
}

// --- copies and reads

Geometry dense(const Tensor& tensor, DType dtype) {
  const Dims strides = contiguous_strides(Dims(tensor.sizes().begin(), tensor.sizes().end()));
  return {dtype, at::DimVector(tensor.sizes()), at::DimVector(strides.begin(), strides.end()), 0};
}

void copy_from_host(const Tensor& self, const Tensor& source) {
  Tensor host = source;
  if (source.scalar_type() != self.scalar_type() || source.sizes() != self.sizes()) {
    host = at::empty(self.sizes(), at::TensorOptions().dtype(self.scalar_type()));
    host.copy_(source);
  }
  auto array = to_device(host);
  const std::lock_guard lock(mutex());
  write(self, data(std::move(array)));
}

void copy_on_device(const Tensor& self, const Tensor& source) {
  TORCH_CHECK(self.sizes() == source.sizes() || at::is_expandable_to(source.sizes(), self.sizes()),
              "output with shape ", self.sizes(), " doesn't match the broadcast shape ",
              source.sizes());
  const std::lock_guard lock(mutex());
  Value value = read(source);
  const Geometry from = dense(source, aten::from_torch(source.scalar_type()));
  const Geometry to = dense(self, aten::from_torch(self.scalar_type()));
  if (!(from == to)) value = {record(copy_signature(from, to), {std::move(value)}, {}, {}), 0};
  write(self, std::move(value));
}

// Without the marks of lazy conjugation and negation: these ops get tensors that have them.
Tensor resolved(const Tensor& tensor) {
  if (tensor.is_conj()) return resolved(at::conj_physical(tensor.conj()));
  return tensor.is_neg() ? at::neg(tensor._neg_view()) : tensor;
}

Tensor& copy(Tensor& self, const Tensor& given, bool) {
  if (self.is_same(given)) return self;
  at::assert_no_internal_overlap(self);
  at::assert_no_partial_overlap(self, given);
  const Tensor source = resolved(given);
  if (!is_on_device(self)) {
    self.copy_(raising([&] { return to_host(source); }));
  } else if (self.is_conj()) {
    self.conj().copy_(at::conj_physical(source));
  } else if (self.is_neg()) {
    self._neg_view().copy_(at::neg(source));
  } else if (is_on_device(source)) {
    copy_on_device(self, source);
  } else {
    raising([&] { copy_from_host(self, source); });
  }
  return self;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& destination) {
  if (at::native::resize_output(destination, self.sizes()) &&
      at::has_internal_overlap(self) != at::MemOverlap::Yes) {
    destination.unsafeGetTensorImpl()->set_sizes_and_strides(self.sizes(), self.strides());
    reserve(destination);
  }
  destination.copy_(self);
  return destination;
}

at::Scalar local_scalar_dense(const Tensor& self) {
  return at::native::_local_scalar_dense_cpu(raising([&] { return to_host(resolved(self)); }));
}

// --- ops whose schema doesn't say what they write, or that torch calls on this key alone

std::tuple<Tensor, Tensor, Tensor> native_batch_norm(const Tensor& input,
                                                     const std::optional<Tensor>& weight,
                                                     const std::optional<Tensor>& bias,
                                                     const std::optional<Tensor>& running_mean,
                                                     const std::optional<Tensor>& running_var,
                                                     bool training, double momentum, double eps) {
  const bool has_mean = running_mean && running_mean->defined();
  if (!has_mean) return at::_native_batch_norm_legit(input, weight, bias, true, momentum, eps);
  Tensor mean = *running_mean;
  Tensor variance = *running_var;
  return at::_native_batch_norm_legit(input, weight, bias, mean, variance, training, momentum, eps);
}

std::tuple<Tensor, Tensor, Tensor> fused_lstm_cell(const Tensor& input_gates,
                                                   const Tensor& hidden_gates, const Tensor& cx,
                                                   const std::optional<Tensor>& input_bias,
                                                   const std::optional<Tensor>& hidden_bias) {
  Tensor gates = input_gates.add(hidden_gates);
  if (input_bias && input_bias->defined()) gates = gates.add(*input_bias);
  if (hidden_bias && hidden_bias->defined()) gates = gates.add(*hidden_bias);
  const auto parts = gates.chunk(4, 1);
  const Tensor i = parts[0].sigmoid();
  const Tensor f = parts[1].sigmoid();
  const Tensor g = parts[2].tanh();
  const Tensor o = parts[3].sigmoid();
  Tensor cy = f.mul(cx).add(i.mul(g));
  Tensor hy = o.mul(cy.tanh());
  return {std::move(hy), std::move(cy), at::cat({i, f, g, o}, 1)};
}

std::tuple<Tensor, Tensor> fused_gru_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                          const Tensor& hx, const std::optional<Tensor>& input_bias,
                                          const std::optional<Tensor>& hidden_bias) {
  const auto with_bias = [](const Tensor& gates, const std::optional<Tensor>& bias) {
    return (bias && bias->defined() ? gates.add(*bias) : gates).chunk(3, 1);
  };
  const auto in = with_bias(input_gates, input_bias);
  const auto hidden = with_bias(hidden_gates, hidden_bias);
  const Tensor reset = in[0].add(hidden[0]).sigmoid();
  const Tensor update = in[1].add(hidden[1]).sigmoid();
  const Tensor fresh = in[2].add(reset.mul(hidden[2])).tanh();
  return {hx.sub(fresh).mul(update).add(fresh), at::cat({reset, update, fresh}, 1)};
}

}  // namespace

void add_composed_kernels(torch::Library& aten) {
  aten.impl("_thnn_fused_gru_cell", fused_gru_cell);
  aten.impl("_thnn_fused_lstm_cell", fused_lstm_cell);
}

void add_kernels(torch::Library& aten) {
  aten.impl("empty.memory_format", empty_memory_format);
  aten.impl("empty_strided", empty_strided);
  aten.impl("new_empty_strided", new_empty_strided);
  aten.impl("resize_", resize);
  aten.impl("set_", set_nothing);
  aten.impl("set_.source_Storage", set_storage);
  aten.impl("set_.source_Storage_storage_offset", set_storage_at);
  aten.impl("set_.source_Tensor", set_tensor);
  aten.impl("as_strided", as_strided);
  aten.impl("as_strided_", as_strided_in_place);
  aten.impl("view", view_sizes);
  aten.impl("_reshape_alias", reshape_alias);
  aten.impl("copy_", copy);
  aten.impl("_copy_from_and_resize", copy_from_and_resize);
  aten.impl("_local_scalar_dense", local_scalar_dense);
  aten.impl("native_batch_norm", native_batch_norm);
  add_composed_kernels(aten);
}

}  // namespace torch_pjrt::lazy
