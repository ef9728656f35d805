// A compiled function without guards: what freeze() returns.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compile/program.h"

namespace torch_pjrt::python {

// What a call reads a number from.
struct Source {
  enum class Kind : uint8_t { kLeaf, kSize, kStride, kOffset };
  Kind kind;
  size_t leaf;
  size_t dim;
};

// One of a call's arguments, where lists and dicts are taken apart.
struct Leaf {
  enum class Kind : uint8_t { kTensor, kInt, kFloat, kConstant };
  std::string name;
  Kind kind;
  nanobind::object value;  // kConstant
  size_t same_as;          // kTensor: the first leaf that is this tensor
  int64_t rank;            // of one that the graph takes, else -1
};

// One of the program's inputs, or of the call's results.
struct Place {
  enum class Kind : uint8_t { kLeaf, kFloat, kNumber, kFixed, kResult };
  Kind kind;
  size_t index;            // of a leaf or a result
  Source source;           // kNumber
  nanobind::object fixed;  // kFixed
};

// Called with the GIL; any thread may call it.
class Frozen {
 public:
  enum class Form : uint8_t { kOne, kTuple, kList };  // of what a call returns

  // `checks` has the numbers that a call has to agree with, as functions of `symbols`: conditions,
  // by the texts `conditions`, then dims and strides of each leaf that the graph takes.
  Frozen(nanobind::object program, std::vector<Place> inputs, std::vector<Leaf> leaves,
         Graph checks, std::vector<Source> symbols, std::vector<std::string> conditions,
         std::vector<Place> outputs, Form form);

  // Throws Error(kInvalid) for leaves that the graph isn't for.
  nanobind::object call(nanobind::handle leaves) const;  // a tuple

 private:
  void check_leaf(PyObject* const* leaves, size_t k) const;
  void check_numbers(PyObject* const* leaves) const;
  std::vector<int64_t> numbers(PyObject* const* leaves) const;
  nanobind::object input(const Place& place, PyObject* const* leaves) const;

  nanobind::object owner_;  // of program_
  compile::Program& program_;
  std::vector<Place> inputs_;
  std::vector<Leaf> leaves_;
  Graph checks_;
  std::vector<Source> symbols_;
  std::vector<std::string> conditions_;
  std::vector<int64_t> constant_numbers_;  // where there are no symbols
  std::vector<Place> outputs_;
  Form form_;
};

}  // namespace torch_pjrt::python
