#include "run/relaid.h"

#include <new>
#include <utility>

#include "pjrt/host_memory.h"
#include "run/permuted_copy.h"

namespace torch_pjrt::run {
namespace {

constexpr std::align_val_t kAlignment{pjrt::kHostAlignment};

}  // namespace

void Relaid::Copy::Free::operator()(void* memory) const { operator delete(memory, kAlignment); }

Relaid::Relaid(const pjrt::Client& client, Type type, std::vector<int64_t> order, bool is_frozen,
               Stats& stats)
    : client_(client),
      type_(std::move(type)),
      order_(std::move(order)),
      is_frozen_(is_frozen),
      stats_(stats) {}

Relaid::~Relaid() {
  if (copy_) stats_.add(&Stats::relaid_bytes, -type_.num_bytes());
}

Relaid::Copy::Copy(const Relaid& relaid, const void* source, uint64_t hash)
    : source_(source),
      hash_(hash),
      memory_(operator new(static_cast<size_t>(relaid.type_.num_bytes()), kAlignment)) {
  permuted_copy(source, memory_.get(), relaid.type_, relaid.order_);
  Type type{relaid.type_.dtype, {}};
  for (const int64_t d : relaid.order_) type.dims.push_back(relaid.type_.dims[d]);
  buffer_ = relaid.client_.from_host(memory_.get(), type, pjrt::HostSemantics::kImmutableZeroCopy);
}

std::string_view Relaid::content(const void* data) const {
  if (is_frozen_) return {};
  return {static_cast<const char*>(data), static_cast<size_t>(type_.num_bytes())};
}

std::shared_ptr<const Relaid::Copy> Relaid::get(const void* data, uint64_t hash) {
  const std::lock_guard lock(mutex_);
  if (copy_ && copy_->is_of(data, hash)) return copy_;
  auto copy = std::make_shared<const Copy>(*this, data, hash);
  stats_.add(&Stats::relaid_inputs);
  if (!copy_) stats_.add(&Stats::relaid_bytes, type_.num_bytes());
  copy_ = std::move(copy);
  return copy_;
}

}  // namespace torch_pjrt::run
