// Symbolic sizes and numbers: an arena of expressions over symbols, evaluated with Python's
// semantics.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace torch_pjrt {

enum class ExprOp : uint8_t {
  kInt,
  kFloat,
  kSymbol,
  kAdd,
  kMul,
  kPow,
  kFloorDiv,
  kCleanDiv,
  kCeilDiv,
  kMod,
  kPythonMod,
  kModularIndexing,
  kMin,
  kMax,
  kAbs,
  kLShift,
  kRShift,
  kWhere,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAnd,
  kOr,
  kNot,
  kToFloat,
  kIntTrueDiv,
  kFloatTrueDiv,
  kFloatPow,
  kFloorToInt,
  kCeilToInt,
  kTruncToInt,
  kRoundToInt,
  kIdentity,
  kSqrt,
  kExp,
  kLog,
  kLog2,
  kBitAnd,
  kBitOr,
  kBitXor,
};

inline constexpr ExprOp kLastExprOp = ExprOp::kSqrt;

// The operator's name as capture spells it, e.g. "FloorDiv".
std::string_view name(ExprOp op);

// The operator of that name; throws kUnsupported naming it if there is none.
ExprOp expr_op(std::string_view name);

// A number as Python has them: int (bool counts as int) or float.
struct Number {
  bool is_float = false;
  int64_t i = 0;
  double f = 0;

  static Number of_int(int64_t v) { return {false, v, 0}; }
  static Number of_float(double v) { return {true, 0, v}; }
  double as_float() const { return is_float ? f : static_cast<double>(i); }
  bool operator==(const Number&) const = default;
};

using ExprId = int32_t;

// A size or other structural integer: known, or an expression of the graph's arena.
struct Size {
  int64_t value = 0;
  ExprId expr = -1;  // >= 0: symbolic, and `value` is the size at capture (a hint)

  Size() = default;
  Size(int64_t v) : value(v) {}  // NOLINT(google-explicit-constructor): a size is a number
  static Size symbolic(ExprId e, int64_t hint) {
    Size s(hint);
    s.expr = e;
    return s;
  }
  bool is_symbolic() const { return expr >= 0; }
};

// Expressions in an arena; an operand's id is always less than its user's. Equal expressions share
// an id.
class Exprs {
 public:
  struct Node {
    ExprOp op;
    std::vector<ExprId> args;
    int64_t i = 0;  // kInt: the number; kSymbol: the symbol's index
    double f = 0;   // kFloat: the number
  };

  ExprId add_int(int64_t value);
  ExprId add_float(double value);
  // The symbol of that name, new if it isn't known yet.
  ExprId add_symbol(const std::string& name);
  // Throws kInternal when the number of operands is wrong.
  ExprId add(ExprOp op, std::vector<ExprId> args);

  const Node& node(ExprId id) const { return nodes_[id]; }
  int64_t size() const { return static_cast<int64_t>(nodes_.size()); }
  const std::vector<std::string>& symbols() const { return symbols_; }
  // The symbol's index if the expression is just a symbol, else -1.
  int64_t as_symbol(ExprId id) const;
  // Marks in `used` (one flag per symbol) the symbols that the expression reads.
  void mark_symbols(ExprId id, std::vector<bool>& used) const;

  // The expression's value for the given symbol values (one per symbol). Fails with kInvalid on
  // int64 overflow, on division by zero, on a negative shift and where there is no real result.
  Number evaluate(ExprId id, std::span<const int64_t> symbol_values) const;
  // The same for a size; kInternal if the expression isn't an integer.
  int64_t evaluate(const Size& size, std::span<const int64_t> symbol_values) const;

  // E.g. "(s0*FloorDiv(s1, 2))", for messages.
  std::string print(ExprId id) const;
  std::string print(const Size& size) const;

 private:
  ExprId intern(Node node);

  std::vector<Node> nodes_;
  std::vector<std::string> symbols_;
};

}  // namespace torch_pjrt
