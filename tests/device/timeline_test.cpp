#include "device/timeline.h"

#include <gtest/gtest.h>

#include "device/program.h"
#include "device/queue.h"
#include "device/scripted_program.h"

namespace neuron::device {
namespace {

const Target& figures() { return target_of(Chip::kTrn2); }

// What a launch takes on the queue before its first instruction.
double launch_ns() { return figures().launch + 2 * figures().dma_start; }

Work compute(double ns, uint64_t signature = 1) {
  Work work;
  work.kind = Work::Kind::kCompute;
  work.bytes_read =
      static_cast<uint64_t>(ns * figures().hbm_rate * 2 * figures().hbm_efficiency);
  work.signature = signature;
  return work;
}

Work of_kind(Work::Kind kind, uint64_t bytes = 0) {
  Work work;
  work.kind = kind;
  work.bytes_read = bytes;
  return work;
}

class TimelineTest : public testing::Test {
 protected:
  // Runs a program; when it ended.
  double run(uint32_t stream, const std::vector<Work>& works, HostLog log = {},
             std::vector<Mark> after = {}, bool is_window = false, uint32_t ops = 1) {
    ScriptedProgram program(++sequence_[stream]);
    program.stream = stream;
    program.host_log = std::move(log);
    program.after = std::move(after);
    program.is_window = is_window;
    program.num_ops = ops;
    for (const Work& work : works) {
      if (work.kind == Work::Kind::kCompute) program.signature += work.signature;
    }
    timeline_.begin(program);
    for (const Work& work : works) timeline_.add(work);
    timeline_.end(program);
    return timeline_.now();
  }
  HostLog wait_for_last(uint32_t stream) {
    HostLog log;
    log.wait({stream, sequence_[stream]});
    return log;
  }

  Timeline timeline_;
  uint64_t sequence_[4] = {};
};

TEST_F(TimelineTest, AProgramStartsWhenTheHostHasSubmittedIt) {
  const double end = run(0, {compute(1000)});
  EXPECT_NEAR(end, figures().submit_op + launch_ns() + figures().swap + 1000, 1);
}

TEST_F(TimelineTest, TheHostRunsAheadOfTheDevice) {
  const double first = run(0, {compute(1e6)});
  EXPECT_NEAR(run(0, {compute(1e6)}) - first, launch_ns() + 1e6, 1);
}

TEST_F(TimelineTest, ShortProgramsGoAtTheRateOfSubmission) {
  run(0, {compute(1)});
  const double after_one = run(0, {compute(1)}, {}, {}, /*is_window=*/true, 10);
  const double after_two = run(0, {compute(1)}, {}, {}, /*is_window=*/true, 10);
  EXPECT_NEAR(after_two - after_one, figures().submit_window + 10 * figures().record_op,
              1);
}

TEST_F(TimelineTest, AnotherProgramHasToBeLoaded) {
  run(0, {compute(1e6, 1)});
  const double same = run(0, {compute(1e6, 1)});
  const double other = run(0, {compute(1e6, 2)});
  EXPECT_NEAR(other - same, launch_ns() + figures().swap + 1e6, 1);
  EXPECT_EQ(timeline_.counts().swaps, 2u);
}

TEST_F(TimelineTest, TheStepsOfAProgramShareOneLaunch) {
  run(0, {compute(1000, 1), compute(1000, 2), compute(1000, 3)});
  EXPECT_EQ(timeline_.counts().launches, 1u);
}

TEST_F(TimelineTest, AHostThatHasWaitedSubmitsLater) {
  const double first = run(0, {compute(1e6)});
  const double second = run(0, {compute(1e6)}, wait_for_last(0));
  EXPECT_NEAR(second - first, figures().submit_op + launch_ns() + 1e6, 1);
}

TEST_F(TimelineTest, AMarkTakesNoTime) {
  const double end = run(0, {compute(1e6)});
  EXPECT_EQ(run(0, {of_kind(Work::Kind::kFree)}), end);
  EXPECT_EQ(timeline_.counts().launches, 1u);
}

TEST_F(TimelineTest, StreamsShareTheComputeQueue) {
  const double first = run(0, {compute(1e6)});
  EXPECT_NEAR(run(1, {compute(1e6)}) - first, launch_ns() + 1e6, 1);
}

TEST_F(TimelineTest, ACopyToTheHostOverlapsTheComputingOfAnotherStream) {
  const auto bytes = static_cast<uint64_t>(1e6 * figures().link_rate);
  const double computed = run(0, {compute(1e6)});
  const double copied = run(1, {of_kind(Work::Kind::kDownload, bytes)});
  EXPECT_NEAR(copied, figures().submit_op + figures().link_start + 1e6, 1);
  EXPECT_LT(copied, computed);
}

TEST_F(TimelineTest, ACopyRunsBehindItsOwnStream) {
  const double computed = run(0, {compute(1e6)});
  const double copied = run(0, {of_kind(Work::Kind::kDownload, 0)});
  EXPECT_NEAR(copied - computed, figures().link_start, 1);
}

TEST_F(TimelineTest, ACopyWaitsForAnEventOfAnotherStream) {
  const double computed = run(0, {compute(1e6)});
  const double copied = run(1, {of_kind(Work::Kind::kDownload, 0)}, {}, {{0, 1}});
  EXPECT_NEAR(copied - computed, figures().link_start, 1);
}

TEST_F(TimelineTest, LaterWorkOfAStreamWaitsForACopyThatTheHostDoesNotWaitFor) {
  const auto bytes = static_cast<uint64_t>(1e6 * figures().link_rate);
  HostLog log;
  log.copy_later(1, bytes);
  const double other = run(0, {compute(1000)}, std::move(log));
  EXPECT_LT(other, 1e6);
  EXPECT_GT(run(1, {compute(1000)}), 1e6);
}

TEST_F(TimelineTest, ACopyKeepsTheHost) {
  HostLog log;
  log.copy(static_cast<uint64_t>(1e6 * figures().link_rate), /*to_device=*/true);
  const double end = run(0, {compute(1000)}, std::move(log));
  EXPECT_NEAR(end,
              figures().link_start + 1e6 + figures().submit_op + launch_ns() +
                  figures().swap + 1000,
              1);
}

TEST_F(TimelineTest, AnOpOnTheHostStopsBoth) {
  const double before = run(0, {compute(1e6)});
  const double after = run(0, {of_kind(Work::Kind::kHost)});
  EXPECT_NEAR(after - before, figures().host_op, 1);
  EXPECT_NEAR(run(0, {compute(1e6)}) - after, figures().submit_op + launch_ns() + 1e6, 1);
}

TEST_F(TimelineTest, AnOpOnTheHostCutsAProgramInTwo) {
  run(0, {compute(1), of_kind(Work::Kind::kHost), compute(1)});
  EXPECT_EQ(timeline_.counts().launches, 2u);
}

TEST_F(TimelineTest, TheHostRunsAheadByABoundedNumberOfPrograms) {
  double end = 0;
  for (uint64_t i = 0; i < Timeline::kMaxInFlight; ++i) end = run(0, {compute(1e6)});
  const double before = timeline_.counts().host;
  run(0, {compute(1e6)});
  run(1, {of_kind(Work::Kind::kDownload, 0)});  // as soon as the host is there
  EXPECT_NEAR(timeline_.counts().host - before, figures().submit_op, 1);
  EXPECT_GT(timeline_.now(), launch_ns() + 1e6);
  EXPECT_LT(timeline_.now(), end);
}

TEST_F(TimelineTest, TheSameProgramsGiveTheSameTime) {
  const auto measure = [this] {
    const double before = timeline_.counts().now;
    for (int i = 1; i < 50; ++i) run(i % 3, {compute(i * 1000.0, i % 4)});
    HostLog log;
    for (uint32_t stream = 0; stream < 3; ++stream) {
      log.wait({stream, sequence_[stream]});
    }
    timeline_.settle(log);
    return timeline_.counts().now - before;
  };
  measure();
  EXPECT_NEAR(measure(), measure(), 1e-3);
}

TEST(HostLog, StaysShortWhenTheHostRepeatsItself) {
  HostLog log;
  for (int i = 0; i < 1000; ++i) {
    log.wait({0, 7});
    log.copy(4, /*to_device=*/false);
    log.wait({1, 3});
  }
  Timeline timeline;
  timeline.settle(log);
  EXPECT_EQ(timeline.counts().bytes_to_host, 4000u);
  EXPECT_NEAR(timeline.counts().now, 1000 * figures().link_start, 1e3);
  EXPECT_LE(log.entries().size(), 4u);
}

// The queue tells the clock, and a dry run skips what computes.
class QueueClockTest : public testing::Test {
 protected:
  void TearDown() override { queue_.shut_down(); }
  void run(const Work& work) {
    auto* program = new ScriptedProgram(++number_);
    program->add([this] {
      ++runs_;
      return Status();
    });
    program->steps.back().work = work;
    program->is_timed = true;
    queue_.submit(program->close(), state_);
    queue_.wait(state_, number_);
  }

  Queue queue_;
  StreamState state_;
  uint64_t number_ = 0;
  int runs_ = 0;
};

TEST_F(QueueClockTest, ProgramsMoveTheClock) {
  run(compute(1e6));
  const auto counts = queue_.with_timeline([](Timeline& t) { return t.counts(); });
  EXPECT_GT(counts.now, 1e6);
  EXPECT_EQ(runs_, 1);
}

TEST_F(QueueClockTest, ADryRunSkipsWhatComputesAndMovesTheClock) {
  queue_.set_dry(true);
  run(compute(1e6));
  run(of_kind(Work::Kind::kHost));
  EXPECT_EQ(runs_, 0);
  run(of_kind(Work::Kind::kFree));
  EXPECT_EQ(runs_, 1);
  const auto counts = queue_.with_timeline([](Timeline& t) { return t.counts(); });
  EXPECT_GT(counts.now, 1e6 + figures().host_op);
}

}  // namespace
}  // namespace neuron::device
