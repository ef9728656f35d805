#include "compile/stored.h"

#include "base/bytes.h"

namespace torch_pjrt::compile {
namespace {

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
    w.number(problem.node);
  });
  w.text(stored.executable);
}

}  // namespace

std::string to_bytes(const Stored& stored) {
  ByteWriter writer;
  walk(writer, stored);
  return writer.take();
}

Stored from_bytes(std::string_view bytes) {
  ByteReader reader(bytes, "a stored program");
  Stored stored;
  walk(reader, stored);
  reader.finish();
  return stored;
}

}  // namespace torch_pjrt::compile
