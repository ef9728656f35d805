#include "pjrt/compile_options.h"

#include <bit>

namespace torch_pjrt::pjrt {
namespace {

// Appends fields in the protocol-buffer wire format.
class Message {
 public:
  void add_varint(int field, uint64_t value) {
    put_varint(static_cast<uint64_t>(field) << 3 | kVarint);
    put_varint(value);
  }

  void add_double(int field, double value) {
    put_varint(static_cast<uint64_t>(field) << 3 | kFixed64);
    auto bits = std::bit_cast<uint64_t>(value);
    for (int i = 0; i < 8; ++i, bits >>= 8) bytes_.push_back(static_cast<char>(bits & 0xff));
  }

  void add_bytes(int field, const std::string& value) {
    put_varint(static_cast<uint64_t>(field) << 3 | kLengthDelimited);
    put_varint(value.size());
    bytes_ += value;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  static constexpr uint64_t kVarint = 0;
  static constexpr uint64_t kFixed64 = 1;
  static constexpr uint64_t kLengthDelimited = 2;

  void put_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

// OptionOverrideProto: one of four fields.
struct OverrideValue {
  Message& message;

  void operator()(const std::string& value) { message.add_bytes(1, value); }
  void operator()(bool value) { message.add_varint(2, value); }
  void operator()(int64_t value) { message.add_varint(3, static_cast<uint64_t>(value)); }
  void operator()(double value) { message.add_double(4, value); }
};

}  // namespace

std::string serialize(const CompileOptions& options) {
  // ExecutableBuildOptionsProto. Without these fields XLA aborts the process.
  Message build;
  build.add_varint(1, static_cast<uint64_t>(int64_t{-1}));  // device_ordinal: the default device
  build.add_varint(4, 1);                                   // num_replicas
  build.add_varint(5, 1);                                   // num_partitions

  // CompileOptionsProto.
  Message message;
  message.add_bytes(3, build.bytes());
  for (const Override& override : options.overrides) {
    Message value;
    std::visit(OverrideValue{value}, override.value);
    Message entry;
    entry.add_bytes(1, override.name);
    entry.add_bytes(2, value.bytes());
    message.add_bytes(7, entry.bytes());
  }
  return message.bytes();
}

}  // namespace torch_pjrt::pjrt
