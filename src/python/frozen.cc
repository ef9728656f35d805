#include "python/frozen.h"

#include <span>
#include <utility>

#include "base/error.h"
#include "python/tensor_cast.h"

namespace torch_pjrt::python {
namespace {

namespace nb = nanobind;

constexpr const char* kRemedy =
    "\n  remedy: freeze() it for such arguments too, or call what torch.compile gave";

std::string shown(PyObject* object) { return nb::cast<std::string>(nb::repr(object)); }

int64_t read(const Source& source, PyObject* const* leaves) {
  PyObject* leaf = leaves[source.leaf];
  switch (source.kind) {
    case Source::Kind::kLeaf:
      return nb::cast<int64_t>(nb::handle(leaf));
    case Source::Kind::kSize:
      return layout_of(leaf).dims[source.dim];
    case Source::Kind::kStride:
      return layout_of(leaf).strides[source.dim];
    case Source::Kind::kOffset:
      return layout_of(leaf).offset;
  }
  fail(Code::kInternal, "no such source of a number: ", static_cast<int>(source.kind));
}

std::vector<int64_t> evaluate(const Graph& checks, std::span<const int64_t> symbols) {
  std::vector<int64_t> values;
  values.reserve(checks.outputs.size());
  for (const Output& output : checks.outputs) {
    const Scalar& s = output.number;
    const Number n = s.expr < 0 ? s.number : checks.exprs.evaluate(s.expr, symbols);
    values.push_back(n.is_float ? static_cast<int64_t>(n.f != 0) : n.i);
  }
  return values;
}

// Strides of dims of size 1, and of tensors without elements, say nothing.
bool lies_alike(const Layout& layout, std::span<const int64_t> strides) {
  for (const int64_t size : layout.dims) {
    if (size == 0) return true;
  }
  for (size_t d = 0; d < strides.size(); ++d) {
    if (layout.dims[d] != 1 && layout.strides[d] != strides[d]) return false;
  }
  return true;
}

}  // namespace

Frozen::Frozen(nb::object program, std::vector<Place> inputs, std::vector<Leaf> leaves,
               Graph checks, std::vector<Source> symbols, std::vector<std::string> conditions,
               std::vector<Place> outputs, Form form)
    : owner_(std::move(program)),
      program_(nb::cast<compile::Program&>(owner_)),
      inputs_(std::move(inputs)),
      leaves_(std::move(leaves)),
      checks_(std::move(checks)),
      symbols_(std::move(symbols)),
      conditions_(std::move(conditions)),
      outputs_(std::move(outputs)),
      form_(form) {
  if (symbols_.empty()) constant_numbers_ = evaluate(checks_, {});
}

void Frozen::check_leaf(PyObject* const* leaves, size_t k) const {
  const Leaf& leaf = leaves_[k];
  PyObject* given = leaves[k];
  const auto refuse = [&](const auto&... what) {
    fail(Code::kInvalid, leaf.name, " ", what..., kRemedy);
  };
  switch (leaf.kind) {
    case Leaf::Kind::kTensor: {
      if (!is_tensor(given)) refuse("is a ", Py_TYPE(given)->tp_name, ", and was a tensor");
      size_t first = k;
      for (size_t j = k; j-- > 0;) first = leaves[j] == given ? j : first;
      if (first == leaf.same_as) return;
      refuse(first == k ? "was the same tensor as " : "is the same tensor as ",
             leaves_[first == k ? leaf.same_as : first].name,
             first == k ? ", and is another" : ", and was another");
      return;
    }
    case Leaf::Kind::kInt:
      if (!PyLong_CheckExact(given)) refuse("is ", shown(given), ", and was an int");
      return;
    case Leaf::Kind::kFloat:
      if (!PyFloat_CheckExact(given)) refuse("is ", shown(given), ", and was a float");
      return;
    case Leaf::Kind::kConstant: {
      const bool same =
          Py_TYPE(given) == Py_TYPE(leaf.value.ptr()) && leaf.value.equal(nb::handle(given));
      if (!same) refuse("is ", shown(given), ", and was ", shown(leaf.value.ptr()));
      return;
    }
  }
}

std::vector<int64_t> Frozen::numbers(PyObject* const* leaves) const {
  if (symbols_.empty()) return constant_numbers_;
  std::vector<int64_t> symbols;
  for (const Source& source : symbols_) symbols.push_back(read(source, leaves));
  return evaluate(checks_, symbols);
}

void Frozen::check_numbers(PyObject* const* leaves) const {
  // Before a symbol is read from a dim.
  for (size_t k = 0; k < leaves_.size(); ++k) {
    const int64_t rank = leaves_[k].rank;
    if (rank < 0) continue;
    const auto found = static_cast<int64_t>(layout_of(leaves[k]).dims.size());
    if (found != rank) {
      fail(Code::kInvalid, leaves_[k].name, " has ", found, " dims, and had ", rank, kRemedy);
    }
  }
  const std::vector<int64_t> values = numbers(leaves);
  for (size_t c = 0; c < conditions_.size(); ++c) {
    if (values[c] == 0) fail(Code::kInvalid, conditions_[c], " doesn't hold", kRemedy);
  }
  std::span<const int64_t> rest = std::span(values).subspan(conditions_.size());
  for (size_t k = 0; k < leaves_.size(); ++k) {
    if (leaves_[k].rank < 0) continue;
    const auto rank = static_cast<size_t>(leaves_[k].rank);
    const auto dims = rest.first(rank);
    const auto strides = rest.subspan(rank, rank);
    rest = rest.subspan(2 * rank);
    const Layout layout = layout_of(leaves[k]);
    const Dims found(layout.dims.begin(), layout.dims.end());
    const Dims wanted(dims.begin(), dims.end());
    if (found != wanted) {
      fail(Code::kInvalid, leaves_[k].name, " has shape ", torch_pjrt::to_string(found),
           ", and it is for ", torch_pjrt::to_string(wanted), kRemedy);
    }
    if (lies_alike(layout, strides)) continue;
    fail(Code::kInvalid, leaves_[k].name, " has strides ",
         torch_pjrt::to_string(Dims(layout.strides.begin(), layout.strides.end())),
         ", and it is for ", torch_pjrt::to_string(Dims(strides.begin(), strides.end())), kRemedy);
  }
}

nb::object Frozen::input(const Place& place, PyObject* const* leaves) const {
  switch (place.kind) {
    case Place::Kind::kLeaf:
      return nb::borrow(leaves[place.index]);
    case Place::Kind::kFloat:
      return nb::steal(float_tensor(PyFloat_AS_DOUBLE(leaves[place.index])));
    case Place::Kind::kNumber:
      return nb::int_(read(place.source, leaves));
    case Place::Kind::kFixed:
      return place.fixed;
    case Place::Kind::kResult:
      break;
  }
  fail(Code::kInternal, "a program takes no result");
}

nb::object Frozen::call(nb::handle given) const {
  const auto count = static_cast<size_t>(PyTuple_GET_SIZE(given.ptr()));
  if (count != leaves_.size()) {
    fail(Code::kInvalid, "the call has ", count, " arguments, and it is for ", leaves_.size(),
         kRemedy);
  }
  PyObject* const* leaves = &PyTuple_GET_ITEM(given.ptr(), 0);
  for (size_t k = 0; k < count; ++k) check_leaf(leaves, k);
  check_numbers(leaves);
  const nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(inputs_.size())));
  for (size_t i = 0; i < inputs_.size(); ++i) {
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i),
                    input(inputs_[i], leaves).release().ptr());
  }
  const nb::object results = nb::steal(call_boxed(program_, list.ptr()));
  if (!results) throw nb::python_error();
  const auto output = [&](const Place& place) {
    if (place.kind == Place::Kind::kLeaf) return nb::borrow(leaves[place.index]);
    if (place.kind == Place::Kind::kFixed) return place.fixed;
    return nb::borrow(PyList_GET_ITEM(results.ptr(), static_cast<Py_ssize_t>(place.index)));
  };
  if (form_ == Form::kOne) return output(outputs_[0]);
  const auto size = static_cast<Py_ssize_t>(outputs_.size());
  const bool is_tuple = form_ == Form::kTuple;
  nb::object returned = nb::steal(is_tuple ? PyTuple_New(size) : PyList_New(size));
  for (Py_ssize_t k = 0; k < size; ++k) {
    PyObject* item = output(outputs_[static_cast<size_t>(k)]).release().ptr();
    if (is_tuple) {
      PyTuple_SET_ITEM(returned.ptr(), k, item);
    } else {
      PyList_SET_ITEM(returned.ptr(), k, item);
    }
  }
  return returned;
}

}  // namespace torch_pjrt::python
