// Tensors that a program is given over and over: whether they are what they were.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace at {
class Tensor;
}

namespace torch_pjrt::aten {

// Holds the tensors. Their elements and where these lie are not its concern: a program reads both
// at each call. For use by one thread at a time.
class Held {
 public:
  // `parameters` of them, the first, are those that gradients are computed of.
  Held(std::vector<at::Tensor> tensors, size_t parameters);
  ~Held();
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  // Whether each tensor has the dtype, dims, strides and requires_grad, and is of the kind, that it
  // had at first, and no parameter has hooks on its gradient.
  bool unchanged() const;

  bool contains(const at::Tensor& tensor) const;

  // p.grad = None of each parameter.
  void drop_gradients();

  // What autograd does where a tensor is written to.
  void raise_versions();

 private:
  struct Form;
  std::vector<at::Tensor> tensors_;
  size_t parameters_;
  std::vector<Form> forms_;
};

}  // namespace torch_pjrt::aten
