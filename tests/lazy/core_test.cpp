// Recording: when windows end, what memory is held, and how errors come back. Streams and
// waiting are in core_streams_test.cpp.
#include "lazy/core.h"

#include <atomic>
#include <thread>

#include "base/bisect.h"
#include "lazy/fake_core.h"
#include "lazy/journal.h"

namespace neuron::lazy {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(CoreTest, AWindowStaysOpenUntilSomethingEndsIt) {
  bool ran = false;
  record(0, [&ran] {
    ran = true;
    return Status();
  });
  core_.queue().drain();
  EXPECT_FALSE(ran);
  EXPECT_EQ(windows(), 0u);
  EXPECT_EQ(core_.stats().ops(), 1u);
  EXPECT_EQ(core_.synchronize(), nullptr);
  EXPECT_TRUE(ran);
}

TEST_F(CoreTest, InPlainModeEachOpIsAWindow) {
  modes().adaptive = false;
  record_many(0, 3);
  EXPECT_EQ(windows(), 3u);
  EXPECT_EQ(ends(WindowEnd::kPlainEager), 3u);
}

TEST_F(CoreTest, AWindowEndsAtItsCap) {
  record_many(0, kFirstLimit - 1);
  EXPECT_EQ(windows(), 0u);
  record_many(0, 1);
  EXPECT_EQ(ends(WindowEnd::kSizeCap), 1u);
  EXPECT_EQ(windows(), 1u);
}

TEST_F(CoreTest, TheCapDoublesUpToTheKnob) {
  const auto most = static_cast<uint64_t>(knobs().window_ops);
  uint64_t expected = 0;
  for (uint64_t limit = kFirstLimit; expected < 8; limit = std::min(limit * 2, most)) {
    record_many(0, limit - 1);
    EXPECT_EQ(windows(), expected) << limit;
    record_many(0, 1);
    EXPECT_EQ(windows(), ++expected) << limit;
  }
  EXPECT_EQ(ends(WindowEnd::kSizeCap), expected);
}

TEST_F(CoreTest, AWindowEndsAfterEveryNthOpWhenSoAsked) {
  bisect_switches().flush_every = 3;
  core_.flush_all(WindowEnd::kModeSwitch);
  record_many(0, 9);
  EXPECT_EQ(ends(WindowEnd::kSizeCap), 3u);
  bisect_switches().flush_every = 0;
  core_.flush_all(WindowEnd::kModeSwitch);
  record_many(0, kFirstLimit - 1);
  EXPECT_EQ(ends(WindowEnd::kSizeCap), 3u);
}

TEST_F(CoreTest, TheEndOfAWindowIsInTheJournal) {
  record_many(0, 2);
  JournalReader reader(1u << static_cast<int>(Topic::kWindows));
  EXPECT_EQ(core_.synchronize(), nullptr);
  const auto entries = reader.take();
  ASSERT_EQ(entries.size(), 1u);
  const auto& values = entries[0]->values;
  EXPECT_EQ(std::get<std::string>(values[3].second), "synchronize");
  EXPECT_EQ(std::get<int64_t>(values[5].second), 2);
}

TEST_F(CoreTest, TheCapStartsAgainAfterARead) {
  record_many(0, kFirstLimit);  // the cap is now doubled
  device::Buffer* value = new_buffer();
  record(0, &do_nothing, {}, {value});
  core_.wait_for_write(*value, WindowEnd::kValueRead);
  record_many(0, kFirstLimit);
  EXPECT_EQ(ends(WindowEnd::kSizeCap), 2u);
  drop(value);
}

TEST_F(CoreTest, TheCapStartsAgainAfterASynchronize) {
  record_many(0, kFirstLimit);
  EXPECT_EQ(core_.synchronize_stream(0), nullptr);
  record_many(0, kFirstLimit);
  EXPECT_EQ(ends(WindowEnd::kSizeCap), 2u);
}

TEST_F(CoreTest, AWindowEndsWhenAValueIsRead) {
  device::Buffer* value = new_buffer();
  record(0,
         [value] {
           *reinterpret_cast<int*>(device::Memory::materialize(value)) = 42;
           return Status();
         },
         {}, {value});
  core_.wait_for_write(*value, WindowEnd::kValueRead);
  EXPECT_EQ(*reinterpret_cast<const int*>(value->host), 42);
  EXPECT_EQ(ends(WindowEnd::kValueRead), 1u);
  drop(value);
}

TEST_F(CoreTest, AReadOfAWrittenValueEndsNothing) {
  device::Buffer* value = new_buffer();
  record(0, &do_nothing, {}, {value});
  core_.wait_for_write(*value, WindowEnd::kValueRead);
  record(0, &do_nothing);
  core_.wait_for_write(*value, WindowEnd::kValueRead);
  EXPECT_EQ(windows(), 1u);
  drop(value);
}

TEST_F(CoreTest, AnEmptyWindowDoesNotEnd) {
  core_.flush(0, WindowEnd::kModeSwitch);
  EXPECT_EQ(core_.synchronize(), nullptr);
  EXPECT_EQ(windows(), 0u);
}

TEST_F(CoreTest, FlushingAllEndsTheWindowOfEveryStream) {
  record(0, &do_nothing);
  record(3, &do_nothing);
  core_.flush_all(WindowEnd::kModeSwitch);
  EXPECT_EQ(ends(WindowEnd::kModeSwitch), 2u);
}

TEST_F(CoreTest, ResetCountersStartFromZero) {
  record_many(0, kFirstLimit);
  core_.reset_stats();
  EXPECT_EQ(core_.stats().ops(), 0u);
  EXPECT_EQ(windows(), 0u);
  EXPECT_TRUE(core_.stats().lines().empty());
}

TEST_F(CoreTest, MemoryPressureEndsWindowsAndFreesWhatTheyHeld) {
  device::Buffer* large = new_buffer(kCapacity * 3 / 4);
  record(0, &do_nothing, {}, {large});
  drop(large);
  device::Buffer* next = new_buffer(kCapacity / 2);
  EXPECT_NE(next, nullptr);
  EXPECT_EQ(ends(WindowEnd::kMemoryPressure), 1u);
  EXPECT_EQ(core_.memory().stats().retries, 1);
  EXPECT_EQ(core_.memory().stats().out_of_memory, 0);
  drop(next);
}

TEST_F(CoreTest, OutOfMemoryNamesTheSizesAndCanBeOvercome) {
  device::Buffer* large = new_buffer(kCapacity * 3 / 4);
  device::Buffer* next = nullptr;
  const Status status = core_.allocate(kCapacity / 2, next);
  ASSERT_FALSE(status.is_ok());
  EXPECT_EQ(next, nullptr);
  EXPECT_EQ(status.error()->kind, ErrorKind::kOutOfMemory);
  for (const char* part : {"requested", "(524288 bytes)", "in use", "free"}) {
    EXPECT_TRUE(has(status.error()->message, part)) << status.error()->message;
  }
  EXPECT_EQ(core_.memory().stats().out_of_memory, 1);
  drop(large);
  next = new_buffer(kCapacity / 2);
  EXPECT_NE(next, nullptr);
  drop(next);
}

TEST_F(CoreTest, ABufferOutlivesItsStorageUntilItsLastReaderRan) {
  device::Buffer* buffer = new_buffer();
  int64_t first = -1, second = -1, after = -1;
  record(0, &do_nothing, {}, {buffer});
  record(0,
         [&] {
           first = active_bytes();
           return Status();
         },
         {buffer});
  record(0,
         [&] {
           second = active_bytes();
           return Status();
         },
         {buffer});
  record(0, [&] {
    after = active_bytes();
    return Status();
  });
  drop(buffer);
  EXPECT_EQ(core_.synchronize(), nullptr);
  EXPECT_GT(first, 0);
  EXPECT_GT(second, 0);
  EXPECT_EQ(after, 0);
}

TEST_F(CoreTest, ABufferWithAStorageOutlivesItsReaders) {
  device::Buffer* buffer = new_buffer();
  record(0, &do_nothing, {buffer});
  EXPECT_EQ(core_.synchronize(), nullptr);
  EXPECT_GT(active_bytes(), 0);
  EXPECT_EQ(buffer->refs, 1);
  drop(buffer);
}

TEST_F(CoreTest, ALoopMayUseMoreThanTheCapacityInTotal) {
  for (int i = 0; i < 10000; ++i) {  // 256 bytes each are charged
    device::Buffer* buffer = new_buffer();
    record(0, &do_nothing, {}, {buffer});
    drop(buffer);
  }
  EXPECT_EQ(core_.synchronize(), nullptr);
  EXPECT_EQ(active_bytes(), 0);
  EXPECT_EQ(core_.memory().stats().out_of_memory, 0);
}

TEST_F(CoreTest, AnErrorIsRaisedAtTheNextSynchronizeAndNeverAgain) {
  record(0, &fail);
  const ErrorPtr error = core_.synchronize();
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->message, "broken");
  EXPECT_EQ(core_.synchronize(), nullptr);
}

TEST_F(CoreTest, AnErrorNamesTheOpItsOperandsAndItsStream) {
  device::Buffer* out = new_buffer();
  record(2, &fail, {}, {out});
  const ErrorPtr error = core_.synchronize_stream(2);
  ASSERT_NE(error, nullptr);
  for (const char* part :
       {"test::action", "f32[4]", "stream 2", "recorded at <no Python line>"}) {
    EXPECT_TRUE(has(error->context, part)) << error->context;
  }
  drop(out);
}

TEST_F(CoreTest, TheRestOfAWindowRunsAfterAnError) {
  device::Buffer* bad = new_buffer();
  device::Buffer* good = new_buffer();
  bool ran = false;
  record(0, &fail, {}, {bad});
  record(0,
         [&ran] {
           ran = true;
           return Status();
         },
         {}, {good});
  EXPECT_NE(core_.synchronize(), nullptr);
  EXPECT_TRUE(ran);
  EXPECT_NE(bad->error, nullptr);
  EXPECT_EQ(good->error, nullptr);
  drop(bad);
  drop(good);
}

TEST_F(CoreTest, ThreadsRecordIntoOneWindowWithoutLosingAnOp) {
  constexpr int kThreads = 4;
  constexpr int kOps = 500;
  int ran = 0;  // ops run one after the other
  std::vector<int> last(kThreads, -1);
  std::atomic<int> disorder{0};
  std::vector<std::thread> threads;
  for (int id = 0; id < kThreads; ++id) {
    threads.emplace_back([&, id] {
      for (int i = 0; i < kOps; ++i) {
        device::Buffer* buffer = new_buffer();
        record(0,
               [&, id, i] {
                 ++ran;
                 if (last[id] != i - 1) ++disorder;
                 last[id] = i;
                 return Status();
               },
               {}, {buffer});
        if (i % 50 == 0) core_.wait_for_use(*buffer, WindowEnd::kValueRead);
        drop(buffer);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(core_.synchronize(), nullptr);
  EXPECT_EQ(ran, kThreads * kOps);
  EXPECT_EQ(disorder, 0);
  EXPECT_EQ(active_bytes(), 0);
}

TEST_F(CoreTest, WorkRecordedAfterShutDownIsDropped) {
  device::Buffer* buffer = new_buffer();
  record(0, &do_nothing, {}, {buffer});
  core_.shut_down();
  EXPECT_EQ(core_.synchronize(), nullptr);
  EXPECT_EQ(buffer->refs, 1);
  drop(buffer);
}

TEST_F(CoreTest, RunningOutOfMemoryNamesTheLargestTensors) {
  device::Buffer* small = new_buffer(1 << 10);
  device::Buffer* large = new_buffer(1 << 19);
  device::Buffer* none = nullptr;
  const Status status = core_.allocate(kCapacity, none);
  ASSERT_FALSE(status.is_ok());
  const std::string& text = status.error()->message;
  EXPECT_NE(text.find("largest of 2 live tensors: 524288 bytes, 1024 bytes"),
            std::string::npos)
      << text;
  drop(small);
  drop(large);
}

}  // namespace
}  // namespace neuron::lazy
