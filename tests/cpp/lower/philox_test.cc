// Philox against the known answers that its authors publish (Random123, kat_vectors).
#include "lower/philox.h"

#include "program.h"

namespace torch_pjrt::lower {
namespace {

using Four = std::array<uint32_t, 4>;
using Two = std::array<uint32_t, 2>;

struct Case {
  Four counter;
  Two key;
  Four result;
};

constexpr Case kKnown[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(Philox, KnownAnswers) {
  hlo::Program p;
  constexpr int64_t kCount = std::size(kKnown);
  std::array<std::vector<int64_t>, 6> columns;
  for (const Case& c : kKnown) {
    for (int k = 0; k < 4; ++k) columns[k].push_back(c.counter[k]);
    for (int k = 0; k < 2; ++k) columns[4 + k].push_back(c.key[k]);
  }
  std::array<hlo::Value, 6> v;
  for (int k = 0; k < 6; ++k) v[k] = p.longs({kCount}, columns[k]);
  const Words4 words = philox(p.build, {v[0], v[1], v[2], v[3]}, {v[4], v[5]});
  const auto data = p.run({words.begin(), words.end()});
  for (size_t i = 0; i < kCount; ++i) {
    for (size_t k = 0; k < 4; ++k) {
      EXPECT_EQ(hlo::values_of<int64_t>(data[k])[i], kKnown[i].result[k]) << i << ", word " << k;
    }
  }
}

TEST(Philox, WordsOfANumber) {
  hlo::Program p;
  const hlo::Value v = p.longs({3}, {-1, 0x0123456789abcdef, int64_t{-1} << 63});
  const auto data = p.run({low_word(p.build, v), high_word(p.build, v)});
  EXPECT_EQ(hlo::values_of<int64_t>(data[0]), (std::vector<int64_t>{0xffffffff, 0x89abcdef, 0}));
  EXPECT_EQ(hlo::values_of<int64_t>(data[1]),
            (std::vector<int64_t>{0xffffffff, 0x01234567, 0x80000000}));
}

}  // namespace
}  // namespace torch_pjrt::lower
