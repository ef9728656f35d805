// StableHLO text, one typed statement at a time. Every op here is pure: equal statements of a block
// are emitted once. What HLO can't do for complex numbers throws Error(kUnsupported), other misuse
// Error(kInternal).
#pragma once

#include <complex>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/type.h"

namespace torch_pjrt::hlo {

// Elementwise ops.
enum class Op : uint8_t {
  kAbs,
  kAdd,
  kAnd,
  kAtan2,
  kCbrt,
  kCeil,
  kClamp,
  kComplex,
  kCosine,
  kCountLeadingZeros,
  kDigamma,
  kDivide,
  kErf,
  kErfInverse,
  kErfc,
  kExponential,
  kExponentialMinusOne,
  kFloor,
  kImag,
  kIsFinite,
  kLgamma,
  kLog,
  kLogPlusOne,
  kLogistic,
  kMaximum,
  kMinimum,
  kMultiply,
  kNegate,
  kNextAfter,
  kNot,
  kOr,
  kPolygamma,
  kPopcnt,
  kPower,
  kReal,
  kRemainder,
  kRoundNearestAfz,
  kRoundNearestEven,
  kRsqrt,
  kSelect,
  kShiftLeft,
  kShiftRightArithmetic,
  kShiftRightLogical,
  kSign,
  kSine,
  kSqrt,
  kSubtract,
  kTan,
  kTanh,
  kXor,
  kZeta,
};

// Of complex numbers, forward and inverse; of real numbers to the half that says all, and back.
enum class Fourier : uint8_t { kForward, kInverse, kOfReal, kToReal };

enum class Direction : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe };

struct Value {
  int32_t id = -1;
  Type type;
};

using Attributes = std::map<std::string, std::string>;  // printed sorted; a value is MLIR text
// What a region makes of its arguments. Only those of while and if may use values from outside.
using Region = std::function<std::vector<Value>(std::span<const Value>)>;

// Dim numbers and window of a convolution, in physical dims.
struct Convolution {
  int64_t input_batch, input_feature;
  std::vector<int64_t> input_spatial;
  int64_t kernel_input_feature, kernel_output_feature;
  std::vector<int64_t> kernel_spatial;
  int64_t output_batch, output_feature;
  std::vector<int64_t> output_spatial;
  std::vector<int64_t> strides, low, high, lhs_dilation, rhs_dilation;
  int64_t feature_group_count = 1, batch_group_count = 1;
};

struct Gather {
  std::vector<int64_t> offset_dims, collapsed_slice_dims, operand_batching_dims,
      start_indices_batching_dims, start_index_map;
  int64_t index_vector_dim = 0;
  std::vector<int64_t> slice_sizes;
  bool indices_are_sorted = false;
};

struct Scatter {
  std::vector<int64_t> update_window_dims, inserted_window_dims, input_batching_dims,
      scatter_indices_batching_dims;
  std::vector<int64_t> scatter_dims_to_operand_dims;
  int64_t index_vector_dim = 0;
  bool indices_are_sorted = false, unique_indices = false;
};

struct Window {  // one entry per dim of the operand
  std::vector<int64_t> sizes, strides, low, high, base_dilations, window_dilations;
};

class Builder {
 public:
  // `precision`: "DEFAULT", "HIGH" or "HIGHEST", for dot_general and convolution.
  explicit Builder(std::string precision) : precision_(std::move(precision)) {}

  // An argument of @main; `attributes` is MLIR text, e.g. "{tf.aliasing_output = 0 : i32}" or "".
  Value argument(const Type& type, const std::string& attributes = "");

  // Constants. `value` is rounded to a floating or complex dtype; an integer dtype or bool has to
  // hold it exactly.
  Value constant(double value, const Type& type);
  Value constant(int64_t value, const Type& type);
  Value constant(int value, const Type& type) { return constant(int64_t{value}, type); }
  Value constant(std::complex<double> value, const Type& type);
  Value constant_list(std::span<const int64_t> values, DType dtype);  // rank 1
  Value iota(int64_t dim, const Type& type);
  // A 0-d zero that the compiler can't know to be one: the number of the replica, of which a
  // program here has a single one.
  Value zero_at_run_time(DType dtype);

  // Operands are of one type, except those of select (a predicate first) and clamp (least, value,
  // greatest), where predicate and bounds may be 0-d. Of the type of the operands are all results
  // but those of is_finite (bool), abs, real and imag of complex numbers (their parts' type), and
  // complex (of real and imaginary part).
  Value elementwise(Op op, std::span<const Value> operands);
  Value elementwise(Op op, std::initializer_list<Value> operands);
  // NaN is equal to nothing and in no order; complex numbers have no order.
  Value compare(Direction direction, const Value& a, const Value& b);
  // HLO's conversion; not from a complex dtype to one that isn't.
  Value convert(const Value& v, DType dtype);
  // To a narrower dtype: a last dim more, with the parts of each element; to a wider one: a last
  // dim less, of the parts of each.
  Value bitcast_convert(const Value& v, DType dtype);

  // Dim i of `v`, of size 1 or that of the result, becomes dim operand_dims[i], in increasing
  // order.
  Value broadcast(const Value& v, const Dims& dims, const std::vector<int64_t>& operand_dims);
  Value reshape(const Value& v, const Dims& dims);
  Value transpose(const Value& v, const std::vector<int64_t>& permutation);
  Value slice(const Value& v, const Dims& start, const Dims& limit, const Dims& strides);
  // A start is a 0-d integer for each dim, all of one dtype, and is clamped to what fits.
  Value dynamic_slice(const Value& v, std::span<const Value> start, const Dims& sizes);
  Value dynamic_update_slice(const Value& v, const Value& update, std::span<const Value> start);
  Value pad(const Value& v, const Value& padding, const Dims& low, const Dims& high,
            const Dims& interior);
  Value concatenate(std::span<const Value> values, int64_t dim);
  Value reverse(const Value& v, const std::vector<int64_t>& dims);

  // The transform of the last dim, of `length` numbers before or after it; an inverse one is
  // divided by that number.
  Value fft(const Value& v, Fourier kind, int64_t length);
  Value dot_general(const Value& a, const Value& b, const std::vector<int64_t>& batch_a,
                    const std::vector<int64_t>& batch_b, const std::vector<int64_t>& contract_a,
                    const std::vector<int64_t>& contract_b, DType result);
  // x with a x = b (x a = b unless `left`), of which the last two dims are matrices; one triangle
  // of `a` is read, and with `unit` not its diagonal, which is taken for ones.
  Value triangular_solve(const Value& a, const Value& b, bool left, bool lower, bool unit);
  Value convolution(const Value& input, const Value& kernel, const Convolution& c, DType result);
  Value gather(const Value& operand, const Value& indices, const Gather& g);
  // `combine` gets (old, update) as 0-d values.
  Value scatter(const Value& operand, const Value& indices, const Value& updates, const Scatter& s,
                const Region& combine);

  // The initial value has to be neutral: XLA drops it where there is nothing to reduce over.
  Value reduce(Op op, const Value& v, const Value& init, const std::vector<int64_t>& dims);
  // Several values of one shape reduced together; the body gets all accumulators, then all
  // elements, 0-d.
  std::vector<Value> reduce(std::span<const Value> values, std::span<const Value> inits,
                            const std::vector<int64_t>& dims, const Region& body);
  std::vector<Value> reduce_window(std::span<const Value> values, std::span<const Value> inits,
                                   const Window& window, const Region& body);
  // Scatters `source` to the window position that `select`(a, b) -> i1 keeps, combining with
  // `combine`.
  Value select_and_scatter(const Value& operand, const Value& source, const Value& init,
                           const Window& window, const Region& select, const Region& combine);
  // Sorts along `dim`; the comparator gets (a0, b0, a1, b1, ...) as 0-d values and returns one i1:
  // a before b.
  std::vector<Value> sort(std::span<const Value> values, int64_t dim, bool stable,
                          const Region& comparator);
  // A loop over state; both regions get the whole state.
  std::vector<Value> while_loop(std::span<const Value> init, const Region& condition,
                                const Region& body);

  // What one of two regions without arguments gives, by a 0-d bool; both give the same types.
  std::vector<Value> conditional(const Value& predicate, const Region& on_true,
                                 const Region& on_false, std::span<const Type> results);

  // The whole module: @main with the arguments so far, returning `results`.
  std::string module(std::span<const Value> results) const;

 private:
  struct Block {
    std::string text;
    // Statement without its results' names, a region's own ids counted from 0 → first result's id.
    std::map<std::string, int32_t> seen;
    // The least id that a statement here may use: XLA takes outer values in `while` and `if` only.
    int32_t least_id = std::numeric_limits<int32_t>::min();
  };

  struct RegionText {
    std::string text;  // "{ ... }"
    int32_t first_id;  // ids from here on are the region's own
  };

  // Throws if one of the values can't be used by a statement of the current block.
  void require_usable(const std::string& op, std::span<const Value> values) const;
  std::vector<Value> statement(const std::string& op, std::span<const Value> operands,
                               const Attributes& attributes, std::span<const Type> results,
                               std::span<const RegionText> regions = {});
  // Appends `text`, unless a line with that key is there: the first of its results' ids.
  int32_t line(const std::string& text, const std::string& key, size_t num_results);
  Value one(const std::string& op, std::span<const Value> operands, const Attributes& attributes,
            Type result, std::span<const RegionText> regions = {});
  // The text of a region of `op`; its body has to return values of the types `results`.
  RegionText region(const std::string& op, std::span<const Type> arguments,
                    std::span<const Type> results, const Region& body);

  std::string precision_;
  std::vector<Block> blocks_ = std::vector<Block>(1);
  std::string arguments_;
  int32_t num_arguments_ = 0;
  int32_t next_id_ = 0;
};

}  // namespace torch_pjrt::hlo
