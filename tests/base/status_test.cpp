#include "base/status.h"

#include <gtest/gtest.h>

namespace neuron {
namespace {

TEST(Status, IsOkWithoutAnError) {
  EXPECT_TRUE(Status().is_ok());
  EXPECT_EQ(Status().error(), nullptr);
}

TEST(Status, KeepsKindAndMessage) {
  const Status status(ErrorKind::kValue, "bad");
  ASSERT_FALSE(status.is_ok());
  EXPECT_EQ(status.error()->kind, ErrorKind::kValue);
  EXPECT_EQ(status.error()->message, "bad");
  EXPECT_TRUE(status.error()->context.empty());
}

TEST(Status, CopiesShareOneError) {
  const Status status(ErrorKind::kRuntime, "bad");
  const Status copy = status;
  EXPECT_EQ(copy.error(), status.error());
}

TEST(Status, CostsTwoPointersAtMost) { EXPECT_LE(sizeof(Status), 2 * sizeof(void*)); }

}  // namespace
}  // namespace neuron
