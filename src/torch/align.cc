#include "torch/align.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "pjrt/host_memory.h"

namespace torch_pjrt::aten {
namespace {

using pjrt::kHostAlignment;

// Storages over one piece of memory, and the tensors that are to be aligned in it.
struct Region {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  std::vector<c10::StorageImpl*> storages;
  std::array<size_t, kHostAlignment> bytes = {};  // of tensors, by their address % kHostAlignment
};

// What all storages of a region hold together.
struct Memory {
  c10::DataPtr data;
  std::vector<c10::DataPtr> old;
};

using Owner = std::unique_ptr<std::shared_ptr<Memory>>;

uintptr_t address(const c10::StorageImpl& storage) {
  return reinterpret_cast<uintptr_t>(storage.data());
}

bool is_movable(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() && tensor.layout() == at::kStrided &&
         tensor.has_storage() && !tensor.key_set().has(c10::DispatchKey::Python) &&
         tensor.numel() > 0 && tensor.storage().nbytes() > 0;
}

std::vector<c10::StorageImpl*> storages_by_address(std::span<const at::Tensor> tensors) {
  std::vector<c10::StorageImpl*> storages;
  for (const at::Tensor& tensor : tensors) {
    storages.push_back(tensor.storage().unsafeGetStorageImpl());
  }
  std::sort(storages.begin(), storages.end(), [](const auto* a, const auto* b) {
    return std::pair(address(*a), a) < std::pair(address(*b), b);
  });
  storages.erase(std::unique(storages.begin(), storages.end()), storages.end());
  return storages;
}

std::vector<Region> regions_of(std::span<const at::Tensor> tensors) {
  std::vector<Region> regions;
  for (c10::StorageImpl* storage : storages_by_address(tensors)) {
    const uintptr_t begin = address(*storage);
    if (regions.empty() || regions.back().end <= begin) regions.push_back({begin, begin, {}, {}});
    Region& region = regions.back();
    region.end = std::max(region.end, begin + storage->nbytes());
    region.storages.push_back(storage);
  }
  for (const at::Tensor& tensor : tensors) {
    const uintptr_t data = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
    const auto after =
        std::upper_bound(regions.begin(), regions.end(), data,
                         [](uintptr_t value, const Region& r) { return value < r.begin; });
    std::prev(after)->bytes[data % kHostAlignment] += tensor.nbytes();
  }
  return regions;
}

void move(const Region& region, size_t remainder) {
  // Where the region begins in the new memory, so that addresses with this remainder have 0.
  const size_t offset = (region.begin + kHostAlignment - remainder) % kHostAlignment;
  const size_t size = region.end - region.begin;
  auto memory = std::make_shared<Memory>();
  memory->data = c10::GetCPUAllocator()->allocate(size + offset);
  char* const data = static_cast<char*>(memory->data.get()) + offset;
  std::memcpy(data, reinterpret_cast<const void*>(region.begin), size);
  for (c10::StorageImpl* storage : region.storages) {
    Owner owner = std::make_unique<std::shared_ptr<Memory>>(memory);
    char* const begin = data + (address(*storage) - region.begin);
    c10::DataPtr moved(
        begin, owner.release(),
        [](void* context) { Owner(static_cast<std::shared_ptr<Memory>*>(context)).reset(); },
        at::kCPU);
    memory->old.push_back(std::move(storage->_mutable_data_ptr_no_checks()));
    storage->set_data_ptr_noswap(std::move(moved));
  }
}

}  // namespace

void align(std::span<const at::Tensor> tensors) {
  std::vector<at::Tensor> movable;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(movable), is_movable);
  for (const Region& region : regions_of(movable)) {
    const auto most = std::max_element(region.bytes.begin(), region.bytes.end());
    // The first is 0: the region lies as well as it can.
    if (most != region.bytes.begin()) {
      move(region, static_cast<size_t>(most - region.bytes.begin()));
    }
  }
}

}  // namespace torch_pjrt::aten
