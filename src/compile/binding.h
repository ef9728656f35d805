// Symbols of a graph, read from a call's arguments and checked against all of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "run/host_tensor.h"

namespace torch_pjrt::compile {

// An argument of one call: a tensor or an int.
struct Argument {
  bool is_tensor = false;
  run::HostTensor tensor;
  int64_t number = 0;
};

// Dims of a type for the given symbols.
Dims evaluate(const Exprs& exprs, const std::vector<Size>& sizes, std::span<const int64_t> symbols);

class Binding {
 public:
  // Throws Error(kUnsupported) for a symbol that is used, of which no int input and no input's dim
  // is a multiple plus a number (itself at best).
  explicit Binding(const Graph& graph);

  // The value of each symbol. Throws Error(kInvalid), naming the input, where an argument isn't
  // what the graph says for these values.
  std::vector<int64_t> bind(const Graph& graph, std::span<const Argument> arguments) const;

  // Reads again the symbols that come from ints; dims are known to be the same.
  void bind_numbers(const Graph& graph, std::span<const Argument> arguments,
                    std::vector<int64_t>& symbols) const;

  // Of the symbols that a program is made for, so that different sizes have different hashes but by
  // chance. 0 where arguments aren't what bind() takes.
  uint64_t hash(std::span<const Argument> arguments) const;

  // For messages, e.g. "symbol s0 (x.shape[0])".
  std::string describe(const Graph& graph, size_t symbol) const;

  // The symbols' values at capture.
  std::vector<int64_t> hints(const Graph& graph) const;

  // Whether input `i` is an int that the program takes as a value: it may change from call to call
  // without another program.
  bool is_free(size_t i) const { return free_[i]; }

 private:
  // A number among the arguments: symbol * factor + offset.
  struct Source {
    int64_t number(std::span<const Argument> arguments) const {
      const Argument& a = arguments[input];
      return dim < 0 ? a.number : a.tensor.dims[dim];
    }
    int64_t solve(int64_t given) const { return (given - offset) / factor; }

    int32_t symbol;
    int32_t input;
    int32_t dim;  // -1: the input is the number itself
    int64_t factor;
    int64_t offset;
  };

  void add_sources(const Graph& graph, bool only_symbols, std::vector<bool>& known);

  std::vector<Source> sources_;     // ints first
  std::vector<Source> structural_;  // those whose symbol is part of a program's key
  std::vector<bool> free_;
  std::vector<int32_t> computed_;  // int inputs that are expressions of symbols
};

}  // namespace torch_pjrt::compile
