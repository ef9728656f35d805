// The captured program: one node type, built from ATen overloads, with symbolic sizes and scalar
// values apart.
//
// A number in a graph is structure or value. Structure (a dim, an axis, a flag) is an `Arg`. A
// value (a scalar operand, a learning rate) moves to `Graph::scalars` when the node is added; the
// node keeps its slot, and canonical bytes hold the slot's kind and class, never the number, so
// that a changing value makes no new program.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/type.h"
#include "graph/expr.h"

namespace torch_pjrt {

using ValueId = int32_t;  // a tensor: a graph input or a node's result

// A tensor's type with sizes that may be symbolic; strides and offset in elements.
struct SymType {
  DType dtype = DType::kF32;
  std::vector<Size> dims;
  std::vector<Size> strides;
  Size offset;
};

enum class ScalarKind : uint8_t { kBool, kInt, kFloat, kComplex };
enum class ScalarClass : uint8_t { kZero, kOne, kMinusOne, kOther };

// The element type of a scalar of that kind: bool, i64, f64 or c128.
DType dtype_of(ScalarKind kind);

// A 0-d argument of the program whose number is known at capture or computed from symbols at each
// call. A complex number is two: kComplex holds the real part, the next scalar, a kFloat, the
// imaginary one.
struct Scalar {
  ScalarKind kind = ScalarKind::kFloat;
  ScalarClass scalar_class = ScalarClass::kOther;
  Number number;     // expr < 0: the number
  ExprId expr = -1;  // >= 0: evaluated at each call; class kOther

  static Scalar constant(ScalarKind kind, const Number& number);
  static Scalar symbolic(ScalarKind kind, ExprId expr) {
    return {kind, ScalarClass::kOther, {}, expr};
  }
};

struct None {
  bool operator==(const None&) const = default;
};
struct ValueRef {
  ValueId id;
};
struct Slot {
  int32_t index;  // in Graph::scalars
};
struct Arg;
using ArgList = std::vector<Arg>;

struct Arg {
  std::variant<None, ValueRef, Slot, Size, bool, double, std::string, DType, ArgList> v;
};

struct NamedArg {
  std::string name;  // as in the op's schema
  Arg arg;
};

struct Region;

struct Node {
  std::string op;              // ATen overload, e.g. "aten::add.Tensor"
  std::vector<NamedArg> args;  // all of the schema's, defaults filled in, in schema order
  ValueId first_result = 0;    // results have consecutive ids
  std::vector<SymType> results;
  std::string source;           // the user's line, for messages; not part of canonical bytes
  std::vector<Region> regions;  // of an op that controls whether or how often they run
};

// Nodes that run as a part of another one, with values of the same numbering. They may read what is
// known at their node; what they compute is known to themselves alone.
struct Region {
  struct Parameter {
    ValueId value;
    SymType type;
  };
  std::vector<Parameter> parameters;  // what the node passes
  std::vector<Node> nodes;
  std::vector<ValueId> results;
};

struct Input {
  enum class Kind : uint8_t { kTensor, kNumber };
  Kind kind = Kind::kTensor;
  std::string name;   // for messages
  SymType type;       // kTensor
  ValueId value = 0;  // kTensor
  Size number;        // kNumber: an int, usually a symbol
  // A parameter or buffer, which changes rarely: a copy of it in another memory order may be kept.
  // Not part of canonical bytes.
  bool is_weight = false;
};

struct Output {
  enum class Kind : uint8_t {
    kValue,  // computed by the program
    kInput,  // the input tensor itself
    kView,   // a view of an input: its memory with this type's dims, strides and offset
    kPart,   // likewise of a kValue output
    kSame,   // the same tensor as an earlier output
    kNumber,
    kNone,
  };
  Kind kind = Kind::kNone;
  ValueId value = 0;  // kValue
  // Index in Graph::inputs; of a kValue: the input whose memory it may take, -1: none.
  int32_t input = -1;
  SymType type;         // kValue, kView, kPart
  Scalar number;        // kNumber
  int32_t output = -1;  // kPart, kSame: index in Graph::outputs
};

// The memory of input `input` holds `value` when the program is complete.
struct Mutation {
  int32_t input = 0;  // in Graph::inputs; a tensor
  ValueId value = 0;  // of the input's dtype and dims
};

struct Graph {
  Exprs exprs;
  std::vector<Scalar> scalars;
  std::vector<Input> inputs;
  // Tensors i64[2] of random bits that are taken at each call, in this order.
  std::vector<ValueId> draws;
  std::vector<Node> nodes;
  std::vector<Output> outputs;
  int32_t num_hidden = 0;  // the last outputs, not returned: memory that others are parts of
  std::vector<Mutation> mutations;  // one per input at most
  int32_t num_values = 0;

  // Adds an input; returns its index in `inputs`.
  int32_t add_tensor_input(std::string name, SymType type);
  int32_t add_number_input(std::string name, Size number);
  // Adds a draw; returns its value.
  ValueId add_draw();
  // Adds a node whose arguments are complete, to the graph or to a region that is being built;
  // returns its first result. Throws kInternal if it reads a value or a scalar that doesn't exist.
  ValueId add_node(std::string op, std::vector<NamedArg> args, std::vector<SymType> results,
                   std::string source, std::vector<Region> regions = {}, Region* into = nullptr);
  ValueId add_parameter(Region& region, SymType type);
  Slot add_scalar(Scalar scalar);
  // Replaces an earlier mutation of that input. Throws kInternal if one of them doesn't exist.
  void add_mutation(Mutation mutation);
  Slot add_complex(double real, double imag);
};

// Symbols that reach structure (one flag per symbol): only these are part of a program's key.
std::vector<bool> structural_symbols(const Graph& graph);

// Throws kInternal, saying what, where a graph isn't sound: a reference to a scalar, an expression,
// an input or an output that isn't there, to a value that is defined later or in a region that the
// reader isn't in, or an enumerator that isn't one.
void verify(const Graph& graph);

// A deterministic text of the graph, one node a line, for logs and dumps.
std::string print(const Graph& graph);

// The bytes that identify the program that the graph stands for: everything but names, sources,
// hints and the numbers of scalars. Equal bytes mean that one compiled program serves both.
std::string canonical_bytes(const Graph& graph);

}  // namespace torch_pjrt
