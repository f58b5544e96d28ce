#include "lazy/stats.h"

#include <gtest/gtest.h>

namespace neuron::lazy {
namespace {

const int kCode = 0, kOtherCode = 0;

// How often a window ended for `end` at `site`, or 0.
uint64_t count_at(const Stats& stats, const Site& site, WindowEnd end) {
  for (const Stats::Line& line : stats.lines()) {
    if (line.site == site && line.end == end) return line.count;
  }
  return 0;
}

TEST(Stats, StartsWithNothing) {
  const Stats stats;
  EXPECT_EQ(stats.ops(), 0u);
  EXPECT_EQ(stats.windows(), 0u);
  EXPECT_TRUE(stats.lines().empty());
}

TEST(Stats, CountsOpsAndEndsByReason) {
  Stats stats;
  stats.count_op();
  stats.count_op();
  stats.count_end(WindowEnd::kValueRead, {}, 1);
  stats.count_end(WindowEnd::kValueRead, {}, 1);
  stats.count_end(WindowEnd::kSizeCap, {}, 1);
  EXPECT_EQ(stats.ops(), 2u);
  EXPECT_EQ(stats.windows(), 3u);
  EXPECT_EQ(stats.ends(WindowEnd::kValueRead), 2u);
  EXPECT_EQ(stats.ends(WindowEnd::kSizeCap), 1u);
  EXPECT_EQ(stats.ends(WindowEnd::kSynchronize), 0u);
}

TEST(Stats, CountsEndsByLineAndReason) {
  Stats stats;
  const Site one{&kCode, 2, 0}, two{&kCode, 4, 0}, three{&kOtherCode, 2, 0};
  stats.count_end(WindowEnd::kValueRead, one, 1);
  stats.count_end(WindowEnd::kValueRead, one, 1);
  stats.count_end(WindowEnd::kSizeCap, one, 1);
  stats.count_end(WindowEnd::kValueRead, two, 1);
  stats.count_end(WindowEnd::kValueRead, three, 1);
  EXPECT_EQ(stats.lines().size(), 4u);
  EXPECT_EQ(count_at(stats, one, WindowEnd::kValueRead), 2u);
  EXPECT_EQ(count_at(stats, one, WindowEnd::kSizeCap), 1u);
  EXPECT_EQ(count_at(stats, two, WindowEnd::kValueRead), 1u);
  EXPECT_EQ(count_at(stats, three, WindowEnd::kValueRead), 1u);
}

TEST(Stats, ALineKnowsHowManyOpsItsWindowsHeld) {
  Stats stats;
  stats.count_end(WindowEnd::kValueRead, {&kCode, 2, 0}, 3);
  stats.count_end(WindowEnd::kValueRead, {&kCode, 2, 0}, 5);
  ASSERT_EQ(stats.lines().size(), 1u);
  EXPECT_EQ(stats.lines()[0].ops, 8u);
}

TEST(Stats, TheStackOfASiteMakesNoLineOfItsOwn) {
  Stats stats;
  stats.count_end(WindowEnd::kValueRead, {&kCode, 2, 1}, 1);
  stats.count_end(WindowEnd::kValueRead, {&kCode, 2, 2}, 1);
  EXPECT_EQ(stats.lines().size(), 1u);
}

TEST(Stats, ResettingForgetsEverything) {
  Stats stats;
  stats.count_op();
  stats.count_end(WindowEnd::kValueRead, {&kCode, 2, 0}, 1);
  stats.reset();
  EXPECT_EQ(stats.ops(), 0u);
  EXPECT_EQ(stats.ends(WindowEnd::kValueRead), 0u);
  EXPECT_TRUE(stats.lines().empty());
}

}  // namespace
}  // namespace neuron::lazy
