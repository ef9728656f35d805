// A Graph and its sizes to one StableHLO program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/type.h"
#include "graph/graph.h"
#include "lower/order.h"

namespace torch_pjrt::lower {

// Raised whenever a rule changes what it emits; part of every program's key.
inline constexpr int kLoweringVersion = 7;

enum class Precision : uint8_t { kDefault, kHigh, kHighest };

// Whose memory results may take.
enum class Donation : uint8_t {
  kNone,
  kAll,     // that of given-up inputs, and for each other result memory that the caller passes
  kInputs,  // that of given-up inputs: mutated ones, and those that Output::input names
};

struct Options {
  std::string platform = "cpu";  // PJRT's platform name: chooses the forms that it runs well
  Precision precision = Precision::kHighest;  // of float32 matmul and convolution
  Donation donation = Donation::kAll;
};

// What the program was made for.
struct Signature {
  std::vector<int64_t> symbols;     // a value for each symbol of the graph
  std::vector<Order> input_orders;  // the memory order of each graph input; empty for numbers
};

// One argument of the program's @main, in order.
struct ProgramArgument {
  enum class Kind : uint8_t {
    kInput,
    kMutatedInput,  // donated to the result that is its new value, or takes its memory
    kScalar,
    kDraw,
    kOutputMemory,  // donated to a result, not read
  };
  Kind kind;
  int32_t index;        // in Graph::inputs, scalars or draws; unused for kOutputMemory
  Type type;            // with physical dims, row-major
  int32_t result = -1;  // kMutatedInput, kOutputMemory: in Program::results
};

// One result of @main, dense in memory in the order `order`: outputs first, then mutations, then
// the status if there is any problem to report.
struct ProgramResult {
  enum class Kind : uint8_t {
    kOutput,
    kMutation,  // the new value of an input, in that input's order
    kStatus,    // i64[2]: 0, or 1 + the first problem's index in Program::problems; its value
  };
  Kind kind;
  int32_t index;  // in Graph::outputs, Graph::mutations; unused for kStatus
  Type type;      // physical dims, row-major
  Order order;    // memory order of the logical dims
  Dims
      dims;  // logical dims of what the program computes: 1 where the output is expanded (stride 0)
};

// What values of the arguments can be wrong with: eager's exception.
struct Problem {
  enum class Kind : uint8_t {
    kIndexError,
    kRuntimeError,
    kFactorError,  // of a factorisation: as aten::_linalg_check_errors raises it
  };
  Kind kind;
  // "{}" stands for the offending value. Of a kFactorError, the name of the API that it tells: the
  // value has what the factorisation gave (int32), and above that the matrix of the batch from 1,
  // or 0 where there is but one.
  std::string message;
  int32_t node = -1;  // in Graph::nodes; -1: one of a region
};

struct Program {
  std::string text;  // StableHLO
  std::vector<ProgramArgument> arguments;
  std::vector<ProgramResult> results;
  std::vector<Problem> problems;
};

// The unsupported node, by its index in Graph::nodes: its op has no rule, or the rule can't do with
// its arguments.
class Refusal : public Error {
 public:
  Refusal(size_t node, const std::string& message)
      : Error(Code::kUnsupported, message), node_(node) {}
  size_t node() const { return node_; }

 private:
  size_t node_;
};

// Throws a Refusal for a node that can't be lowered, and kInternal, naming the op and both types,
// when a rule's result isn't what the graph says.
Program lower(const Graph& graph, const Signature& signature, const Options& options);

// True if some rule lowers this ATen overload, e.g. "aten::add.Tensor".
bool has_rule(const std::string& op);

// True if the number given for `argument` of `op` is a value (an argument of the program), false if
// it is structure. `is_number_type`: the schema's type is Scalar or float (or optional of these).
// `number`: its value where known.
bool is_value(const std::string& op, const std::string& argument, bool is_number_type,
              const Number* number);

// All ops with a rule, sorted.
std::vector<std::string> ops();

}  // namespace torch_pjrt::lower
