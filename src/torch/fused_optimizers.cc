#include "torch/fused_optimizers.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/pow.h>

#include <optional>

namespace torch_pjrt::lazy {
namespace {

using at::Tensor;
using at::TensorList;

struct Hyper {
  double beta1;
  double beta2;
  double weight_decay;
  double eps;
  bool amsgrad;
  bool maximize;
  bool decoupled;  // AdamW
};

// 1 - beta**step.
Tensor correction(double beta, const Tensor& step) {
  return at::pow(at::Scalar(beta), step).neg().add(1);
}

struct Parameter {
  const Tensor& value;
  const Tensor& gradient;
  const Tensor& average;
  const Tensor& average_of_squares;
  const Tensor* greatest;  // null: not AMSGrad
  const Tensor& step;
};

// `Rate` is a number or a 0-d tensor.
template <class Rate>
void update(const Parameter& p, const Rate& rate, const Hyper& h) {
  Tensor gradient = h.maximize ? p.gradient.neg() : p.gradient;
  if (h.weight_decay != 0 && h.decoupled) {
    if constexpr (std::is_same_v<Rate, double>) {
      p.value.mul_(1 - rate * h.weight_decay);
    } else {
      p.value.mul_(rate.mul(-h.weight_decay).add(1));
    }
  } else if (h.weight_decay != 0) {
    gradient = gradient.add(p.value, h.weight_decay);
  }
  p.average.lerp_(gradient, 1 - h.beta1);
  p.average_of_squares.mul_(h.beta2).addcmul_(gradient, gradient, 1 - h.beta2);
  Tensor squares = p.average_of_squares;
  if (p.greatest) {
    p.greatest->copy_(at::maximum(*p.greatest, squares));
    squares = *p.greatest;
  }
  const Tensor deviation = squares.sqrt().div(correction(h.beta2, p.step).sqrt()).add(h.eps);
  const Tensor step = p.average.div(correction(h.beta1, p.step)).div(deviation);
  p.value.sub_(step.mul(rate));
}

struct State {
  TensorList values, gradients, averages, squares, greatest, steps;
  const std::optional<Tensor>& grad_scale;
  const std::optional<Tensor>& found_inf;
};

template <class Rate>
void update_all(const State& s, const Rate& rate, const Hyper& h) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !(s.grad_scale && s.grad_scale->defined()) && !(s.found_inf && s.found_inf->defined()),
      "fused optimizers on device pjrt take no gradient scaler: use fused=False");
  for (size_t i = 0; i < s.values.size(); ++i) {
    update(Parameter{s.values[i], s.gradients[i], s.averages[i], s.squares[i],
                     h.amsgrad ? &s.greatest[i] : nullptr, s.steps[i]},
           rate, h);
  }
}

template <bool decoupled, class Given, class Rate>
void adam(TensorList values, TensorList gradients, TensorList averages, TensorList squares,
          TensorList greatest, TensorList steps, Given rate, double beta1, double beta2,
          double weight_decay, double eps, bool amsgrad, bool maximize,
          const std::optional<Tensor>& grad_scale, const std::optional<Tensor>& found_inf) {
  update_all<Rate>({values, gradients, averages, squares, greatest, steps, grad_scale, found_inf},
                   rate, {beta1, beta2, weight_decay, eps, amsgrad, maximize, decoupled});
}

}  // namespace

void add_fused_optimizers(torch::Library& aten) {
  aten.impl("_fused_adam_", adam<false, double, double>);
  aten.impl("_fused_adam_.tensor_lr", adam<false, const Tensor&, Tensor>);
  aten.impl("_fused_adamw_", adam<true, double, double>);
  aten.impl("_fused_adamw_.tensor_lr", adam<true, const Tensor&, Tensor>);
}

}  // namespace torch_pjrt::lazy
