// Factors of matrices, and solutions with triangular ones. A matrix is factored in blocks of
// columns: a loop over the columns of one, and products for all that lies right of it.
#include <algorithm>
#include <functional>

#include "lower/check.h"
#include "lower/formula.h"

namespace torch_pjrt::lower {
namespace {

using hlo::Value;
using Values = std::vector<Value>;

constexpr int64_t kBlock = 32;

Tensor number(const Call& c, int64_t value, DType dtype = DType::kI64) {
  return c.wrap(c.build().constant(value, {dtype, {}}));
}

// Matrices of one batch dim: [batch, rows, columns].
class Matrices {
 public:
  Matrices(const Call& call, Value value) : c_(&call), v_(std::move(value)) {}
  static Matrices of(const Call& c, const Tensor& t) {
    const Dims dims = t.dims();
    const auto [rows, columns] = std::pair{dims[dims.size() - 2], dims.back()};
    int64_t batch = 1;
    for (size_t d = 0; d + 2 < dims.size(); ++d) batch *= dims[d];
    return {c, c.reshape(t, {batch, rows, columns}).value};
  }

  const Value& value() const { return v_; }
  int64_t batch() const { return v_.type.dims[0]; }
  int64_t rows() const { return v_.type.dims[1]; }
  int64_t columns() const { return v_.type.dims[2]; }
  bool is_empty() const { return v_.type.num_elements() == 0; }
  Formula formula() const { return {*c_, c_->wrap(v_)}; }

  Matrices part(int64_t row, int64_t end_row, int64_t column, int64_t end_column) const {
    return {*c_,
            c_->build().slice(v_, {0, row, column}, {batch(), end_row, end_column}, {1, 1, 1})};
  }
  Matrices beside(const Matrices& right) const { return joined(right, 2); }
  Matrices above(const Matrices& below) const { return joined(below, 1); }
  // Conjugate transpose.
  Matrices adjoint() const {
    Matrices t(*c_, c_->build().transpose(v_, {0, 2, 1}));
    if (!is_complex(v_.type.dtype)) return t;
    const Formula f = t.formula();
    return {*c_, apply(Op::kComplex, apply(Op::kReal, f), -apply(Op::kImag, f)).tensor().value};
  }
  // The position of each element along a dim, i64.
  Formula position(int64_t dim) const {
    return {*c_, c_->wrap(c_->build().iota(dim, {DType::kI64, v_.type.dims}))};
  }
  // [batch] or [batch, columns] or [batch, rows] spread over the other dims of these.
  Formula spread(const Value& value, const std::vector<int64_t>& dims) const {
    return {*c_, c_->wrap(c_->build().broadcast(value, v_.type.dims, dims))};
  }
  // The elements where `mask`, one of each row or column at most; that dim is dropped.
  Value picked(const Formula& mask, int64_t dim) const {
    const Formula zero(*c_, c_->wrap(c_->build().constant(0, v_.type)));
    const Tensor kept = where(mask, formula(), zero).tensor();
    return c_->reduce(Op::kAdd, kept, 0, {dim}).value;
  }
  Matrices minus_product(const Matrices& a, const Matrices& b) const {
    const Value product =
        c_->build().dot_general(a.value(), b.value(), {0}, {0}, {2}, {1}, v_.type.dtype);
    return {*c_, c_->build().elementwise(Op::kSubtract, {v_, product})};
  }
  // Row i becomes that at order[i], [batch, rows] i64.
  Matrices with_rows(const Value& order) const {
    hlo::Gather g;
    g.offset_dims = {2};
    g.collapsed_slice_dims = {1};
    g.operand_batching_dims = g.start_indices_batching_dims = {0};
    g.start_index_map = {1};
    g.index_vector_dim = 2;
    g.slice_sizes = {1, 1, columns()};
    const Value at = c_->build().reshape(order, {batch(), rows(), 1});
    return {*c_, c_->build().gather(v_, at, g)};
  }

 private:
  Matrices joined(const Matrices& other, int64_t dim) const {
    const Value both[] = {v_, other.v_};
    return {*c_, c_->build().concatenate(both, dim)};
  }

  const Call* c_;
  Value v_;
};

// Runs `body` with the numbers from 0 to `count`.
Values for_each(const Call& c, int64_t count, Values state,
                const std::function<Values(const Formula&, std::span<const Value>)>& body) {
  hlo::Builder& b = c.build();
  state.insert(state.begin(), number(c, 0).value);
  const auto goes_on = [&](std::span<const Value> v) -> Values {
    return {b.compare(hlo::Direction::kLt, v[0], number(c, count).value)};
  };
  const auto next = [&](std::span<const Value> v) {
    Values values = body({c, c.wrap(v[0])}, v.subspan(1));
    values.insert(values.begin(), b.elementwise(Op::kAdd, {v[0], number(c, 1).value}));
    return values;
  };
  Values results = b.while_loop(state, goes_on, next);
  results.erase(results.begin());
  return results;
}

Formula real_part(const Formula& f) {
  return is_complex(f.tensor().dtype()) ? apply(Op::kReal, f) : f;
}

// --- A = L L^H

struct Cholesky {
  Matrices lower;
  Value info;  // [batch] i64: 0, or the number from 1 of the first column without a root
};

// Column by column; the lower triangle alone is read.
Cholesky cholesky_of_block(const Call& c, const Matrices& a) {
  hlo::Builder& b = c.build();
  const Values start = {a.value(), b.constant(0, {DType::kI64, {a.batch()}})};
  const Values end =
      for_each(c, a.columns(), start, [&](const Formula& k, std::span<const Value> s) {
        const Matrices m(c, s[0]);
        const Formula info(c, c.wrap(s[1]));
        const Formula row = m.position(1);
        const Formula column = m.position(2);
        const Formula at = m.spread(k.tensor().value, {});
        const Formula pivot(c, c.wrap(m.picked((row == at) & (column == at), 2)));
        const Value pivots = c.reduce(Op::kAdd, pivot.tensor(), 0, {1}).value;  // [batch]
        const Formula square = real_part({c, c.wrap(pivots)});
        const Formula root = sqrt(square);
        const Formula is_first_bad = (!(square > 0)) & (info == 0);
        const Formula number_here(c, c.wrap(b.broadcast((k + 1).tensor().value, {a.batch()}, {})));
        // The new column, with the root on the diagonal.
        const DType dtype = s[0].type.dtype;
        const Value scale = root.as(dtype).tensor().value;
        const Value old = m.picked(column == at, 2);  // [batch, rows]
        const Matrices scaled(c, (m.spread(old, {0, 1}) / m.spread(scale, {0})).tensor().value);
        const Formula on_diagonal = row == at;
        const Formula fresh = where(on_diagonal, m.spread(scale, {0}), scaled.formula());
        const Value ends =
            b.slice(fresh.tensor().value, {0, 0, 0}, {a.batch(), a.rows(), 1}, {1, 1, 1});
        const Matrices tail(c, ends);
        const Matrices rest = m.minus_product(tail, tail.adjoint());
        const Formula kept = where(column > at, rest.formula(), m.formula());
        const Formula next = where((column == at) & (row >= at), fresh, kept);
        return Values{next.tensor().value, where(is_first_bad, number_here, info).tensor().value};
      });
  const Matrices m(c, end[0]);
  const Formula zero(c, c.wrap(b.constant(0, a.value().type)));
  const Formula lower = where(m.position(1) >= m.position(2), m.formula(), zero);
  return {{c, lower.tensor().value}, end[1]};
}

Cholesky cholesky(const Call& c, const Matrices& a) {
  const int64_t n = a.rows();
  if (n <= kBlock) return cholesky_of_block(c, a);
  hlo::Builder& b = c.build();
  const int64_t k = kBlock;
  const Cholesky first = cholesky_of_block(c, a.part(0, k, 0, k));
  const Matrices below(c, b.triangular_solve(first.lower.adjoint().value(),
                                             a.part(k, n, 0, k).value(), false, false, false));
  const Cholesky rest = cholesky(c, a.part(k, n, k, n).minus_product(below, below.adjoint()));
  const Matrices none(c, b.constant(0, {a.value().type.dtype, {a.batch(), k, n - k}}));
  const Formula early(c, c.wrap(first.info));
  const Formula late(c, c.wrap(rest.info));
  const Formula info = where(early != 0, early, where(late != 0, late + static_cast<double>(k), 0));
  return {first.lower.beside(none).above(below.beside(rest.lower)), info.tensor().value};
}

Results cholesky_ex(const Call& c) {
  if (c.flag("check_errors")) c.unsupported("check_errors", "use torch.linalg.cholesky");
  const Tensor self = c.tensor("self");
  const bool upper = c.flag("upper");
  const Matrices a = Matrices::of(c, self);
  if (a.is_empty()) {
    return {self, c.wrap(c.build().constant(0, c.result(1)))};
  }
  const Cholesky r = cholesky(c, upper ? a.adjoint() : a);
  const Matrices factor = upper ? r.lower.adjoint() : r.lower;
  const Tensor info = c.convert(c.wrap(r.info), DType::kI32);
  return {c.reshape(c.wrap(factor.value()), c.result(0).dims), c.reshape(info, c.result(1).dims)};
}

// --- A = P L U

struct Lu {
  Matrices factors;
  Value order;   // [batch, rows] i64: row i of L U is row order[i] of A
  Value pivots;  // [batch, least of both sizes] i64: the row, from 0, that column i swapped with
  Value info;    // [batch] i64: 0, or the number from 1 of the first pivot that is 0
};

// The size by which a pivot is chosen, as LAPACK does.
Formula size_of(const Formula& f) {
  if (!is_complex(f.tensor().dtype())) return abs(f);
  return abs(apply(Op::kReal, f)) + abs(apply(Op::kImag, f));
}

// For each matrix the row from `k` on with the greatest element of a column [batch, rows], the
// first of equals: [batch] i64.
Value pivot_row(const Call& c, const Formula& column, const Formula& row, const Formula& k,
                int64_t rows) {
  const Formula open = row >= k;
  const Formula size = where(open, size_of(column), -1);
  const Tensor most = c.reduce(Op::kMaximum, size.tensor(), -1, {1});
  const Formula top(c, c.wrap(c.build().broadcast(most.value, size.tensor().dims(), {0})));
  const Formula place =
      where(open & ((size == top) | is_nan(size)), row, row.number(static_cast<double>(rows - 1)));
  return c.reduce(Op::kMinimum, place.tensor(), static_cast<double>(rows - 1), {1}).value;
}

// With rows `k` and `p` of each swapped.
Formula swapped(const Matrices& m, const Formula& at, const Formula& other) {
  const Formula row = m.position(1);
  const Formula here = m.spread(m.picked(row == at, 1), {0, 2});
  const Formula there = m.spread(m.picked(row == other, 1), {0, 2});
  return where(row == at, there, where(row == other, here, m.formula()));
}

Lu lu_of_block(const Call& c, const Matrices& a) {
  hlo::Builder& b = c.build();
  const int64_t steps = std::min(a.rows(), a.columns());
  const Type index{DType::kI64, {a.batch(), a.rows()}};
  const Values start = {a.value(), b.iota(1, index),
                        b.constant(0, {DType::kI64, {a.batch(), steps}}),
                        b.constant(0, {DType::kI64, {a.batch()}})};
  const Values end = for_each(c, steps, start, [&](const Formula& k, std::span<const Value> s) {
    const Matrices m(c, s[0]);
    const Formula at = m.spread(k.tensor().value, {});
    const Formula column_here(c, c.wrap(m.picked(m.position(2) == at, 2)));
    const Formula row_number(c, c.wrap(b.iota(1, index)));
    const Formula k_of_rows(c, c.wrap(b.broadcast(k.tensor().value, index.dims, {})));
    const Value p = pivot_row(c, column_here, row_number, k_of_rows, a.rows());
    const Matrices moved(c, swapped(m, at, m.spread(p, {0})).tensor().value);
    const Matrices order(c, b.reshape(s[1], {a.batch(), a.rows(), 1}));
    const Formula k_of_order = order.spread(k.tensor().value, {});
    const Value new_order =
        b.reshape(swapped(order, k_of_order, order.spread(p, {0})).tensor().value, index.dims);
    // Divided by the pivot, unless that is 0.
    const Formula row = moved.position(1);
    const Formula column = moved.position(2);
    const Value pivot_line = moved.picked(row == at, 1);  // [batch, columns]
    const Matrices line(c, b.reshape(pivot_line, {a.batch(), 1, a.columns()}));
    const Value pivot = b.reshape(
        line.picked(line.position(2) == line.spread(k.tensor().value, {}), 2), {a.batch()});
    const Formula divisor = moved.spread(pivot, {0});
    const Formula is_zero = divisor == divisor.number(0);
    const Value old = moved.picked(column == at, 2);
    const Formula ratio =
        where(is_zero, moved.spread(old, {0, 1}), moved.spread(old, {0, 1}) / divisor);
    const Formula updated = moved.formula() - ratio * moved.spread(pivot_line, {0, 2});
    const Formula below = row > at;
    const Formula next = where(below & (column == at), ratio,
                               where(below & (column > at), updated, moved.formula()));
    const Type pivots_type{DType::kI64, {a.batch(), steps}};
    const Formula nth(c, c.wrap(b.iota(1, pivots_type)));
    const Formula k_of_pivots(c, c.wrap(b.broadcast(k.tensor().value, pivots_type.dims, {})));
    const Formula p_of_pivots(c, c.wrap(b.broadcast(p, pivots_type.dims, {0})));
    const Formula info(c, c.wrap(s[3]));
    const Formula head(c, c.wrap(pivot));
    const Formula k_of_info(c, c.wrap(b.broadcast((k + 1).tensor().value, {a.batch()}, {})));
    const Formula bad = (head == head.number(0)) & (info == 0);
    return Values{next.tensor().value, new_order,
                  where(nth == k_of_pivots, p_of_pivots, {c, c.wrap(s[2])}).tensor().value,
                  where(bad, k_of_info, info).tensor().value};
  });
  return {{c, end[0]}, end[1], end[2], end[3]};
}

Formula of(const Call& c, const Value& v) { return {c, c.wrap(v)}; }

Lu lu(const Call& c, const Matrices& a) {
  const int64_t k = kBlock;
  const int64_t m = a.rows();
  const int64_t n = a.columns();
  if (n <= k) return lu_of_block(c, a);
  hlo::Builder& b = c.build();
  const int64_t wide = std::min(k, m);
  const Lu first = lu_of_block(c, a.part(0, m, 0, wide));
  const Matrices right = a.part(0, m, wide, n).with_rows(first.order);
  const Matrices head = first.factors.part(0, wide, 0, wide);
  const Matrices top(c, b.triangular_solve(head.value(), right.part(0, wide, 0, n - wide).value(),
                                           true, true, true));
  if (m == wide) return {head.beside(top), first.order, first.pivots, first.info};
  const Matrices left = first.factors.part(wide, m, 0, wide);
  const Lu rest = lu(c, right.part(wide, m, 0, n - wide).minus_product(left, top));
  const Matrices factors = head.beside(top).above(left.with_rows(rest.order).beside(rest.factors));
  const Matrices order(c, b.reshape(first.order, {a.batch(), m, 1}));
  const Matrices late = order.part(wide, m, 0, 1).with_rows(rest.order);
  const Value whole_order =
      b.reshape(order.part(0, wide, 0, 1).above(late).value(), {a.batch(), m});
  const Value both[] = {first.pivots,
                        (of(c, rest.pivots) + static_cast<double>(wide)).tensor().value};
  const Formula early = of(c, first.info);
  const Formula later = of(c, rest.info);
  const Formula info =
      where(early != 0, early, where(later != 0, later + static_cast<double>(wide), 0));
  return {factors, whole_order, b.concatenate(both, 1), info.tensor().value};
}

Results lu_factor_ex(const Call& c) {
  if (c.flag("check_errors")) c.unsupported("check_errors", "use torch.linalg.lu_factor");
  if (!c.flag("pivot")) c.unsupported("pivot=False");
  const Tensor self = c.tensor(0);
  const Matrices a = Matrices::of(c, self);
  if (a.is_empty()) {
    return {self, c.wrap(c.build().constant(0, c.result(1))),
            c.wrap(c.build().constant(0, c.result(2)))};
  }
  const Lu r = lu(c, a);
  const auto i32 = [&](const Formula& f, size_t result) {
    return c.reshape(c.convert(f.tensor(), DType::kI32), c.result(result).dims);
  };
  return {c.reshape(c.wrap(r.factors.value()), c.result(0).dims), i32(of(c, r.pivots) + 1, 1),
          i32(of(c, r.info), 2)};
}

// The order in which those swaps leave `size` rows.
Results order_of_pivots(const Call& c) {
  hlo::Builder& b = c.build();
  const Tensor pivots = c.convert(c.tensor("pivots"), DType::kI64);
  const Dims dims = pivots.dims();
  const int64_t rows = c.integer("size");
  if (c.result().num_elements() == 0) return c.wrap(b.constant(0, c.result()));
  const int64_t steps = dims.back();
  const int64_t batch = c.result().num_elements() / rows;
  const Matrices swaps(c, c.reshape(pivots, {batch, steps, 1}).value);
  const Value start = b.iota(1, {DType::kI64, {batch, rows, 1}});
  const Values end = for_each(c, steps, {start}, [&](const Formula& k, std::span<const Value> s) {
    const Matrices order(c, s[0]);
    const Formula here = swaps.spread(k.tensor().value, {});
    const Value p = b.reshape(swaps.picked(swaps.position(1) == here, 1), {batch});
    const Formula at = order.spread(k.tensor().value, {});
    return Values{swapped(order, at, order.spread(p, {0}) - 1).tensor().value};
  });
  return c.reshape(c.wrap(end[0]), c.result().dims);
}

// --- triangles

Results solve_triangular(const Call& c) {
  const Dims dims = c.result().dims;
  const auto of_batch = [&](const char* key) {
    const Tensor t = c.convert(c.tensor(key), c.result().dtype);
    const Dims own = t.dims();
    Dims whole(dims.begin(), dims.end() - 2);
    whole.insert(whole.end(), own.end() - 2, own.end());
    return c.row_major(c.broadcast(t, whole)).value;
  };
  if (c.result().num_elements() == 0) return c.wrap(c.build().constant(0, c.result()));
  return c.wrap(c.build().triangular_solve(of_batch("self"), of_batch("B"), c.flag("left"),
                                           !c.flag("upper"), c.flag("unitriangular")));
}

// --- errors

Results nothing(const Call&) { return {}; }

// `info` has 0 for each matrix that could be factored.
std::vector<Failure> check_factors(const Call& c) {
  const Tensor info = c.convert(c.any_order("info"), DType::kI64);
  if (info.value.type.num_elements() == 0) return {};
  const Tensor first = first_true(c, c.compare(hlo::Direction::kNe, info, c.splat_like(info, 0)));
  const Tensor bad = c.compare(hlo::Direction::kNe, first, number(c, kNowhere));
  Formula found(c, element_at(c, info, first));
  if (!c.flag("is_matrix")) found = found + (Formula(c, first) + 1) * 0x1p32;
  return {{bad, found.tensor(), {Problem::Kind::kFactorError, c.string_or("api_name", "")}}};
}

constexpr Entry kRules[] = {
    {"aten::_linalg_check_errors", nothing, {}, check_factors},
    {"aten::linalg_cholesky_ex", cholesky_ex},
    {"aten::linalg_lu_factor_ex", lu_factor_ex},
    {"aten::linalg_solve_triangular", solve_triangular},
    {"torch_pjrt::order_of_pivots", order_of_pivots},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> factor_rules() { return kRules; }

}  // namespace torch_pjrt::lower
