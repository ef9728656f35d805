// The program for one set of sizes and layouts, ready to be called.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "compile/binding.h"
#include "compile/result_form.h"
#include "lower/lower.h"
#include "run/call.h"

namespace torch_pjrt::compile {

struct Compiled;

struct Entry {
  struct Tensor {
    int32_t input;
    DType dtype;
    int32_t rank;
  };
  struct Number {
    int32_t input;
    int64_t value;
  };

  std::vector<Tensor> tensors;
  // Of all tensors in turn: the dims, then the strides of a dense tensor in the input's order. One
  // list, since a call reads all of it.
  std::vector<int64_t> shapes;
  std::vector<Number> numbers;  // those that the program was made for
  std::vector<int32_t> free;    // inputs that may be any int
  lower::Signature signature;   // what the program was made for
  lower::Precision precision;
  std::vector<ResultForm> results;       // in the program's order
  std::vector<lower::Problem> problems;  // that the status names
  std::vector<Scalar> scalars;           // taken at each call, in the program's order
  std::shared_ptr<Compiled> compiled;
  std::unique_ptr<run::Callable> callable;
};

// Whether the arguments, of the right number, are exactly those that the entry is for. Strides of
// tensors without elements may differ from them all the same.
bool matches(const Entry& entry, std::span<const Argument> arguments, lower::Precision precision);

}  // namespace torch_pjrt::compile
