#include "base/notices.h"

#include <gtest/gtest.h>

#include <thread>

namespace neuron {
namespace {

TEST(Notices, AreGivenOutOnce) {
  EXPECT_FALSE(has_notices());
  post_notice("one");
  post_notice("two");
  EXPECT_TRUE(has_notices());
  EXPECT_EQ(take_notices(), (std::vector<std::string>{"one", "two"}));
  EXPECT_FALSE(has_notices());
  EXPECT_TRUE(take_notices().empty());
}

TEST(Notices, ComeFromAnyThread) {
  std::thread([] { post_notice("from afar"); }).join();
  EXPECT_TRUE(has_notices());
  EXPECT_EQ(take_notices().size(), 1u);
}

}  // namespace
}  // namespace neuron
