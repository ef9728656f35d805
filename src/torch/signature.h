// The signatures of recorded ops: made once, then found by all that they depend on.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "torch/pending.h"

namespace torch_pjrt::lazy {

// What an op gives, beside what its signature computes.
struct Return {
  enum class Kind : uint8_t { kResult, kOperand, kViewOfOperand, kNone };
  Kind kind = Kind::kNone;
  int32_t index = 0;  // in Signature::results, or of the operand
  Geometry type;      // of kResult and kViewOfOperand
};

struct Write {
  int32_t operand;
  int32_t result;  // in Signature::results
};

// An op of torch's with the types of its arguments.
struct OpSignature {
  Signature computed;
  std::vector<Return> returns;     // fresh tensors
  std::vector<Write> writes;       // new values of operands
  std::vector<Geometry> operands;  // their types
  std::string on_host;  // not empty: why it has to run on the CPU, and then nothing else is set
};

// The op's signature of that key, or null. mutex() is held.
const OpSignature* find_signature(const std::string& key);
// Keeps the first of a key, and gives that. mutex() is held.
const OpSignature& add_signature(const std::string& key, std::unique_ptr<OpSignature> signature);

// Fills `results`, `returns` and `writes` from the graph's outputs and mutations.
void read_outputs(OpSignature& signature);

// One op of the device's own, each; mutex() is held.
//
// The elements of a tensor that lies as `from`, as one that lies as `to`.
const Signature& view_signature(const Geometry& from, const Geometry& to);
// A tensor that lies as `base`, with the elements of a second one where that lies as `part`.
const Signature& scatter_signature(const Geometry& base, const Geometry& part);

// The same for all offsets of `view`: then it takes that as its number. Null where there is no such
// form, and while few offsets were asked for: a slice at a known place is the better program.
const Signature* window_signature(char kind, const Geometry& base, const Geometry& view);
inline constexpr char kViews = 'v';
inline constexpr char kScatters = 'w';
const Signature& zeros_signature(const Geometry& type);
// Another dtype, or other sizes to which the tensor's are broadcast.
const Signature& copy_signature(const Geometry& from, const Geometry& to);

}  // namespace torch_pjrt::lazy
