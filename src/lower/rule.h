// What a lowering rule sees: a call of one op, its arguments by schema, and typed emission.
//
// A rule is a plain function from a Call to the op's results. It computes in the op's compute dtype
// (f32 for f16 and bf16); results are rounded to the graph's dtype after the rule. Every result's
// type is checked against the graph.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "hlo/builder.h"
#include "lower/lower.h"
#include "lower/order.h"

namespace torch_pjrt::lower {

using hlo::Op;

// A tensor in a program: an HLO value whose dims are the logical dims in `order`.
struct Tensor {
  hlo::Value value;
  Order order;

  DType dtype() const { return value.type.dtype; }
  int64_t rank() const { return value.type.rank(); }
  Dims dims() const;  // logical
};

struct Results : std::vector<Tensor> {
  using std::vector<Tensor>::vector;
  Results(Tensor t) : std::vector<Tensor>{std::move(t)} {}  // NOLINT(google-explicit-constructor)
};

// What checks of values have found, i64: 0, or 1 + the first problem's index in
// Program::problems, and the offending value.
struct Status {
  hlo::Value problem;
  hlo::Value value;
};

struct RegionResults {
  Results values;
  std::optional<Status> status;  // none: nothing was checked
};

// An argument by its position or its name in the schema.
struct ArgKey {
  ArgKey(int index) : index(index) {}       // NOLINT(google-explicit-constructor)
  ArgKey(const char* name) : name(name) {}  // NOLINT(google-explicit-constructor)
  int index = -1;
  std::string_view name;
};

class Lowering;  // the state of one lowering, in lower.cc

class Call {
 public:
  Call(Lowering& state, const Node& node);

  // --- what the graph says
  const std::string& op() const { return node_.op; }
  size_t num_results() const { return results_.size(); }
  const Type& result(size_t i = 0) const { return results_[i]; }  // logical dims
  // Whether anything reads that result. A rule may leave out the last results if nothing does.
  bool is_used(size_t result) const;
  const Options& options() const;

  // --- structure
  const Arg& attr(ArgKey key) const;  // kInternal if it's a value
  bool has(ArgKey key) const;         // the schema has it
  bool is_none(ArgKey key) const;
  bool is_tensor(ArgKey key) const;
  bool is_structure(ArgKey key) const;                    // neither a tensor nor a value
  int64_t integer(ArgKey key) const;                      // concrete
  int64_t integer_or(ArgKey key, int64_t if_none) const;  // concrete, or the default for None
  // An int that is structure, or a value that is the same in every call of the program.
  std::optional<int64_t> known_integer(ArgKey key) const;
  bool flag(ArgKey key) const;
  std::vector<bool> flags(ArgKey key) const;  // a list of bools
  std::string string_or(ArgKey key, const std::string& if_none) const;
  double number(ArgKey key) const;  // a structural int, float or bool
  std::vector<int64_t> integers(
      ArgKey key) const;  // a list of ints; None gives {}; a lone int gives {int}
  int64_t axis(ArgKey key, int64_t rank) const;  // an int dim, negative ones counted from the end
  std::vector<int64_t> axes(ArgKey key,
                            int64_t rank) const;  // likewise for a list; None or empty: all axes

  // --- values
  ScalarClass scalar_class(ArgKey key) const;    // of a value; kOther for a tensor
  bool is_nonzero(ArgKey key) const;             // a value that can't be 0 in any call
  Tensor scalar(ArgKey key, DType dtype) const;  // a value or a 0-d tensor, converted

  // --- tensors
  // The argument's element type: a tensor's own, or a scalar's kind (bool, i64, f64, c128).
  DType dtype(ArgKey key) const;
  Type type(ArgKey key) const;             // of a tensor, logical dims; computes nothing
  int64_t num_elements(ArgKey key) const;  // of a tensor; 1 for a scalar
  // n if every element of a tensor, or of item `item` of a list, is in [0, n) in any call, by where
  // it comes from: an arange.
  std::optional<int64_t> known_limit(ArgKey key, size_t item = 0) const;
  Tensor any_order(ArgKey key) const;  // as it comes
  Tensor tensor(ArgKey key) const;     // in logical (row-major) order, own dtype
  Tensor tensor(ArgKey key, const Order& order) const;
  std::vector<Tensor> tensors(
      ArgKey key) const;  // a list of tensors, row-major; kInternal if one is None
  std::vector<Tensor> any_order_tensors(ArgKey key) const;  // the same, as they come
  std::vector<std::optional<Tensor>> optional_tensors(ArgKey key) const;
  // The promoted type of all tensor and scalar arguments (torch.result_type), or the result's when
  // that is wider in kind (int in, float out); f32 for f16 and bf16. This is the type in which the
  // op computes.
  DType compute_dtype() const;
  // Argument `key` (tensor or scalar) in the compute dtype, broadcast to the result's dims, in the
  // common order of all.
  Tensor aligned(ArgKey key) const;
  Tensor aligned(ArgKey key, DType dtype) const;
  // A constant of the result's dims in the common order, in the compute dtype (or `dtype`).
  Tensor splat(double value) const;
  Tensor splat(double value, DType dtype) const;
  Tensor splat_like(const Tensor& like, double value) const;

  // --- regions
  size_t num_parameters(size_t region) const;
  // Lowers a region, within the body of a region of the builder, and once.
  RegionResults region(size_t index, std::span<const Tensor> arguments) const;
  bool has_checks() const;  // of values, in some region
  // What they have found.
  void report(const Status& status) const;

  // --- emission; operands of one order, which the result inherits
  hlo::Builder& build() const;
  Tensor emit(Op op, std::initializer_list<Tensor> operands) const;  // elementwise
  Tensor compare(hlo::Direction direction, const Tensor& a, const Tensor& b) const;
  Tensor select(const Tensor& predicate, const Tensor& on_true, const Tensor& on_false) const;
  // PyTorch's conversion, but no imaginary part is dropped (kUnsupported): to bool is != 0, float
  // to int truncates and gives the least integer for NaN, infinities and overflow (XLA saturates),
  // as eager does on x86.
  Tensor convert(const Tensor& t, DType dtype) const;
  Tensor reorder(const Tensor& t,
                 const Order& order) const;  // the same logical tensor in another memory order
  Tensor row_major(const Tensor& t) const;
  Tensor broadcast(const Tensor& t,
                   const Dims& dims) const;  // logical, PyTorch's rule; the order is extended
  Tensor reshape(const Tensor& t, const Dims& dims) const;  // logical, row-major result
  // Logical; where the memory can stay as it is, it does.
  Tensor view(const Tensor& t, const Dims& dims) const;
  Tensor wrap(hlo::Value value) const;  // a row-major value
  // Reduces logical axes with a plain monoid (add, multiply, maximum, minimum, and, or) from
  // `init`; the axes are dropped.
  Tensor reduce(Op op, const Tensor& t, double init, const std::vector<int64_t>& axes) const;
  Tensor reduce(Op op, const Tensor& t, const hlo::Value& init,
                const std::vector<int64_t>& axes) const;
  // The sum over logical axes, which are dropped, with as small an error as eager's.
  Tensor sum(const Tensor& t, const std::vector<int64_t>& axes) const;
  // Inserts size-1 dims where `axes` were dropped from a tensor of rank t.rank() + axes.size().
  Tensor keep_dims(const Tensor& t, const std::vector<int64_t>& axes) const;

  // For an op that writes to a part of its first argument: if this gives a 0-d bool, the rule has
  // to write nothing where that is false. Then the op stays in place on an input that it mutates,
  // though a check of the program may fail.
  std::optional<Tensor> write_permit() const;

  // 0-d bool: the checks of the graph's last so many nodes before this one pass; none if there are
  // no such checks.
  std::optional<Tensor> passed(int64_t nodes) const;

  // The message names the op, the user's line and the remedy: if none is given, to rewrite it.
  [[noreturn]] void unsupported(std::string_view what) const;
  [[noreturn]] void unsupported(std::string_view what, std::string_view remedy) const;

 private:
  const Arg& find(ArgKey key) const;
  std::vector<std::optional<Tensor>> any_order_list(ArgKey key) const;
  Tensor operand(const Arg& arg, DType dtype) const;
  const Order& common_order() const;

  Lowering& state_;
  const Node& node_;
  std::vector<Type> results_;
  mutable std::optional<DType> compute_;
  mutable std::optional<Order> common_order_;
};

using Rule = Results (*)(const Call&);

// One thing that can be wrong with the values of an op's arguments.
struct Failure {
  Tensor bad;    // 0-d bool
  Tensor value;  // 0-d i64, for the message; anything where nothing is bad
  Problem problem;
};

// All of them, in eager's order, from the arguments alone: what the check reads is computed before
// the rest of the program. If one is bad, the call raises and no input changes.
using Check = std::vector<Failure> (*)(const Call&);

// How a schema argument of an op is taken, where the default (Scalar and float are values, all else
// structure) is wrong.
enum class Role : uint8_t {
  kStructure,
  kValue,          // an int that the program takes as an argument
  kSmallExponent,  // structure when it is ±0.5, ±1, ±2, 3 or 4, else a value
  kPosition,       // structure when it is known at capture, else a value
};

struct RoleOf {
  std::string_view argument;
  Role role;
};

struct Entry {
  std::string_view op;
  Rule rule;
  std::array<RoleOf, 3> exceptions = {};
  Check check = nullptr;
};

// One table per family, each sorted by op; rules.cc lists them.
std::span<const Entry> pointwise_rules();
std::span<const Entry> fourier_rules();
std::span<const Entry> special_rules();
std::span<const Entry> trigonometry_rules();
std::span<const Entry> bessel_rules();
std::span<const Entry> bits_rules();
std::span<const Entry> checked_rules();
std::span<const Entry> compare_rules();
std::span<const Entry> reduction_rules();
std::span<const Entry> scan_rules();
std::span<const Entry> sort_rules();
std::span<const Entry> matmul_rules();
std::span<const Entry> control_rules();
std::span<const Entry> convolution_rules();
std::span<const Entry> polynomial_rules();
std::span<const Entry> pooling_rules();
std::span<const Entry> norm_rules();
std::span<const Entry> normal_rules();
std::span<const Entry> view_rules();
std::span<const Entry> rearrange_rules();
std::span<const Entry> incomplete_gamma_rules();
std::span<const Entry> factor_rules();
std::span<const Entry> indexing_rules();
std::span<const Entry> strided_rules();
std::span<const Entry> scatter_rules();
std::span<const Entry> create_rules();
std::span<const Entry> backward_convolution_rules();
std::span<const Entry> backward_max_pooling_rules();
std::span<const Entry> backward_average_pooling_rules();
std::span<const Entry> random_counts_rules();
std::span<const Entry> random_rules();
std::span<const Entry> complex_rules();
// Rules in place of those above where an operand or the result is complex; the roles of arguments
// are those above.
std::span<const Entry> rules_of_complex();

template <size_t N>
constexpr bool sorted(const Entry (&entries)[N]) {
  for (size_t k = 1; k < N; ++k) {
    if (!(entries[k - 1].op < entries[k].op)) return false;
  }
  return true;
}

}  // namespace torch_pjrt::lower
