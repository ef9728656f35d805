#include "torch/generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

#include "torch/storage.h"

namespace torch_pjrt::lazy {
namespace {

// torch's CPU generator, on our device: only draws are taken from it.
class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(at::Generator engine = at::detail::createCPUGenerator())
      : GeneratorImpl(c10::Device(kDevice, 0), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        engine_(std::move(engine)) {}

  void set_current_seed(uint64_t seed) override { engine_.set_current_seed(seed); }
  uint64_t current_seed() const override { return engine_.current_seed(); }
  uint64_t seed() override { return engine_.seed(); }
  void set_offset(uint64_t offset) override { engine_.set_offset(offset); }
  uint64_t get_offset() const override { return engine_.get_offset(); }
  void set_state(const c10::TensorImpl& state) override {
    engine_.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return engine_.unsafeGetGeneratorImpl()->get_state();
  }
  int64_t random() { return static_cast<int64_t>(engine_.get<at::CPUGeneratorImpl>()->random64()); }

 private:
  Generator* clone_impl() const override { return new Generator(engine_.clone()); }

  at::Generator engine_;
};

}  // namespace

at::Generator make_generator() { return at::make_generator<Generator>(); }

const at::Generator& default_generator() {
  static const auto& instance = *new at::Generator(make_generator());
  return instance;
}

std::vector<int64_t> take_draws(const std::optional<at::Generator>& generator, size_t count) {
  std::vector<int64_t> numbers;
  if (count == 0) return numbers;
  at::Generator source = generator && generator->defined() ? *generator : default_generator();
  TORCH_CHECK(source.device().type() == kDevice, "Expected a '", c10::Device(kDevice).str(),
              "' device type for generator but found '", source.device().type(), "'");
  const std::lock_guard lock(source.mutex());
  auto& engine = *source.get<Generator>();
  for (size_t k = 0; k < 2 * count; ++k) numbers.push_back(engine.random());
  return numbers;
}

}  // namespace torch_pjrt::lazy
