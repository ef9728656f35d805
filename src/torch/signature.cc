#include "torch/signature.h"

#include <functional>
#include <set>
#include <utility>

#include "lower/strided.h"

namespace torch_pjrt::lazy {
namespace {

int32_t next_id = 0;

// Views of one form at so many places are each a slice at a known place: the parts of a chunk.
constexpr size_t kFewOffsets = 4;

auto& op_signatures() {
  static auto& table = *new std::unordered_map<std::string, std::unique_ptr<OpSignature>>;
  return table;
}

auto& own_signatures() {
  static auto& table = *new std::unordered_map<std::string, std::unique_ptr<Signature>>;
  return table;
}

Arg list(const at::DimVector& numbers) {
  ArgList items;
  for (const int64_t n : numbers) items.push_back({Size(n)});
  return {std::move(items)};
}

ValueId add_input(Graph& graph, const Geometry& type) {
  const int32_t index = graph.add_tensor_input("", type.sym_type());
  return graph.inputs[index].value;
}

ValueId add(Graph& graph, const char* op, std::vector<NamedArg> args, const Geometry& result) {
  return graph.add_node(op, std::move(args), {result.sym_type()}, "");
}

// Where self lies, and where the view does.
std::vector<NamedArg> strided(ValueId self, const Geometry& from, const Geometry& to) {
  return {{"self", {ValueRef{self}}},          {"size", list(to.dims)},
          {"stride", list(to.strides)},        {"storage_offset", {Size(to.offset)}},
          {"self_stride", list(from.strides)}, {"self_offset", {Size(from.offset)}}};
}

Geometry dense(const Geometry& type) {
  const Dims strides = contiguous_strides(type.type().dims);
  return {type.dtype, type.dims, at::DimVector(strides.begin(), strides.end()), 0};
}

ValueId as_strided(Graph& graph, ValueId self, const Geometry& from, const Geometry& to) {
  return add(graph, "aten::as_strided", strided(self, from, to), dense(to));
}

// A flat tensor's memory as elements of another dtype.
std::pair<ValueId, Geometry> as_dtype(Graph& graph, ValueId flat, Geometry from, DType dtype) {
  const auto size_in = static_cast<int64_t>(byte_size(from.dtype));
  const auto size_out = static_cast<int64_t>(byte_size(dtype));
  if (is_complex(from.dtype)) {
    const DType real = part(from.dtype);
    const Geometry parts{real, {from.dims[0], 2}, {2, 1}, 0};
    flat = add(graph, "aten::view_as_real", {{"self", {ValueRef{flat}}}}, parts);
    const Geometry all = Geometry::flat(real, 2 * from.dims[0]);
    flat = as_strided(graph, flat, parts, all);
    return real == dtype ? std::pair(flat, all) : as_dtype(graph, flat, all, dtype);
  }
  if (is_complex(dtype)) {
    const DType real = part(dtype);
    if (real != from.dtype) std::tie(flat, from) = as_dtype(graph, flat, from, real);
    const int64_t n = from.dims[0] / 2;
    const Geometry parts{real, {n, 2}, {2, 1}, 0};
    flat = as_strided(graph, flat, from, parts);
    const Geometry all = Geometry::flat(dtype, n);
    return {add(graph, "aten::view_as_complex", {{"self", {ValueRef{flat}}}}, all), all};
  }
  const Geometry to = Geometry::flat(dtype, from.dims[0] * size_in / size_out);
  if (const int64_t used = to.dims[0] * size_out / size_in; used != from.dims[0]) {
    const Geometry begin = Geometry::flat(from.dtype, used);
    flat = as_strided(graph, flat, from, begin);
  }
  return {add(graph, "aten::view.dtype", {{"self", {ValueRef{flat}}}, {"dtype", {dtype}}}, to), to};
}

const Signature& own(const char* op, const std::string& key, const Geometry& result,
                     const std::function<ValueId(Graph&)>& build) {
  std::unique_ptr<Signature>& entry = own_signatures()[key];
  if (!entry) {
    auto made = std::make_unique<Signature>();
    made->id = next_id++;
    made->op = op;
    made->results.push_back({build(made->graph), result});
    made->numbers.assign(made->graph.scalars.size(), -1);
    entry = std::move(made);
  }
  return *entry;
}

std::string key_of(char kind, const Geometry& a, const Geometry& b) {
  std::string key(1, kind);
  a.append_to(key);
  b.append_to(key);
  return key;
}

}  // namespace

const OpSignature* find_signature(const std::string& key) {
  const auto it = op_signatures().find(key);
  return it == op_signatures().end() ? nullptr : it->second.get();
}

const OpSignature& add_signature(const std::string& key, std::unique_ptr<OpSignature> signature) {
  signature->computed.id = next_id++;
  return *op_signatures().try_emplace(key, std::move(signature)).first->second;
}

void read_outputs(OpSignature& signature) {
  Signature& computed = signature.computed;
  const Graph& graph = computed.graph;
  const auto add_result = [&](ValueId value, const Geometry& type) {
    computed.results.push_back({value, type});
    return static_cast<int32_t>(computed.results.size()) - 1;
  };
  for (const Output& output : graph.outputs) {
    const Geometry type = Geometry::of(output.type);
    switch (output.kind) {
      case Output::Kind::kValue:
        signature.returns.push_back({Return::Kind::kResult, add_result(output.value, type), type});
        break;
      case Output::Kind::kInput:
        signature.returns.push_back({Return::Kind::kOperand, output.input, {}});
        break;
      case Output::Kind::kView:
        signature.returns.push_back({Return::Kind::kViewOfOperand, output.input, type});
        break;
      case Output::Kind::kNone:
        signature.returns.push_back({});
        break;
      default:
        signature.on_host = "it returns numbers";
    }
  }
  for (const Mutation& m : graph.mutations) {
    const Geometry type = Geometry::of(graph.inputs[m.input].type);
    signature.writes.push_back({m.input, add_result(m.value, dense(type))});
  }
}

const Signature& view_signature(const Geometry& from, const Geometry& to) {
  return own("as_strided", key_of('v', from, to), dense(to), [&](Graph& graph) {
    const ValueId self = add_input(graph, from);
    if (from.dtype == to.dtype) return as_strided(graph, self, from, to);
    const Geometry flat = Geometry::flat(from.dtype, from.num_elements());
    const ValueId all = as_strided(graph, self, from, flat);
    const auto [cast, geometry] = as_dtype(graph, all, flat, to.dtype);
    return as_strided(graph, cast, geometry, to);
  });
}

const Signature& scatter_signature(const Geometry& base, const Geometry& part) {
  return own("as_strided_scatter", key_of('w', base, part), base, [&](Graph& graph) {
    const ValueId self = add_input(graph, base);
    const ValueId source = add_input(graph, dense(part));
    std::vector<NamedArg> args = strided(self, base, part);
    args.insert(args.begin() + 1, NamedArg{"src", {ValueRef{source}}});
    return add(graph, "aten::as_strided_scatter", std::move(args), base);
  });
}

const Signature* window_signature(char kind, const Geometry& base, const Geometry& view) {
  struct Window {
    std::set<int64_t> offsets;  // that were asked for, until there are many
    const Signature* signature = nullptr;
  };
  static auto& windows = *new std::unordered_map<std::string, Window>;
  if (base.dtype != view.dtype || base.offset != 0) return nullptr;
  Geometry pattern = view;
  pattern.offset = 0;
  Window& window = windows[key_of(kind, base, pattern)];
  if (!window.signature) {
    window.offsets.insert(view.offset);
    if (window.offsets.size() <= kFewOffsets) return nullptr;
  }
  const Type from = base.type();
  const Type to = view.type();
  if (!lower::is_window(from.dims, Dims(base.strides.begin(), base.strides.end()), to.dims,
                        Dims(view.strides.begin(), view.strides.end()), view.offset)) {
    return nullptr;
  }
  if (window.signature) return window.signature;
  window.offsets.clear();
  const bool scatters = kind == kScatters;
  auto made = std::make_unique<Signature>();
  made->id = next_id++;
  made->op = scatters ? "as_strided_scatter" : "as_strided";
  Graph& graph = made->graph;
  std::vector<NamedArg> args = strided(add_input(graph, base), base, pattern);
  if (scatters) {
    args.insert(args.begin() + 1, NamedArg{"src", {ValueRef{add_input(graph, dense(pattern))}}});
  }
  const Scalar place{ScalarKind::kInt, ScalarClass::kOther, Number::of_int(0), -1};
  args.push_back({"place", {graph.add_scalar(place)}});
  const Geometry result = scatters ? base : dense(pattern);
  made->results.push_back(
      {add(graph, ("aten::" + made->op).c_str(), std::move(args), result), result});
  made->numbers = {0};
  window.signature = made.release();  // for the life of the process, as all of them
  return window.signature;
}

const Signature& zeros_signature(const Geometry& type) {
  return own("zeros", key_of('z', type, {}), type, [&](Graph& graph) {
    return add(graph, "aten::zeros",
               {{"size", list(type.dims)},
                {"dtype", {type.dtype}},
                {"layout", {}},
                {"device", {}},
                {"pin_memory", {}}},
               type);
  });
}

const Signature& copy_signature(const Geometry& from, const Geometry& to) {
  return own("copy", key_of('c', from, to), to, [&](Graph& graph) {
    ValueId value = add_input(graph, from);
    if (from.dtype != to.dtype) {
      Geometry cast = dense(from);
      cast.dtype = to.dtype;
      value = add(graph, "aten::_to_copy",
                  {{"self", {ValueRef{value}}},
                   {"dtype", {to.dtype}},
                   {"layout", {}},
                   {"device", {}},
                   {"pin_memory", {}},
                   {"non_blocking", {false}},
                   {"memory_format", {}}},
                  cast);
    }
    if (from.dims == to.dims) return value;
    return add(graph, "aten::expand",
               {{"self", {ValueRef{value}}}, {"size", list(to.dims)}, {"implicit", {false}}},
               dense(to));
  });
}

}  // namespace torch_pjrt::lazy
