#include "torch/register.h"

#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstdlib>
#include <set>

#include "torch/fused_optimizers.h"
#include "torch/generator.h"
#include "torch/kernels.h"
#include "torch/op_facts.h"
#include "torch/record.h"
#include "torch/run.h"
#include "torch/storage.h"

namespace torch_pjrt::lazy {
namespace {

const c10::Device kOnlyDevice(kDevice, 0);

// Storages have an address of their own, which is no memory of the tensor's.
struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t) override {
    void* address = std::malloc(1);
    return {address, address, &std::free, kOnlyDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void*, const void*, size_t) const override {
    TORCH_CHECK(false, "the memory of device pjrt can't be copied by its address");
  }
};

Allocator& allocator() {
  static auto& instance = *new Allocator;
  return instance;
}

c10::intrusive_ptr<c10::StorageImpl> make_storage(c10::StorageImpl::use_byte_size_t use_byte_size,
                                                  c10::SymInt bytes, c10::DataPtr data,
                                                  c10::Allocator*, bool resizable) {
  auto storage = c10::make_intrusive<Storage>(use_byte_size, std::move(bytes), std::move(data),
                                              &allocator(), resizable);
  // Its own address is as good as any: there is no memory at it.
  if (!storage->data_ptr()) storage->set_data_ptr_noswap({storage.get(), kOnlyDevice});
  storage->set_throw_on_mutable_data_ptr();
  return storage;
}

// One device, and one stream on it.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDevice; }
  c10::Device exchangeDevice(c10::Device) const override { return kOnlyDevice; }
  c10::Device getDevice() const override { return kOnlyDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override {
    return c10::Stream(c10::Stream::DEFAULT, kOnlyDevice);
  }
  c10::Stream getDefaultStream(c10::Device d) const override { return getStream(d); }
  c10::Stream getNewStream(c10::Device d, int) const override { return getStream(d); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, c10::DeviceIndex) const noexcept override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override { synchronize(); }
  void synchronizeDevice(c10::DeviceIndex) const override { synchronize(); }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  at::Device getDeviceFromPtr(void*) const override { return kOnlyDevice; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return default_generator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return make_generator(); }
  // Plain memory: no tensor says that it is pinned.
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetAllocator(c10::kCPU); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size) const override {
    storage.unsafeGetStorageImpl()->set_nbytes(size);
  }
};

// Ops that torch would otherwise compose for a device from outside, although they are recorded
// whole: those whose kernel for every backend is of a kind that goes before a fallback.
bool is_recorded_whole(const c10::OperatorHandle& op) {
  using Key = c10::DispatchKey;
  static const std::set<std::string> kMoved = {"aten::_to_copy", "aten::clone", "aten::copy"};
  const OpFacts& facts = facts_of(op);
  if (op.hasKernelForDispatchKey(Key::PrivateUse1) || facts.is_view ||
      op.hasKernelForDispatchKey(Key::CompositeImplicitAutograd) || kMoved.contains(facts.name)) {
    return false;
  }
  if (op.hasTag(at::Tag::inplace_view)) return false;  // it comes to as_strided_
  if (op.hasKernelForDispatchKey(Key::CompositeExplicitAutogradNonFunctional)) return true;
  return facts.has_rule && !facts.has_out;
}

void add_whole_ops(torch::Library& aten) {
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !is_recorded_whole(*op)) continue;
    const std::string full = facts_of(*op).name;
    aten.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&record_boxed>());
  }
}

torch::Library& library(const char* space, c10::DispatchKey key) {
  return *new torch::Library(torch::Library::IMPL, space, key, __FILE__, __LINE__);
}

void add_autocast() {
  library("_", c10::DispatchKey::AutocastPrivateUse1)
      .fallback(torch::CppFunction::makeFallthrough());
  torch::Library& m = library("aten", c10::DispatchKey::AutocastPrivateUse1);
#define TORCH_PJRT_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define TORCH_PJRT_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_LOWER_PRECISION_FP(TORCH_PJRT_LOWER)
  AT_FORALL_FP32(TORCH_PJRT_FP32)
#undef TORCH_PJRT_LOWER
#undef TORCH_PJRT_FP32
}

bool is_taken() {
  return c10::is_privateuse1_backend_registered() || at::isPrivateUse1HooksRegistered() ||
         c10::impl::device_guard_impl_registry[static_cast<size_t>(kDevice)].load() != nullptr;
}

Host& the_host() {
  static auto& instance = *new Host;
  return instance;
}

}  // namespace

void set_host(Host host) { the_host() = std::move(host); }
const Host& host() { return the_host(); }

bool register_device(Host host) {
  if (is_taken()) return false;
  set_host(std::move(host));
  c10::SetAllocator(kDevice, &allocator(), 0);
  c10::SetStorageImplCreate(kDevice, &make_storage);
  static const c10::impl::DeviceGuardImplRegistrar guard(kDevice, new Guard);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  library("_", c10::DispatchKey::PrivateUse1)
      .fallback(torch::CppFunction::makeFromBoxedFunction<&record_boxed>());
  torch::Library& aten = library("aten", c10::DispatchKey::PrivateUse1);
  add_kernels(aten);
  add_fused_optimizers(aten);
  add_whole_ops(aten);
  add_composed_kernels(library("aten", c10::DispatchKey::AutogradPrivateUse1));
  add_autocast();
  return true;
}

}  // namespace torch_pjrt::lazy
