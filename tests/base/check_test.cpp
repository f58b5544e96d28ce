#include "base/check.h"

#include <gtest/gtest.h>

namespace neuron {
namespace {

TEST(CheckDeathTest, AFailedComparisonPrintsBothValues) {
  EXPECT_DEATH(NEURON_CHECK_EQ(1 + 1, 3), "1 \\+ 1 == 3: 2 against 3");
}

TEST(CheckDeathTest, AFailedCheckPrintsItsMessageAndPlace) {
  EXPECT_DEATH(NEURON_CHECK(false, "lost"), "check_test.cpp:[0-9]+: lost");
}

TEST(Check, ATrueConditionDoesNothing) {
  NEURON_CHECK(true, "lost");
  NEURON_CHECK_EQ(2, 2);
  NEURON_DCHECK(true, "lost");
}

}  // namespace
}  // namespace neuron
