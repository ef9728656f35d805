// What the fake plugin knows of a program: the signature of its main function.
#pragma once

#include <pjrt_c_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace torch_pjrt::fake {

struct Shape {
  PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID;
  std::vector<int64_t> dims;

  bool operator==(const Shape&) const = default;
  // Size of a dense array.
  size_t num_bytes() const;
};

// E.g. "2x3xf32".
std::string text(const Shape& shape);

struct Program {
  std::vector<Shape> parameters;
  std::vector<size_t> parameter_bytes;
  std::vector<Shape> results;
  // For each result, the parameter that gives its memory to it.
  std::vector<std::optional<size_t>> donors;
  std::string text;  // that it was made from
};

// Size of an element; 0 for a type that the plugin doesn't know.
size_t element_size(PJRT_Buffer_Type type);

// Reads the text of a StableHLO module: the signature of @main, tf.aliasing_output attributes, and
// whether brackets and strings are closed; operations are not looked at. Throws a Failure with
// line:column.
Program parse_program(std::string_view text);

}  // namespace torch_pjrt::fake
