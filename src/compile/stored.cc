#include "compile/stored.h"

#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace torch_pjrt::compile {
namespace {

// Writer and Reader take the same walk over a program: `number` and `text` are its steps, and
// `list` goes over the elements of a vector, whose number it writes or reads first.
class Writer {
 public:
  template <class T>
  void number(const T& value) {
    const auto wide = static_cast<int64_t>(value);
    bytes_.append(reinterpret_cast<const char*>(&wide), sizeof(wide));
  }
  void text(const std::string& value) {
    number(value.size());
    bytes_ += value;
  }
  template <class List, class Each>
  void list(const List& values, Each each) {
    number(values.size());
    for (const auto& value : values) each(value);
  }

  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  void number(T& value) {
    int64_t wide = 0;
    std::memcpy(&wide, take(sizeof(wide)).data(), sizeof(wide));
    value = static_cast<T>(wide);
  }
  void text(std::string& value) { value = take(size()); }
  template <class List, class Each>
  void list(List& values, Each each) {
    values.resize(size());
    for (auto& value : values) each(value);
  }

  bool is_done() const { return rest_.empty(); }

 private:
  // Of what follows, of which each element has a byte at least.
  size_t size() {
    size_t size = 0;
    number(size);
    if (size > rest_.size()) fail_cut();
    return size;
  }
  std::string_view take(size_t size) {
    if (size > rest_.size()) fail_cut();
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  [[noreturn]] static void fail_cut() { fail(Code::kIo, "a stored program ends too early"); }

  std::string_view rest_;
};

template <class Walker, class Numbers>
void walk_numbers(Walker& w, Numbers& numbers) {
  w.list(numbers, [&](auto& n) { w.number(n); });
}

template <class Walker, class T>
void walk_type(Walker& w, T& type) {
  w.number(type.dtype);
  walk_numbers(w, type.dims);
}

// `T` is Stored, or const Stored.
template <class Walker, class T>
void walk(Walker& w, T& stored) {
  w.list(stored.program.arguments, [&](auto& argument) {
    w.number(argument.kind);
    w.number(argument.index);
    walk_type(w, argument.type);
    w.number(argument.result);
  });
  w.list(stored.program.results, [&](auto& result) {
    w.number(result.kind);
    w.number(result.index);
    walk_type(w, result.type);
    walk_numbers(w, result.order);
    walk_numbers(w, result.dims);
  });
  w.list(stored.program.problems, [&](auto& problem) {
    w.number(problem.kind);
    w.text(problem.message);
  });
  w.text(stored.executable);
}

}  // namespace

std::string to_bytes(const Stored& stored) {
  Writer writer;
  walk(writer, stored);
  return writer.take();
}

Stored from_bytes(std::string_view bytes) {
  Reader reader(bytes);
  Stored stored;
  walk(reader, stored);
  if (!reader.is_done()) fail(Code::kIo, "a stored program has bytes too many");
  return stored;
}

}  // namespace torch_pjrt::compile
