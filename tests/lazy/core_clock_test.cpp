// The simulated clock as a core drives it: when it runs, and that it does not depend on
// which thread has run what by when.
#include "lazy/core.h"

#include "lazy/fake_core.h"

namespace neuron::lazy {
namespace {

class CoreClockTest : public CoreTest {
 protected:
  double now() { return core_.clock().now; }
};

TEST_F(CoreClockTest, TheClockStandsStillUntilSomebodyAsks) {
  record_many(0, 3);
  EXPECT_EQ(core_.synchronize(), nullptr);
  EXPECT_EQ(now(), 0);
  EXPECT_EQ(core_.clock().host_ops, 0u);
  record_many(0, 3);
  EXPECT_EQ(core_.synchronize(), nullptr);
  EXPECT_GT(now(), 0);
  EXPECT_EQ(core_.clock().host_ops, 3u);
}

TEST_F(CoreClockTest, AskingForTheTimeTakesNone) {
  core_.start_clock();
  record_many(0, 3);
  const double first = now();
  EXPECT_EQ(now(), first);
}

TEST_F(CoreClockTest, AnUploadCostsTheSameWhetherItsTargetIsIdleOrNot) {
  device::Buffer* buffer = new_buffer();
  core_.start_clock();
  const auto upload = [&](bool is_idle) {
    const double before = now();
    record(0, &do_nothing, {}, {buffer});
    core_.flush(0, WindowEnd::kSizeCap);
    if (is_idle) core_.queue().drain();
    core_.count_upload(*buffer, 1 << 20);
    return now() - before;
  };
  const double busy = upload(false), idle = upload(true);
  EXPECT_GT(busy, 0);
  EXPECT_NEAR(busy, idle, 1e-3);
  drop(buffer);
}

TEST_F(CoreClockTest, ADryRunSkipsTheWorkOfWindowsThatAreRecordedLater) {
  int runs = 0;
  const auto count = [&runs] {
    ++runs;
    return Status();
  };
  record(0, count);
  core_.set_dry(true);
  EXPECT_EQ(runs, 1);
  record(0, count);
  EXPECT_EQ(core_.synchronize(), nullptr);
  EXPECT_EQ(runs, 1);
  core_.set_dry(false);
  record(0, count);
  EXPECT_EQ(core_.synchronize(), nullptr);
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace neuron::lazy
