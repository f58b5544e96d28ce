#include "base/blocking.h"

#include <gtest/gtest.h>

#include <vector>

namespace neuron {
namespace {

std::vector<const char*>& calls() {
  static std::vector<const char*> calls;
  return calls;
}

class BlockingTest : public testing::Test {
 protected:
  void SetUp() override { calls().clear(); }
  void TearDown() override { blocking_hooks() = {}; }
};

void restore(void*) { calls().push_back("restore"); }

TEST_F(BlockingTest, WithoutHooksNothingHappens) {
  {
    const BlockingRegion region;
  }
  EXPECT_TRUE(calls().empty());
}

TEST_F(BlockingTest, WhatWasHeldIsReleasedThenRestored) {
  static int token = 0;
  blocking_hooks() = {[]() -> void* {
                        calls().push_back("release");
                        return &token;
                      },
                      &restore};
  {
    const BlockingRegion region;
    EXPECT_EQ(calls().size(), 1u);
  }
  ASSERT_EQ(calls().size(), 2u);
  EXPECT_STREQ(calls()[0], "release");
  EXPECT_STREQ(calls()[1], "restore");
}

TEST_F(BlockingTest, AThreadThatHeldNothingRestoresNothing) {
  blocking_hooks() = {[]() -> void* { return nullptr; }, &restore};
  {
    const BlockingRegion region;
  }
  EXPECT_TRUE(calls().empty());
}

}  // namespace
}  // namespace neuron
