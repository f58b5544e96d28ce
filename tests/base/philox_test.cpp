#include "base/philox.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

namespace neuron {
namespace {

using Words = std::array<uint32_t, 4>;

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

// The three vectors for philox4x32-10 in the file kat_vectors of Random123. Its counter
// words are our index (low, high) and offset (low, high); its key is our seed.
TEST(Philox, GivesTheKnownAnswerForZeros) {
  EXPECT_EQ(philox(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(Philox, GivesTheKnownAnswerForOnes) {
  EXPECT_EQ(philox(kMax, kMax, kMax),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Philox, GivesTheKnownAnswerForTheDigitsOfPi) {
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, ADrawDoesNotDependOnTheDrawsBeforeIt) {
  constexpr uint64_t kCount = 64;
  std::array<Words, kCount> forward;
  for (uint64_t i = 0; i < kCount; ++i) forward[i] = philox(7, 3, i);
  for (uint64_t i = kCount; i-- > 0;) EXPECT_EQ(philox(7, 3, i), forward[i]);
}

TEST(Philox, SeedOffsetAndIndexAllCount) {
  const std::set<Words> draws = {philox(1, 2, 3), philox(2, 2, 3), philox(1, 3, 3),
                                 philox(1, 2, 4), philox(3, 2, 1)};
  EXPECT_EQ(draws.size(), 5u);
}

TEST(Philox, UniformNumbersStayBelowOne) {
  constexpr uint32_t kOnes = std::numeric_limits<uint32_t>::max();
  EXPECT_EQ(uniform_float(0), 0.0f);
  EXPECT_LT(uniform_float(kOnes), 1.0f);
  EXPECT_EQ(uniform_double(0, 0), 0.0);
  EXPECT_LT(uniform_double(kOnes, kOnes), 1.0);
}

}  // namespace
}  // namespace neuron
