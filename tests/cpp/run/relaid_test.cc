#include "run/relaid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <vector>

#include "device_test.h"
#include "fake_control.h"
#include "run/content.h"
#include "run/permuted_copy.h"

namespace torch_pjrt::run {
namespace {

using pjrt::HostArray;

// Element by element, by the definition.
template <class T>
std::vector<T> permuted(const std::vector<T>& from, const Dims& dims, const Dims& order) {
  const Dims strides = contiguous_strides(dims);
  std::vector<T> to;
  Dims at(dims.size(), 0);
  for (size_t n = 0; n < from.size(); ++n) {
    int64_t place = 0;
    for (size_t k = 0; k < order.size(); ++k) place += at[k] * strides[order[k]];
    to.push_back(from[place]);
    for (size_t k = order.size(); k-- > 0;) {
      if (++at[k] < dims[order[k]]) break;
      at[k] = 0;
    }
  }
  return to;
}

template <class T>
void check(DType dtype, const Dims& dims, const Dims& order) {
  const Type type{dtype, dims};
  std::vector<T> from(static_cast<size_t>(type.num_elements()));
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(i);
  std::vector<T> to(from.size());
  permuted_copy(from.data(), to.data(), type, order);
  EXPECT_EQ(to, permuted(from, dims, order)) << to_string(type) << " by " << to_string(order);
}

TEST(PermutedCopyTest, EveryOrderOfEveryElementSize) {
  const std::vector<Dims> shapes = {{3, 5, 2, 7}, {70, 33, 3, 3}, {1, 40, 1, 65}, {2, 1, 3, 1}};
  for (const Dims& dims : shapes) {
    Dims order = {0, 1, 2, 3};
    do {
      check<uint8_t>(DType::kU8, dims, order);
      check<int16_t>(DType::kI16, dims, order);
      check<float>(DType::kF32, dims, order);
      check<int64_t>(DType::kI64, dims, order);
      check<std::complex<double>>(DType::kC128, dims, order);
    } while (std::ranges::next_permutation(order).found);
  }
}

TEST(PermutedCopyTest, NoDimsAndNoElements) {
  check<float>(DType::kF32, {}, {});
  check<float>(DType::kF32, {0, 3}, {1, 0});
}

class RelaidTest : public testing::Test {
 protected:
  RelaidTest() : control_(FAKE_PLUGIN), weight_(sizeof(float) * 6) {
    control_.reset();
    weight_.fill<float>(6, 1);
  }

  static const pjrt::Client& client() {
    static const auto client = pjrt::Client::create(pjrt::Plugin::load(FAKE_PLUGIN));
    return *client;
  }
  Relaid relaid(bool is_frozen) {
    return Relaid(client(), {DType::kF32, {2, 3}}, {1, 0}, is_frozen, stats_);
  }

  // As a call does.
  std::shared_ptr<const Relaid::Copy> get(Relaid& relaid, const HostArray& memory) {
    const std::vector<std::string_view> content = {relaid.content(memory.data())};
    return relaid.get(memory.data(), hashes(content, workers_)[0]);
  }

  Workers workers_{[] { return 2; }};
  pjrt::FakeControl control_;
  HostArray weight_;
  Stats stats_;
};

TEST_F(RelaidTest, IsKeptWhileTheContentStays) {
  Relaid relaid = this->relaid(false);
  const auto first = get(relaid, weight_);
  EXPECT_EQ(get(relaid, weight_), first);
  EXPECT_EQ(stats_.snapshot().relaid_inputs, 1);
  EXPECT_EQ(stats_.snapshot().relaid_bytes, 24);
}

TEST_F(RelaidTest, AWriteIsSeen) {
  Relaid relaid = this->relaid(false);
  const auto first = get(relaid, weight_);
  weight_.data<float>()[5] = 2;
  const auto second = get(relaid, weight_);
  EXPECT_NE(second, first);
  EXPECT_NE(first->buffer(), second->buffer()) << "the first call's copy is still there";
  EXPECT_EQ(stats_.snapshot().relaid_inputs, 2);
  EXPECT_EQ(stats_.snapshot().relaid_bytes, 24);
}

TEST_F(RelaidTest, OtherMemoryOfTheSameContentIsTakenAnew) {
  Relaid relaid = this->relaid(false);
  get(relaid, weight_);
  HostArray other(sizeof(float) * 6);
  other.fill<float>(6, 1);
  get(relaid, other);
  EXPECT_EQ(stats_.snapshot().relaid_inputs, 2);
}

TEST_F(RelaidTest, AFrozenOneSeesOnlyAnotherAddress) {
  Relaid relaid = this->relaid(true);
  const auto first = get(relaid, weight_);
  weight_.data<float>()[5] = 2;
  EXPECT_EQ(get(relaid, weight_), first);
  HostArray other(sizeof(float) * 6);
  other.fill<float>(6, 1);
  EXPECT_NE(get(relaid, other), first);
}

TEST_F(RelaidTest, NothingIsLeftOfOneThatIsGone) {
  const int64_t before = control_.live("buffer");
  {
    Relaid relaid = this->relaid(false);
    get(relaid, weight_);
  }
  EXPECT_EQ(control_.live("buffer"), before);
  EXPECT_EQ(stats_.snapshot().relaid_bytes, 0);
}

TEST_F(RelaidTest, AFailureLeavesTheOldCopy) {
  Relaid relaid = this->relaid(false);
  const auto first = get(relaid, weight_);
  weight_.data<float>()[0] = 3;
  control_.fail_at("PJRT_Client_BufferFromHostBuffer", 1);
  EXPECT_THROW(get(relaid, weight_), Error);
  weight_.data<float>()[0] = 1;
  EXPECT_EQ(get(relaid, weight_), first);
  EXPECT_EQ(stats_.snapshot().relaid_bytes, 24);
}

}  // namespace
}  // namespace torch_pjrt::run
