#include "fake_plugin/program.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "fake_plugin/error.h"

namespace torch_pjrt::fake {
namespace {

struct Element {
  std::string_view name;
  PJRT_Buffer_Type type;
  size_t size;
};

constexpr Element kElements[] = {
    {"i1", PJRT_Buffer_Type_PRED, 1},
    {"i8", PJRT_Buffer_Type_S8, 1},
    {"i16", PJRT_Buffer_Type_S16, 2},
    {"i32", PJRT_Buffer_Type_S32, 4},
    {"i64", PJRT_Buffer_Type_S64, 8},
    {"ui8", PJRT_Buffer_Type_U8, 1},
    {"ui16", PJRT_Buffer_Type_U16, 2},
    {"ui32", PJRT_Buffer_Type_U32, 4},
    {"ui64", PJRT_Buffer_Type_U64, 8},
    {"f16", PJRT_Buffer_Type_F16, 2},
    {"bf16", PJRT_Buffer_Type_BF16, 2},
    {"f32", PJRT_Buffer_Type_F32, 4},
    {"f64", PJRT_Buffer_Type_F64, 8},
    {"complex<f32>", PJRT_Buffer_Type_C64, 8},
    {"complex<f64>", PJRT_Buffer_Type_C128, 16},
};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Program parse() {
    check_brackets();
    find_main();
    parse_parameters();
    parse_results();
    if (accept("attributes")) skip_value();
    expect("{");
    match_donors();
    program_.text = text_;
    return std::move(program_);
  }

 private:
  [[noreturn]] void fail_here(const std::string& message) const {
    size_t line = 1;
    size_t column = 1;
    for (const char c : text_.substr(0, position_)) {
      ++column;
      if (c == '\n') {
        ++line;
        column = 1;
      }
    }
    fail(PJRT_Error_Code_INVALID_ARGUMENT, "fake plugin: ", line, ":", column,
         ": error: ", message);
  }

  bool at_end() const { return position_ >= text_.size(); }
  bool starts_with(std::string_view s) const { return text_.substr(position_).starts_with(s); }

  void skip_string() {
    for (++position_; !at_end() && text_[position_] != '"'; ++position_) {
      if (text_[position_] == '\\') ++position_;
    }
    if (at_end()) fail_here("expected '\"' in string literal");
    ++position_;
  }

  void skip_comment() { position_ = std::min(text_.find('\n', position_), text_.size()); }

  void skip_space() {
    while (!at_end()) {
      if (std::isspace(static_cast<unsigned char>(text_[position_]))) {
        ++position_;
      } else if (starts_with("//")) {
        skip_comment();
      } else {
        return;
      }
    }
  }

  // Takes `token` if it comes next; one that ends in a letter must be a whole word.
  bool accept(std::string_view token) {
    skip_space();
    if (!starts_with(token)) return false;
    const size_t end = position_ + token.size();
    if (is_word(token.back()) && end < text_.size() && is_word(text_[end])) return false;
    position_ = end;
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token)) fail_here("expected '" + std::string(token) + "'");
  }

  std::string_view word() {
    skip_space();
    const size_t begin = position_;
    while (!at_end() && is_word(text_[position_])) ++position_;
    return text_.substr(begin, position_ - begin);
  }

  void check_brackets() {
    std::string open;
    while (!at_end()) {
      const char c = text_[position_];
      if (c == '"') {
        skip_string();
        continue;
      }
      if (starts_with("//")) {
        skip_comment();
        continue;
      }
      if (c == '(') open.push_back(')');
      if (c == '[') open.push_back(']');
      if (c == '{') open.push_back('}');
      if (c == ')' || c == ']' || c == '}') {
        if (open.empty() || open.back() != c) fail_here(std::string("unexpected '") + c + "'");
        open.pop_back();
      }
      ++position_;
    }
    if (!open.empty()) fail_here(std::string("expected '") + open.back() + "'");
    position_ = 0;
  }

  void find_main() {
    while (!at_end()) {
      skip_space();
      if (at_end()) break;
      if (text_[position_] == '"') {
        skip_string();
      } else if (!is_word(text_[position_])) {
        ++position_;
      } else if (word() == "func.func") {
        for (const char* visibility : {"public", "private", "nested"}) accept(visibility);
        if (accept("@main")) return;
      }
    }
    fail_here("no function @main");
  }

  Shape parse_type() {
    expect("tensor");
    expect("<");
    Shape shape;
    skip_space();
    while (!at_end() && std::isdigit(static_cast<unsigned char>(text_[position_]))) {
      int64_t size = 0;
      const char* begin = text_.data() + position_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (error != std::errc()) fail_here("dimension out of range");
      position_ += static_cast<size_t>(end - begin);
      if (!starts_with("x")) fail_here("expected 'x' in dimension list");
      ++position_;
      shape.dims.push_back(size);
    }
    for (const Element& element : kElements) {
      if (!accept(element.name)) continue;
      shape.type = element.type;
      expect(">");
      return shape;
    }
    fail_here("expected an element type of fixed size");
  }

  // Skips one attribute value, up to a comma or bracket that isn't its own, or a dictionary.
  void skip_value() {
    int depth = 0;
    while (!at_end()) {
      skip_space();
      if (at_end()) return;
      const char c = text_[position_];
      if (c == '"') {
        skip_string();
        continue;
      }
      if (starts_with("->")) {
        position_ += 2;
        continue;
      }
      const bool closes = c == ')' || c == ']' || c == '}' || c == '>';
      if (depth == 0 && (closes || c == ',')) return;
      if (c == '(' || c == '[' || c == '{' || c == '<') ++depth;
      if (closes) --depth;
      ++position_;
      if (depth == 0 && closes && c == '}') return;
    }
  }

  // Reads the attributes of one parameter or result; the result that a parameter is donated to.
  std::optional<size_t> parse_attributes() {
    std::optional<size_t> donated_to;
    if (!accept("{")) return donated_to;
    while (!accept("}")) {
      std::string_view name;
      if (skip_space(); starts_with("\"")) {
        const size_t begin = position_;
        skip_string();
        name = text_.substr(begin + 1, position_ - begin - 2);
      } else {
        name = word();
      }
      if (name.empty()) fail_here("expected attribute name");
      if (accept("=")) {
        skip_space();
        if (name == "tf.aliasing_output") donated_to = parse_index();
        skip_value();
      }
      if (!accept(",")) {
        expect("}");
        break;
      }
    }
    return donated_to;
  }

  size_t parse_index() {
    size_t value = 0;
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) fail_here("expected an output index");
    position_ += static_cast<size_t>(end - begin);
    return value;
  }

  void skip_location() {
    if (accept("loc")) {
      expect("(");
      skip_value();
      expect(")");
    }
  }

  void parse_parameters() {
    expect("(");
    if (accept(")")) return;
    do {
      expect("%");
      if (word().empty()) fail_here("expected the name of an argument");
      expect(":");
      program_.parameters.push_back(parse_type());
      donated_to_.push_back(parse_attributes());
      skip_location();
    } while (accept(","));
    expect(")");
  }

  void parse_results() {
    if (!accept("->")) return;
    if (!accept("(")) {
      program_.results.push_back(parse_type());
      return;
    }
    if (accept(")")) return;
    do {
      program_.results.push_back(parse_type());
      parse_attributes();
    } while (accept(","));
    expect(")");
  }

  void match_donors() {
    program_.donors.resize(program_.results.size());
    for (size_t i = 0; i < donated_to_.size(); ++i) {
      if (!donated_to_[i]) continue;
      const size_t result = *donated_to_[i];
      const std::string where = "tf.aliasing_output of argument " + std::to_string(i) + ": ";
      if (result >= program_.results.size()) fail_here(where + "no such output");
      if (program_.donors[result]) fail_here(where + "the output has another donor");
      if (program_.parameters[i] != program_.results[result]) fail_here(where + "types differ");
      program_.donors[result] = i;
    }
  }

  std::string_view text_;
  size_t position_ = 0;
  Program program_;
  std::vector<std::optional<size_t>> donated_to_;  // for each parameter
};

}  // namespace

size_t element_size(PJRT_Buffer_Type type) {
  for (const Element& element : kElements) {
    if (element.type == type) return element.size;
  }
  return 0;
}

std::string text(const Shape& shape) {
  std::string text;
  for (const int64_t size : shape.dims) text += std::to_string(size) + "x";
  for (const Element& element : kElements) {
    if (element.type == shape.type) text += element.name;
  }
  return text;
}

size_t Shape::num_bytes() const {
  const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  return static_cast<size_t>(count) * element_size(type);
}

Program parse_program(std::string_view text) {
  Program program = Parser(text).parse();
  for (const Shape& parameter : program.parameters)
    program.parameter_bytes.push_back(parameter.num_bytes());
  return program;
}

}  // namespace torch_pjrt::fake
