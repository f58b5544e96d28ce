#include "device/queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <semaphore>
#include <stdexcept>
#include <thread>
#include <vector>

#include "device/next_index.h"
#include "device/scripted_program.h"

namespace neuron::device {
namespace {

Status do_nothing() { return {}; }
Status fail_first() { return {ErrorKind::kIndex, "first"}; }
Status fail_second() { return {ErrorKind::kValue, "second"}; }

class QueueTest : public testing::Test {
 protected:
  Buffer* new_buffer() { return memory_.allocate(64); }
  int64_t active_bytes() { return memory_.active_bytes(); }

  // Submits a program of one step and runs it.
  void run(ScriptedProgram::Body body, const std::vector<Buffer*>& reads = {},
           const std::vector<Buffer*>& writes = {}) {
    queue_.submit(one_step(++last_, std::move(body), reads, writes), stream_);
    queue_.wait(stream_, last_);
  }

  Memory memory_{next_index(), 1 << 20};
  StreamState stream_, other_;
  Queue queue_;
  uint64_t last_ = 0;  // sequence number of the last program of `stream_`
};

TEST_F(QueueTest, ProgramsRunInTheOrderOfSubmission) {
  std::vector<uint64_t> order;
  for (uint64_t i = 1; i <= 100; ++i) {
    queue_.submit(one_step(i,
                           [&order, i] {
                             order.push_back(i);
                             return Status();
                           }),
                  stream_);
  }
  queue_.wait(stream_, 100);
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(QueueTest, StreamsShareOneOrder) {
  std::vector<int> order;
  for (int i = 0; i < 20; ++i) {
    StreamState& stream = i % 2 == 0 ? stream_ : other_;
    queue_.submit(one_step(static_cast<uint64_t>(i / 2 + 1),
                           [&order, i] {
                             order.push_back(i);
                             return Status();
                           }),
                  stream);
  }
  queue_.wait(other_, 10);
  ASSERT_EQ(order.size(), 20u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(QueueTest, AProgramIsCompletedAfterItsLastStep) {
  auto* program = new ScriptedProgram(1);
  std::vector<uint64_t> seen;
  for (int i = 0; i < 2; ++i) {
    program->add([&] {
      seen.push_back(stream_.completed);
      return Status();
    });
  }
  queue_.submit(program->close(), stream_);
  queue_.wait(stream_, 1);
  EXPECT_EQ(seen, (std::vector<uint64_t>{0, 0}));
  EXPECT_EQ(stream_.completed, 1u);
}

TEST_F(QueueTest, AProgramIsPreparedOnceBeforeItsFirstStep) {
  auto* program = new ScriptedProgram(1);
  std::vector<int> seen;
  for (int i = 0; i < 2; ++i) {
    program->add([&seen, program] {
      seen.push_back(program->prepared);
      return Status();
    });
  }
  queue_.submit(program->close(), stream_);
  queue_.wait(stream_, 1);
  EXPECT_EQ(seen, (std::vector<int>{1, 1}));
}

TEST_F(QueueTest, TheWorkerRunsProgramsNobodyWaitsFor) {
  std::binary_semaphore ran{0};
  std::thread::id runner;
  queue_.submit(one_step(1,
                         [&] {
                           runner = std::this_thread::get_id();
                           ran.release();
                           return Status();
                         }),
                stream_);
  ran.acquire();
  EXPECT_NE(runner, std::this_thread::get_id());
  queue_.drain();
}

TEST_F(QueueTest, AThreadThatWaitsRunsProgramsItself) {
  // The first program keeps the worker, if it has it, until this thread waits.
  queue_.submit(one_step(1,
                         [this] {
                           while (!queue_.host_waits()) std::this_thread::yield();
                           return Status();
                         }),
                stream_);
  std::thread::id runner;
  queue_.submit(one_step(2,
                         [&runner] {
                           runner = std::this_thread::get_id();
                           return Status();
                         }),
                stream_);
  queue_.wait(stream_, 2);
  EXPECT_EQ(runner, std::this_thread::get_id());
  EXPECT_FALSE(queue_.host_waits());
}

TEST_F(QueueTest, WaitingForTheBeginningReturnsAtOnce) { queue_.wait(stream_, 0); }

TEST_F(QueueTest, DrainReturnsWhenAllHasRun) {
  int ran = 0;
  for (uint64_t i = 1; i <= 10; ++i) {
    queue_.submit(one_step(i,
                           [&ran] {
                             ++ran;
                             return Status();
                           }),
                  stream_);
  }
  queue_.drain();
  EXPECT_EQ(ran, 10);
  EXPECT_EQ(stream_.completed, 10u);
}

TEST_F(QueueTest, AFailureIsStoredOnWhatTheStepWrites) {
  Buffer* out = new_buffer();
  run(&fail_first, {}, {out});
  ASSERT_NE(out->error, nullptr);
  EXPECT_EQ(out->error->kind, ErrorKind::kIndex);
  EXPECT_EQ(out->error->message, "first");
  EXPECT_EQ(out->error->context, "step 0");
  memory_.release_storage(out);
}

TEST_F(QueueTest, AReaderOfAFailureIsSkippedAndPassesItOn) {
  Buffer* bad = new_buffer();
  Buffer* out = new_buffer();
  run(&fail_first, {}, {bad});
  bool ran = false;
  run(
      [&ran] {
        ran = true;
        return Status();
      },
      {bad}, {out});
  EXPECT_FALSE(ran);
  EXPECT_EQ(out->error, bad->error);
  memory_.release_storage(bad);
  memory_.release_storage(out);
}

TEST_F(QueueTest, AnUnrelatedBufferStaysClean) {
  Buffer* bad = new_buffer();
  Buffer* input = new_buffer();
  Buffer* out = new_buffer();
  run(&fail_first, {input}, {bad});
  bool ran = false;
  run(
      [&ran] {
        ran = true;
        return Status();
      },
      {input}, {out});
  EXPECT_TRUE(ran);
  EXPECT_EQ(input->error, nullptr);
  EXPECT_EQ(out->error, nullptr);
  for (Buffer* buffer : {bad, input, out}) memory_.release_storage(buffer);
}

TEST_F(QueueTest, OverwritingClearsTheFailure) {
  Buffer* out = new_buffer();
  run(&fail_first, {}, {out});
  run(&do_nothing, {}, {out});
  EXPECT_EQ(out->error, nullptr);
  memory_.release_storage(out);
}

TEST_F(QueueTest, UpdatingKeepsTheFailure) {
  Buffer* out = new_buffer();
  run(&fail_first, {}, {out});
  run(&do_nothing, {out}, {out});
  EXPECT_NE(out->error, nullptr);
  memory_.release_storage(out);
}

TEST_F(QueueTest, TheFirstErrorOfAStreamIsKeptUntilItIsTakenOnce) {
  run(&fail_first);
  run(&fail_second);
  EXPECT_NE(queue_.error_number(stream_), 0u);
  EXPECT_EQ(queue_.error_number(other_), 0u);
  const ErrorPtr error = queue_.take_error(stream_);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->message, "first");
  EXPECT_EQ(queue_.error_number(stream_), 0u);
  EXPECT_EQ(queue_.take_error(stream_), nullptr);
}

TEST_F(QueueTest, TheStreamGoesOnAfterAnError) {
  run(&fail_first);
  EXPECT_EQ(stream_.completed, 1u);
  bool ran = false;
  run([&ran] {
    ran = true;
    return Status();
  });
  EXPECT_TRUE(ran);
}

TEST_F(QueueTest, APassedOnErrorIsNotANewErrorOfTheStream) {
  Buffer* bad = new_buffer();
  run(&fail_first, {}, {bad});
  EXPECT_NE(queue_.take_error(stream_), nullptr);
  run(&do_nothing, {bad}, {});
  EXPECT_EQ(queue_.error_number(stream_), 0u);
  memory_.release_storage(bad);
}

TEST_F(QueueTest, ABufferIsLetGoByTheStepThatSaysSo) {
  Buffer* buffer = new_buffer();
  auto* program = new ScriptedProgram(1);
  int64_t during = -1, after = -1;
  program->add(
      [&] {
        during = active_bytes();
        return Status();
      },
      {buffer});
  program->release_here(buffer);
  program->add([&] {
    after = active_bytes();
    return Status();
  });
  memory_.release_storage(buffer);
  queue_.submit(program->close(), stream_);
  queue_.wait(stream_, 1);
  EXPECT_GT(during, 0);
  EXPECT_EQ(after, 0);
}

// Returns when `queue` drops what is submitted; nothing submitted before may end by then.
void wait_until_stopping(Queue& queue, Memory& memory, StreamState& stream) {
  Buffer* probe = memory.allocate(64);
  for (uint64_t number = 1;; ++number) {
    const int before = probe->refs;
    queue.submit(one_step(number, &do_nothing, {probe}), stream);
    if (probe->refs == before) break;
    std::this_thread::yield();
  }
  memory.release_storage(probe);
}

TEST_F(QueueTest, ShutDownDropsWhatHasNotStartedAndReleasesIt) {
  std::binary_semaphore started{0}, gate{0};
  queue_.submit(one_step(1,
                         [&] {
                           started.release();
                           gate.acquire();
                           return Status();
                         }),
                stream_);
  started.acquire();
  Buffer* buffer = new_buffer();
  bool ran = false;
  queue_.submit(one_step(2,
                         [&ran] {
                           ran = true;
                           return Status();
                         },
                         {}, {buffer}),
                stream_);
  memory_.release_storage(buffer);
  std::thread stopper([this] { queue_.shut_down(); });
  wait_until_stopping(queue_, memory_, other_);
  gate.release();
  stopper.join();
  EXPECT_FALSE(ran);
  EXPECT_EQ(active_bytes(), 0);
  EXPECT_EQ(stream_.completed, 2u);
}

TEST_F(QueueTest, WhatIsSubmittedAfterShutDownIsDropped) {
  queue_.shut_down();
  Buffer* buffer = new_buffer();
  bool ran = false;
  queue_.submit(one_step(1,
                         [&ran] {
                           ran = true;
                           return Status();
                         },
                         {}, {buffer}),
                stream_);
  queue_.wait(stream_, 1);
  EXPECT_FALSE(ran);
  memory_.release_storage(buffer);
  EXPECT_EQ(active_bytes(), 0);
}

TEST_F(QueueTest, ShuttingDownTwiceIsAsGoodAsOnce) {
  run(&do_nothing);
  queue_.shut_down();
  queue_.shut_down();
  EXPECT_EQ(stream_.completed, 1u);
}

TEST_F(QueueTest, AKernelThatThrowsIsAFailureOfItsStep) {
  queue_.submit(one_step(1, []() -> Status { throw std::runtime_error("oops"); }),
                stream_);
  bool ran = false;
  queue_.submit(one_step(2,
                         [&ran] {
                           ran = true;
                           return Status();
                         }),
                stream_);
  queue_.wait(stream_, 2);
  EXPECT_TRUE(ran);
  const ErrorPtr error = queue_.take_error(stream_);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->kind, ErrorKind::kRuntime);
  EXPECT_NE(error->message.find("oops"), std::string::npos);
  EXPECT_EQ(error->context, "step 0");
}

TEST_F(QueueTest, AKernelThatFindsNoMemoryIsOutOfMemory) {
  queue_.submit(one_step(1, []() -> Status { throw std::bad_alloc(); }), stream_);
  queue_.wait(stream_, 1);
  const ErrorPtr error = queue_.take_error(stream_);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->kind, ErrorKind::kOutOfMemory);
}

TEST_F(QueueTest, EveryProgramRunsInsideTheThreadScope) {
  static thread_local bool inside = false;
  queue_.set_thread_scope([](const std::function<void()>& body) {
    inside = true;
    body();
    inside = false;
  });
  int outside = 0;
  for (uint64_t i = 1; i <= 50; ++i) {
    queue_.submit(one_step(i,
                           [&outside] {
                             outside += inside ? 0 : 1;
                             return Status();
                           }),
                  stream_);
  }
  queue_.wait(stream_, 50);
  EXPECT_EQ(outside, 0);
  EXPECT_FALSE(inside);
}

TEST_F(QueueTest, ThreadsSubmitAndWaitOnStreamsOfTheirOwn) {
  constexpr int kThreads = 4;
  constexpr uint64_t kPrograms = 200;
  int ran = 0;  // programs run one after the other
  StreamState streams[kThreads];
  std::vector<std::thread> threads;
  for (StreamState& stream : streams) {
    threads.emplace_back([&] {
      for (uint64_t i = 1; i <= kPrograms; ++i) {
        queue_.submit(one_step(i,
                               [&ran] {
                                 ++ran;
                                 return Status();
                               }),
                      stream);
        if (i % 8 == 0) queue_.wait(stream, i);
      }
      queue_.wait(stream, kPrograms);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ran, kThreads * static_cast<int>(kPrograms));
}

}  // namespace
}  // namespace neuron::device
