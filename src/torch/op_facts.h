// What the schema of an op says, and which op without side effects computes the same.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <vector>

namespace torch_pjrt::lazy {

struct OpFacts {
  // Of a number among the arguments; the last: as lower::is_value() says of the number itself.
  enum class Role : uint8_t { kStructure, kValue, kByNumber };
  struct Source {
    int32_t argument = -1;      // of the op; -1: the default below
    bool dtype_of_out = false;  // the dtype of the first out= argument
    Role role = Role::kStructure;
    bool is_number = false;  // Scalar or float, or optional of these
  };

  std::string name;                // of the op, e.g. "aten::add_.Tensor"
  std::vector<bool> writes;        // for each argument
  std::vector<int32_t> aliased;    // for each return: the argument that it is, -1: none
  bool is_view = false;            // it returns views of an argument
  bool returns_tensors = true;     // and nothing but tensors or lists of them
  bool is_data_dependent = false;  // the sizes or numbers that it gives depend on elements
  bool has_out = false;            // it writes to out= arguments, which it resizes
  bool fills = false;              // it gives all elements one value
  bool returns_list = false;       // its only return is a list of tensors
  bool returns_more = false;       // lists beside other returns

  // The op that is traced: itself, or for one that writes, one that returns the new values.
  const c10::FunctionSchema* traced = nullptr;
  std::string traced_name;
  bool is_functional = false;    // `traced` writes to nothing
  bool counts = false;           // numbers that are values say how large the result is: arange
  bool has_rule = false;         // `traced` is lowered as it is
  std::vector<Source> sources;   // for each argument of `traced`
  std::vector<int32_t> written;  // for each result of `traced`: the argument that it is the new
                                 // value of, -1: a fresh tensor
};

// Kept for the life of the process. Any thread may call it.
const OpFacts& facts_of(const c10::OperatorHandle& op);

}  // namespace torch_pjrt::lazy
