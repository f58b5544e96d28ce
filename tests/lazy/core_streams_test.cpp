// Several streams on one core: their order, points in them, and who waits for what.
#include <algorithm>
#include <semaphore>

#include "lazy/core.h"
#include "lazy/fake_core.h"

namespace neuron::lazy {
namespace {

class CoreStreamsTest : public CoreTest {
 protected:
  // An op that notes its number when it runs.
  Action::Body note(int number) {
    return [this, number] {
      order_.push_back(number);
      return Status();
    };
  }

  // Occupies the device with an op that reads `buffer`, until `open_gate`.
  void close_gate(device::Buffer* buffer) {
    record(0,
           [this] {
             started_.release();
             gate_.acquire();
             return Status();
           },
           {buffer});
    core_.flush(0, WindowEnd::kModeSwitch);
    started_.acquire();
  }
  void open_gate() { gate_.release(); }

  std::vector<int> order_;
  std::binary_semaphore started_{0}, gate_{0};
};

TEST_F(CoreStreamsTest, EachStreamHasAWindowOfItsOwn) {
  record(1, note(1));
  record(2, note(2));
  core_.flush(2, WindowEnd::kModeSwitch);
  core_.queue().drain();
  EXPECT_EQ(order_, (std::vector<int>{2}));
}

TEST_F(CoreStreamsTest, UseByAnotherStreamEndsTheWindow) {
  device::Buffer* shared = new_buffer();
  record(1, note(1), {}, {shared});
  record(2, note(2), {shared});
  EXPECT_EQ(ends(WindowEnd::kStreamUse), 1u);
  EXPECT_EQ(windows(), 1u);
  core_.wait(core_.mark(2), WindowEnd::kSynchronize);
  EXPECT_EQ(order_, (std::vector<int>{1, 2}));
  drop(shared);
}

TEST_F(CoreStreamsTest, AReaderOfAnotherStreamRunsBeforeTheNextWriter) {
  device::Buffer* shared = new_buffer();
  record(1, note(1), {shared});
  record(2, note(2), {}, {shared});
  core_.wait_for_write(*shared, WindowEnd::kValueRead);
  EXPECT_EQ(order_, (std::vector<int>{1, 2}));
  drop(shared);
}

TEST_F(CoreStreamsTest, ABufferThatGoesToAndFroKeepsItsRecordedOrder) {
  device::Buffer* shared = new_buffer();
  for (int i = 0; i < 10; ++i) record(1 + i % 3, note(i), {shared}, {shared});
  EXPECT_EQ(core_.synchronize(), nullptr);
  ASSERT_EQ(order_.size(), 10u);
  EXPECT_TRUE(std::is_sorted(order_.begin(), order_.end()));
  drop(shared);
}

TEST_F(CoreStreamsTest, UseOfAnotherBufferEndsNothing) {
  device::Buffer* one = new_buffer();
  device::Buffer* two = new_buffer();
  record(1, &do_nothing, {}, {one});
  record(2, &do_nothing, {}, {two});
  EXPECT_EQ(windows(), 0u);
  drop(one);
  drop(two);
}

TEST_F(CoreStreamsTest, AWaitingStreamRunsAfterThePointItWaitsFor) {
  record(1, note(1));
  const StreamPoint point = core_.mark(1);
  record(2, note(2));
  core_.order_after(2, point);
  EXPECT_EQ(ends(WindowEnd::kEventWaited), 1u);
  record(2, note(3));
  EXPECT_EQ(core_.synchronize_stream(2), nullptr);
  EXPECT_EQ(order_, (std::vector<int>{1, 2, 3}));
}

TEST_F(CoreStreamsTest, WaitingForAPassedPointOrOneselfEndsNothing) {
  record(1, &do_nothing);
  const StreamPoint point = core_.mark(1);
  core_.order_after(1, point);
  EXPECT_EQ(windows(), 0u);
  core_.flush(1, WindowEnd::kModeSwitch);
  core_.order_after(2, point);
  EXPECT_EQ(ends(WindowEnd::kEventWaited), 0u);
}

TEST_F(CoreStreamsTest, ThePointOfAnUntouchedStreamIsReached) {
  const StreamPoint point = core_.mark(5);
  EXPECT_EQ(point.sequence, 0u);
  EXPECT_TRUE(core_.has_reached(point, WindowEnd::kEventWaited));
  core_.wait(point, WindowEnd::kEventWaited);
}

TEST_F(CoreStreamsTest, APointIsBehindTheWholeWindowItFallsInto) {
  record(1, note(1));
  const StreamPoint point = core_.mark(1);
  record(1, note(2));
  EXPECT_EQ(core_.mark(1).sequence, point.sequence);
  core_.wait(point, WindowEnd::kEventWaited);
  EXPECT_EQ(order_, (std::vector<int>{1, 2}));
}

TEST_F(CoreStreamsTest, WaitingForAPointRunsItsWindowAndNoLaterOne) {
  record(1, note(1));
  const StreamPoint point = core_.mark(1);
  core_.flush(1, WindowEnd::kModeSwitch);
  record(1, note(2));
  core_.wait(point, WindowEnd::kEventWaited);
  EXPECT_EQ(order_, (std::vector<int>{1}));
  EXPECT_EQ(ends(WindowEnd::kEventWaited), 0u);
}

TEST_F(CoreStreamsTest, APointIsReachedWhenItsWindowHasRun) {
  device::Buffer* buffer = new_buffer();
  close_gate(buffer);
  record(1, &do_nothing);
  const StreamPoint point = core_.mark(1);
  EXPECT_FALSE(core_.has_reached(point, WindowEnd::kEventWaited));
  EXPECT_EQ(ends(WindowEnd::kEventWaited), 1u);
  open_gate();
  core_.wait(point, WindowEnd::kEventWaited);
  EXPECT_TRUE(core_.has_reached(point, WindowEnd::kEventWaited));
  drop(buffer);
}

TEST_F(CoreStreamsTest, AReadWaitsForTheWriterAndNotForReaders) {
  device::Buffer* buffer = new_buffer();
  record(0, &do_nothing, {}, {buffer});
  core_.wait_for_write(*buffer, WindowEnd::kValueRead);
  close_gate(buffer);
  core_.wait_for_write(*buffer, WindowEnd::kValueRead);  // returns although a reader runs
  EXPECT_TRUE(core_.is_written(*buffer));
  EXPECT_FALSE(core_.is_idle(*buffer));
  open_gate();
  core_.wait_for_use(*buffer, WindowEnd::kPointerTaken);
  EXPECT_TRUE(core_.is_idle(*buffer));
  drop(buffer);
}

TEST_F(CoreStreamsTest, AWriteByTheHostWaitsForReaders) {
  device::Buffer* buffer = new_buffer();
  record(0, note(1), {buffer});
  core_.wait_for_use(*buffer, WindowEnd::kPointerTaken);
  EXPECT_EQ(order_, (std::vector<int>{1}));
  EXPECT_EQ(ends(WindowEnd::kPointerTaken), 1u);
  drop(buffer);
}

TEST_F(CoreStreamsTest, ABufferIsIdleUntilItIsRecorded) {
  device::Buffer* buffer = new_buffer();
  EXPECT_TRUE(core_.is_idle(*buffer));
  EXPECT_TRUE(core_.is_written(*buffer));
  record(0, &do_nothing, {}, {buffer});
  EXPECT_FALSE(core_.is_idle(*buffer));
  EXPECT_FALSE(core_.is_written(*buffer));
  drop(buffer);
}

TEST_F(CoreStreamsTest, SynchronizingAStreamLeavesTheOthersAlone) {
  record(1, note(1));
  record(2, note(2));
  EXPECT_EQ(core_.synchronize_stream(1), nullptr);
  EXPECT_EQ(order_, (std::vector<int>{1}));
}

TEST_F(CoreStreamsTest, AnErrorBelongsToItsStream) {
  record(1, &fail);
  record(2, &do_nothing);
  EXPECT_EQ(core_.synchronize_stream(2), nullptr);
  EXPECT_NE(core_.synchronize_stream(1), nullptr);
}

TEST_F(CoreStreamsTest, PoolStreamsComeInTurnAndAreNeverTheDefaultOne) {
  const uint32_t first = core_.next_pool_stream();
  for (uint32_t i = 1; i < Core::kNumStreams - 1; ++i) {
    const uint32_t next = core_.next_pool_stream();
    EXPECT_NE(next, 0u);
    EXPECT_NE(next, first);
    EXPECT_LT(next, Core::kNumStreams);
  }
  EXPECT_EQ(core_.next_pool_stream(), first);
}

}  // namespace
}  // namespace neuron::lazy
