#include "graph/expr.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "graph/python_math.h"

namespace torch_pjrt {
namespace {

struct OpFacts {
  std::string_view name;
  int min_args;
  int max_args;  // -1: any number
};

constexpr std::array<OpFacts, 43> kOps = {{
    {"Int", 0, 0},        {"Float", 0, 0},        {"Symbol", 0, 0},     {"Add", 1, -1},
    {"Mul", 1, -1},       {"Pow", 2, 2},          {"FloorDiv", 2, 2},   {"CleanDiv", 2, 2},
    {"CeilDiv", 2, 2},    {"Mod", 2, 2},          {"PythonMod", 2, 2},  {"ModularIndexing", 3, 3},
    {"Min", 1, -1},       {"Max", 1, -1},         {"Abs", 1, 1},        {"LShift", 2, 2},
    {"RShift", 2, 2},     {"Where", 3, 3},        {"Eq", 2, 2},         {"Ne", 2, 2},
    {"Lt", 2, 2},         {"Le", 2, 2},           {"Gt", 2, 2},         {"Ge", 2, 2},
    {"And", 1, -1},       {"Or", 1, -1},          {"Not", 1, 1},        {"ToFloat", 1, 1},
    {"IntTrueDiv", 2, 2}, {"FloatTrueDiv", 2, 2}, {"FloatPow", 2, 2},   {"FloorToInt", 1, 1},
    {"CeilToInt", 1, 1},  {"TruncToInt", 1, 1},   {"RoundToInt", 1, 1}, {"Identity", 1, 1},
    {"Sqrt", 1, 1},       {"Exp", 1, 1},          {"Log", 1, 1},        {"Log2", 1, 1},
    {"BitAnd", 2, 2},     {"BitOr", 2, 2},        {"BitXor", 2, 2},
}};

// -1, 0 or 1 as a is less than, equal to or greater than b; 2 if one is NaN. An int is compared
// with a float exactly, as in Python: a long double holds both.
int compare(const Number& a, const Number& b) {
  static_assert(std::numeric_limits<long double>::digits >= 63);
  const auto wide = [](const Number& n) {
    return n.is_float ? static_cast<long double>(n.f) : static_cast<long double>(n.i);
  };
  const long double x = wide(a);
  const long double y = wide(b);
  if (std::isnan(x) || std::isnan(y)) return 2;
  return x < y ? -1 : x > y ? 1 : 0;
}

bool less(const Number& a, const Number& b) { return compare(a, b) == -1; }
bool equal(const Number& a, const Number& b) { return compare(a, b) == 0; }

bool truth(const Number& a) { return a.is_float ? a.f != 0 : a.i != 0; }

Number arithmetic(ExprOp op, const Number& a, const Number& b) {
  const bool is_float = a.is_float || b.is_float;
  switch (op) {
    case ExprOp::kAdd:
      return is_float ? Number::of_float(a.as_float() + b.as_float())
                      : Number::of_int(python_math::add(a.i, b.i));
    case ExprOp::kMul:
      return is_float ? Number::of_float(a.as_float() * b.as_float())
                      : Number::of_int(python_math::mul(a.i, b.i));
    case ExprOp::kPow:  // as in Python, a negative exponent gives a float
      return is_float || b.i < 0 ? Number::of_float(python_math::power(a.as_float(), b.as_float()))
                                 : Number::of_int(python_math::power(a.i, b.i));
    case ExprOp::kMin:
      return less(b, a) ? b : a;
    case ExprOp::kMax:
      return less(a, b) ? b : a;
    case ExprOp::kAnd:
      return Number::of_int(truth(a) && truth(b));
    case ExprOp::kOr:
      return Number::of_int(truth(a) || truth(b));
    default:
      fail(Code::kInternal, "not an arithmetic operator: ", name(op));
  }
}

Number integer_op(ExprOp op, std::span<const Number> args) {
  for (const Number& n : args) {
    if (n.is_float) fail(Code::kInternal, "the size expression ", name(op), " takes ints only");
  }
  const int64_t a = args[0].i;
  const int64_t b = args[1].i;
  switch (op) {
    case ExprOp::kFloorDiv:
    case ExprOp::kCleanDiv:
      return Number::of_int(python_math::floor_div(a, b));
    case ExprOp::kCeilDiv:
      return Number::of_int(python_math::ceil_div(a, b));
    case ExprOp::kMod:
    case ExprOp::kPythonMod:
      return Number::of_int(python_math::mod(a, b));
    case ExprOp::kLShift:
      return Number::of_int(python_math::shift_left(a, b));
    case ExprOp::kRShift:
      return Number::of_int(python_math::shift_right(a, b));
    case ExprOp::kModularIndexing:
      return Number::of_int(python_math::mod(python_math::floor_div(a, b), args[2].i));
    case ExprOp::kBitAnd:
      return Number::of_int(a & b);
    case ExprOp::kBitOr:
      return Number::of_int(a | b);
    case ExprOp::kBitXor:
      return Number::of_int(a ^ b);
    default:
      fail(Code::kInternal, "not an integer operator: ", name(op));
  }
}

Number float_op(ExprOp op, const Number& a, const Number& b) {
  switch (op) {
    case ExprOp::kIntTrueDiv:
    case ExprOp::kFloatTrueDiv:
      return Number::of_float(python_math::divide(a.as_float(), b.as_float()));
    default:
      return Number::of_float(python_math::power(a.as_float(), b.as_float()));
  }
}

Number apply(ExprOp op, std::span<const Number> a) {
  switch (op) {
    case ExprOp::kAdd:
    case ExprOp::kMul:
    case ExprOp::kPow:
    case ExprOp::kMin:
    case ExprOp::kMax:
    case ExprOp::kAnd:
    case ExprOp::kOr: {
      Number r = a[0];
      for (size_t k = 1; k < a.size(); ++k) r = arithmetic(op, r, a[k]);
      return r;
    }
    case ExprOp::kFloorDiv:
    case ExprOp::kMod:
    case ExprOp::kPythonMod:
      if (a[0].is_float || a[1].is_float) {
        const double x = a[0].as_float();
        const double y = a[1].as_float();
        return Number::of_float(op == ExprOp::kFloorDiv ? python_math::floor_div(x, y)
                                                        : python_math::mod(x, y));
      }
      [[fallthrough]];
    case ExprOp::kCleanDiv:
    case ExprOp::kCeilDiv:
    case ExprOp::kLShift:
    case ExprOp::kRShift:
    case ExprOp::kModularIndexing:
    case ExprOp::kBitAnd:
    case ExprOp::kBitOr:
    case ExprOp::kBitXor:
      return integer_op(op, a);
    case ExprOp::kAbs:
      return a[0].is_float ? Number::of_float(std::fabs(a[0].f))
                           : Number::of_int(a[0].i < 0 ? python_math::mul(a[0].i, -1) : a[0].i);
    case ExprOp::kWhere:
      return truth(a[0]) ? a[1] : a[2];
    case ExprOp::kEq:
      return Number::of_int(equal(a[0], a[1]));
    case ExprOp::kNe:
      return Number::of_int(!equal(a[0], a[1]));
    case ExprOp::kLt:
      return Number::of_int(less(a[0], a[1]));
    case ExprOp::kLe:
      return Number::of_int(less(a[0], a[1]) || equal(a[0], a[1]));
    case ExprOp::kGt:
      return Number::of_int(less(a[1], a[0]));
    case ExprOp::kGe:
      return Number::of_int(less(a[1], a[0]) || equal(a[0], a[1]));
    case ExprOp::kNot:
      return Number::of_int(!truth(a[0]));
    case ExprOp::kToFloat:
      return Number::of_float(a[0].as_float());
    case ExprOp::kIntTrueDiv:
    case ExprOp::kFloatTrueDiv:
    case ExprOp::kFloatPow:
      return float_op(op, a[0], a[1]);
    case ExprOp::kFloorToInt:
      return Number::of_int(a[0].is_float ? python_math::to_int(std::floor(a[0].f)) : a[0].i);
    case ExprOp::kCeilToInt:
      return Number::of_int(a[0].is_float ? python_math::to_int(std::ceil(a[0].f)) : a[0].i);
    case ExprOp::kTruncToInt:
      return Number::of_int(a[0].is_float ? python_math::to_int(std::trunc(a[0].f)) : a[0].i);
    case ExprOp::kRoundToInt:
      return Number::of_int(a[0].is_float ? python_math::to_int(std::nearbyint(a[0].f)) : a[0].i);
    case ExprOp::kIdentity:
      return a[0];
    case ExprOp::kSqrt:
      return Number::of_float(python_math::square_root(a[0].as_float()));
    case ExprOp::kExp:
      return Number::of_float(python_math::exponential(a[0].as_float()));
    case ExprOp::kLog:
      return Number::of_float(python_math::logarithm(a[0].as_float()));
    case ExprOp::kLog2:
      return Number::of_float(python_math::logarithm_2(a[0].as_float()));
    case ExprOp::kInt:
    case ExprOp::kFloat:
    case ExprOp::kSymbol:
      break;
  }
  fail(Code::kInternal, "an expression leaf has no operands: ", name(op));
}

}  // namespace

std::string_view name(ExprOp op) { return kOps[static_cast<size_t>(op)].name; }

ExprOp expr_op(std::string_view name) {
  for (size_t k = 0; k < kOps.size(); ++k) {
    if (kOps[k].name == name) return static_cast<ExprOp>(k);
  }
  fail(Code::kUnsupported, "the size expression ", name,
       " has no rule; call torch.compile with dynamic=False to compile one program per shape");
}

ExprId Exprs::intern(Node node) {
  for (size_t k = 0; k < nodes_.size(); ++k) {
    const Node& n = nodes_[k];
    const bool same_float = n.f == node.f && std::signbit(n.f) == std::signbit(node.f);
    if (n.op == node.op && n.i == node.i && same_float && n.args == node.args)
      return static_cast<ExprId>(k);
  }
  nodes_.push_back(std::move(node));
  return static_cast<ExprId>(nodes_.size() - 1);
}

ExprId Exprs::add_int(int64_t value) { return intern({ExprOp::kInt, {}, value, 0}); }
ExprId Exprs::add_float(double value) { return intern({ExprOp::kFloat, {}, 0, value}); }

ExprId Exprs::add_symbol(const std::string& name) {
  const auto it = std::find(symbols_.begin(), symbols_.end(), name);
  const auto index = static_cast<int64_t>(it - symbols_.begin());
  if (it == symbols_.end()) symbols_.push_back(name);
  return intern({ExprOp::kSymbol, {}, index, 0});
}

ExprId Exprs::add(ExprOp op, std::vector<ExprId> args) {
  const OpFacts& facts = kOps[static_cast<size_t>(op)];
  const auto count = static_cast<int>(args.size());
  if (facts.max_args == 0 || count < facts.min_args ||
      (facts.max_args > 0 && count > facts.max_args)) {
    fail(Code::kInternal, "the expression ", facts.name, " doesn't take ", count, " operands");
  }
  for (const ExprId a : args) {
    if (a < 0 || a >= size())
      fail(Code::kInternal, "the expression ", facts.name, " has no operand ", a);
  }
  return intern({op, std::move(args), 0, 0});
}

int64_t Exprs::as_symbol(ExprId id) const {
  return id >= 0 && nodes_[id].op == ExprOp::kSymbol ? nodes_[id].i : -1;
}

void Exprs::mark_symbols(ExprId id, std::vector<bool>& used) const {
  const Node& n = nodes_[id];
  if (n.op == ExprOp::kSymbol) used[n.i] = true;
  for (const ExprId a : n.args) mark_symbols(a, used);
}

Number Exprs::evaluate(ExprId id, std::span<const int64_t> symbol_values) const {
  const Node& n = nodes_[id];
  switch (n.op) {
    case ExprOp::kInt:
      return Number::of_int(n.i);
    case ExprOp::kFloat:
      return Number::of_float(n.f);
    case ExprOp::kSymbol:
      return Number::of_int(symbol_values[n.i]);
    case ExprOp::kWhere:  // only the branch taken may fail
      return truth(evaluate(n.args[0], symbol_values)) ? evaluate(n.args[1], symbol_values)
                                                       : evaluate(n.args[2], symbol_values);
    default:
      break;
  }
  std::vector<Number> args;
  args.reserve(n.args.size());
  for (const ExprId a : n.args) args.push_back(evaluate(a, symbol_values));
  return apply(n.op, args);
}

int64_t Exprs::evaluate(const Size& size, std::span<const int64_t> symbol_values) const {
  if (!size.is_symbolic()) return size.value;
  const Number n = evaluate(size.expr, symbol_values);
  if (n.is_float) fail(Code::kInternal, "the size ", print(size), " is not an integer");
  return n.i;
}

std::string Exprs::print(ExprId id) const {
  const Node& n = nodes_[id];
  switch (n.op) {
    case ExprOp::kInt:
      return std::to_string(n.i);
    case ExprOp::kFloat:
      return str(n.f);
    case ExprOp::kSymbol:
      return symbols_[n.i];
    default:
      break;
  }
  const bool infix = n.op == ExprOp::kAdd || n.op == ExprOp::kMul;
  const char* separator = n.op == ExprOp::kAdd ? " + " : n.op == ExprOp::kMul ? "*" : ", ";
  std::string text = infix ? "(" : std::string(name(n.op)) + "(";
  for (size_t k = 0; k < n.args.size(); ++k) text += (k ? separator : "") + print(n.args[k]);
  return text + ")";
}

std::string Exprs::print(const Size& size) const {
  return size.is_symbolic() ? print(size.expr) : std::to_string(size.value);
}

}  // namespace torch_pjrt
