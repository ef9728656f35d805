// The graph as text, one node a line.
#include "base/error.h"
#include "graph/graph.h"

namespace torch_pjrt {
namespace {

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph) {}

  std::string text() {
    for (const Input& input : graph_.inputs) print(input);
    for (const ValueId draw : graph_.draws) out_ << "%" << draw << " = draw : i64[2]\n";
    for (const Node& node : graph_.nodes) print(node, "");
    for (const Mutation& m : graph_.mutations) {
      out_ << graph_.inputs[m.input].name << " := %" << m.value << "\n";
    }
    out_ << "return";
    for (const Output& output : graph_.outputs) print(output);
    out_ << "\n";
    return out_.str();
  }

 private:
  std::string text(const std::vector<Size>& sizes) const {
    std::string t;
    for (const Size& s : sizes) t += (t.empty() ? "" : ",") + graph_.exprs.print(s);
    return "[" + t + "]";
  }

  std::string text(const SymType& type) const { return name(type.dtype) + text(type.dims); }

  std::string text(const Scalar& scalar) const {
    if (scalar.expr >= 0) return graph_.exprs.print(scalar.expr);
    return scalar.number.is_float ? str(scalar.number.f) : std::to_string(scalar.number.i);
  }

  std::string text(const Arg& arg) const {
    struct Visitor {
      const Printer& p;
      std::string operator()(None) const { return "None"; }
      std::string operator()(ValueRef r) const { return str("%", r.id); }
      std::string operator()(Slot s) const {
        return str("$", s.index, ":", p.text(p.graph_.scalars[s.index]));
      }
      std::string operator()(const Size& s) const { return p.graph_.exprs.print(s); }
      std::string operator()(bool b) const { return b ? "True" : "False"; }
      std::string operator()(double d) const { return str(d); }
      std::string operator()(const std::string& s) const { return "'" + s + "'"; }
      std::string operator()(DType d) const { return name(d); }
      std::string operator()(const ArgList& list) const {
        std::string t;
        for (const Arg& a : list) t += (t.empty() ? "" : ", ") + p.text(a);
        return "[" + t + "]";
      }
    };
    return std::visit(Visitor{*this}, arg.v);
  }

  void print(const Input& input) {
    if (input.kind == Input::Kind::kNumber) {
      out_ << "input " << input.name << " = " << graph_.exprs.print(input.number) << "\n";
    } else {
      out_ << "%" << input.value << " = input " << input.name << " : " << text(input.type)
           << " strides " << text(input.type.strides) << "\n";
    }
  }

  void print(const Node& node, const std::string& indentation) {
    out_ << indentation;
    for (size_t k = 0; k < node.results.size(); ++k)
      out_ << (k ? ", %" : "%") << node.first_result + k;
    out_ << " = " << node.op << "(";
    for (size_t k = 0; k < node.args.size(); ++k) {
      out_ << (k ? ", " : "") << node.args[k].name << "=" << text(node.args[k].arg);
    }
    out_ << ") :";
    for (const SymType& t : node.results) out_ << " " << text(t);
    if (!node.source.empty()) out_ << "  # " << node.source;
    out_ << "\n";
    for (const Region& region : node.regions) print(region, indentation + "  ");
  }

  void print(const Region& region, const std::string& indentation) {
    out_ << indentation << "region(";
    for (size_t k = 0; k < region.parameters.size(); ++k) {
      const Region::Parameter& p = region.parameters[k];
      out_ << (k ? ", %" : "%") << p.value << " : " << text(p.type);
    }
    out_ << "):\n";
    for (const Node& node : region.nodes) print(node, indentation + "  ");
    out_ << indentation << "  gives";
    for (const ValueId id : region.results) out_ << " %" << id;
    out_ << "\n";
  }

  void print(const Output& output) {
    switch (output.kind) {
      case Output::Kind::kValue:
        out_ << " %" << output.value << ":strides" << text(output.type.strides);
        break;
      case Output::Kind::kInput:
        out_ << " " << graph_.inputs[output.input].name;
        break;
      case Output::Kind::kView:
        out_ << " view(" << graph_.inputs[output.input].name << ", " << text(output.type.dims)
             << ", " << text(output.type.strides) << ", " << graph_.exprs.print(output.type.offset)
             << ")";
        break;
      case Output::Kind::kPart:
        out_ << " view(output " << output.output << ", " << text(output.type.dims) << ", "
             << text(output.type.strides) << ", " << graph_.exprs.print(output.type.offset) << ")";
        break;
      case Output::Kind::kSame:
        out_ << " output " << output.output;
        break;
      case Output::Kind::kNumber:
        out_ << " " << text(output.number);
        break;
      case Output::Kind::kNone:
        out_ << " None";
        break;
    }
  }

  const Graph& graph_;
  std::ostringstream out_;
};

}  // namespace

std::string print(const Graph& graph) { return Printer(graph).text(); }

}  // namespace torch_pjrt
