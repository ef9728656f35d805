#include "torch/held.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

namespace torch_pjrt::aten {
namespace {

bool has_gradient_hooks(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta != nullptr && (!meta->hooks_.empty() || meta->post_acc_grad_hooks_ != nullptr);
}

}  // namespace

struct Held::Form {
  explicit Form(const at::Tensor& tensor)
      : dtype(tensor.scalar_type()),
        keys(tensor.key_set()),
        requires_grad(tensor.requires_grad()),
        dims(tensor.sizes()),
        strides(tensor.strides()) {}

  bool is_of(const at::Tensor& tensor) const {
    return tensor.scalar_type() == dtype && tensor.key_set() == keys &&
           tensor.requires_grad() == requires_grad && tensor.sizes() == at::IntArrayRef(dims) &&
           tensor.strides() == at::IntArrayRef(strides);
  }

  at::ScalarType dtype;
  c10::DispatchKeySet keys;
  bool requires_grad;
  at::DimVector dims;
  at::DimVector strides;
};

Held::Held(std::vector<at::Tensor> tensors, size_t parameters)
    : tensors_(std::move(tensors)), parameters_(parameters) {
  for (const at::Tensor& tensor : tensors_) forms_.emplace_back(tensor);
}

Held::~Held() = default;

bool Held::unchanged() const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!forms_[i].is_of(tensors_[i])) return false;
  }
  return std::none_of(tensors_.begin(), tensors_.begin() + static_cast<ptrdiff_t>(parameters_),
                      has_gradient_hooks);
}

bool Held::contains(const at::Tensor& tensor) const {
  return std::any_of(tensors_.begin(), tensors_.end(),
                     [&](const at::Tensor& held) { return held.is_same(tensor); });
}

void Held::drop_gradients() {
  for (size_t i = 0; i < parameters_; ++i) {
    if (tensors_[i].grad().defined()) tensors_[i].mutable_grad().reset();
  }
}

void Held::raise_versions() {
  for (const at::Tensor& tensor : tensors_) {
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace torch_pjrt::aten
