// Frozen: a program that is called by a function's own arguments, without guards.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "python/bind.h"
#include "python/frozen.h"

namespace torch_pjrt::python {
namespace {

namespace nb = nanobind;

template <class Kind>
Kind named(const std::string& name,
           std::initializer_list<std::pair<std::string_view, Kind>> kinds) {
  for (const auto& [known, kind] : kinds) {
    if (known == name) return kind;
  }
  fail(Code::kInternal, "Frozen: no kind is called ", name);
}

using GivenSource = std::tuple<std::string, size_t, size_t>;  // kind, leaf, dim
using GivenPlace = std::pair<std::string, nb::object>;        // kind, what
using GivenLeaf = std::tuple<std::string, std::string, nb::object, size_t, int64_t>;

Source source(const GivenSource& given) {
  const auto& [kind, leaf, dim] = given;
  return {named<Source::Kind>(kind, {{"leaf", Source::Kind::kLeaf},
                                     {"size", Source::Kind::kSize},
                                     {"stride", Source::Kind::kStride},
                                     {"storage_offset", Source::Kind::kOffset}}),
          leaf, dim};
}

Place place(const GivenPlace& given) {
  const auto& [name, what] = given;
  Place place{named<Place::Kind>(name, {{"leaf", Place::Kind::kLeaf},
                                        {"float", Place::Kind::kFloat},
                                        {"number", Place::Kind::kNumber},
                                        {"fixed", Place::Kind::kFixed},
                                        {"result", Place::Kind::kResult}}),
              0,
              {},
              {}};
  if (place.kind == Place::Kind::kFixed) {
    place.fixed = what;
  } else if (place.kind == Place::Kind::kNumber) {
    place.source = source(nb::cast<GivenSource>(what));
  } else {
    place.index = nb::cast<size_t>(what);
  }
  return place;
}

Leaf leaf(const GivenLeaf& given) {
  const auto& [name, kind, value, same_as, rank] = given;
  return {name,
          named<Leaf::Kind>(kind, {{"tensor", Leaf::Kind::kTensor},
                                   {"int", Leaf::Kind::kInt},
                                   {"float", Leaf::Kind::kFloat},
                                   {"value", Leaf::Kind::kConstant}}),
          value, same_as, rank};
}

template <class To, class From>
std::vector<To> all(const std::vector<From>& given, To (*one)(const From&)) {
  std::vector<To> made;
  for (const From& item : given) made.push_back(one(item));
  return made;
}

void make_frozen(Frozen* self, nb::object program, const std::vector<GivenPlace>& inputs,
                 const std::vector<GivenLeaf>& leaves, const Graph& checks,
                 const std::vector<GivenSource>& symbols, std::vector<std::string> conditions,
                 const std::vector<GivenPlace>& outputs, const std::string& form) {
  new (self) Frozen(std::move(program), all(inputs, place), all(leaves, leaf), checks,
                    all(symbols, source), std::move(conditions), all(outputs, place),
                    named<Frozen::Form>(form, {{"one", Frozen::Form::kOne},
                                               {"tuple", Frozen::Form::kTuple},
                                               {"list", Frozen::Form::kList}}));
}

}  // namespace

void bind_frozen(nb::module_& m) {
  nb::class_<Frozen>(m, "Frozen")
      .def("__init__", &make_frozen, nb::arg("program"), nb::arg("inputs"), nb::arg("leaves"),
           nb::arg("checks"), nb::arg("symbols"), nb::arg("conditions"), nb::arg("outputs"),
           nb::arg("form"))
      .def("__call__",
           [](const Frozen& frozen, const nb::args& leaves) { return frozen.call(leaves); });
}

}  // namespace torch_pjrt::python
