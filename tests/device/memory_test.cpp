#include "device/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "base/site.h"
#include "device/next_index.h"

namespace neuron::device {
namespace {

constexpr uint64_t kCapacity = uint64_t{1} << 30;
constexpr uint64_t kMiB = uint64_t{1} << 20;

class MemoryTest : public testing::Test {
 protected:
  void TearDown() override { memory_.empty_cache(); }

  MemoryStats stats() const { return memory_.stats(); }

  Memory memory_{next_index(), kCapacity};
};

using MemoryDeathTest = MemoryTest;

TEST_F(MemoryTest, AddressesOfLiveBuffersDoNotOverlap) {
  std::vector<Buffer*> buffers;
  for (uint64_t nbytes : {1, 64, 65, 100, 4096, 4097, 1000000}) {
    for (int i = 0; i < 8; ++i) buffers.push_back(memory_.allocate(nbytes));
  }
  std::sort(buffers.begin(), buffers.end(),
            [](const Buffer* a, const Buffer* b) { return a->address < b->address; });
  for (size_t i = 0; i + 1 < buffers.size(); ++i) {
    EXPECT_LE(buffers[i]->address + buffers[i]->nbytes, buffers[i + 1]->address);
  }
  for (Buffer* buffer : buffers) memory_.release_storage(buffer);
}

TEST_F(MemoryTest, AddressesLieInTheRangeAndAreNotNull) {
  Buffer* buffer = memory_.allocate(100);
  EXPECT_TRUE(memory_.contains(buffer->address));
  EXPECT_NE(buffer->address, 0u);
  EXPECT_NE(buffer->address, memory_.base());
  EXPECT_FALSE(memory_.contains(reinterpret_cast<uint64_t>(buffer)));
  memory_.release_storage(buffer);
}

TEST_F(MemoryTest, TheAddressStaysWhileBytesComeAndGo) {
  Buffer* buffer = memory_.allocate(100);
  const uint64_t address = buffer->address;
  Memory::materialize(buffer);
  EXPECT_EQ(buffer->address, address);
  Memory::drop_bytes(buffer);
  EXPECT_EQ(buffer->address, address);
  memory_.release_storage(buffer);
}

TEST_F(MemoryDeathTest, AHostReadOfAnAddressFaults) {
  Buffer* buffer = memory_.allocate(100);
  Memory::materialize(buffer);
  const auto* bytes = reinterpret_cast<const volatile char*>(buffer->address);
  EXPECT_DEATH(static_cast<void>(*bytes), "");
  memory_.release_storage(buffer);
}

TEST_F(MemoryDeathTest, AHostWriteToAnAddressFaults) {
  Buffer* buffer = memory_.allocate(100);
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(buffer->address) = 1, "");
  memory_.release_storage(buffer);
}

TEST(MemorySizes, SmallRequestsAreChargedAtLeast256Bytes) {
  EXPECT_EQ(Memory::rounded(1), 256u);
  EXPECT_EQ(Memory::rounded(256), 256u);
  EXPECT_EQ(Memory::rounded(257), 512u);
}

TEST(MemorySizes, LargeRequestsAreChargedInStepsOf512Bytes) {
  EXPECT_EQ(Memory::rounded(16 * kMiB), 16 * kMiB);
  EXPECT_EQ(Memory::rounded(16 * kMiB + 1), 16 * kMiB + 512);
}

TEST(MemorySizes, RoundingNeverShrinksAndGrowsWithTheRequest) {
  uint64_t before = 0;
  for (uint64_t nbytes = 1; nbytes < 64 * kMiB; nbytes += 1 + nbytes / 7) {
    const uint64_t rounded = Memory::rounded(nbytes);
    EXPECT_GE(rounded, nbytes);
    EXPECT_GE(rounded, before);
    before = rounded;
  }
}

TEST(MemorySizes, AboveAPageAtMostAnEighthOfABlockIsLost) {
  for (uint64_t nbytes = 4096; nbytes < 64 * kMiB; nbytes += 1 + nbytes / 7) {
    EXPECT_GE(block_size(nbytes), nbytes);
    EXPECT_LE(block_size(nbytes), nbytes + nbytes / 8);
  }
}

TEST_F(MemoryTest, ExhaustedCapacityGivesNullAndRecovers) {
  Buffer* large = memory_.allocate(kCapacity - kMiB);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(memory_.allocate(2 * kMiB), nullptr);
  Buffer* small = memory_.allocate(kMiB);
  EXPECT_NE(small, nullptr);
  memory_.release_storage(large);
  Buffer* again = memory_.allocate(2 * kMiB);
  EXPECT_NE(again, nullptr);
  memory_.release_storage(small);
  memory_.release_storage(again);
}

TEST_F(MemoryTest, ARefusedRequestChangesNoCounter) {
  EXPECT_EQ(memory_.allocate(2 * kCapacity), nullptr);
  EXPECT_EQ(stats().active_bytes.current, 0);
  EXPECT_EQ(stats().active_bytes.peak, 0);
  EXPECT_EQ(stats().allocations.allocated, 0);
}

TEST_F(MemoryTest, CountersFollowCurrentAndPeak) {
  Buffer* one = memory_.allocate(1000);
  Buffer* two = memory_.allocate(300);
  EXPECT_EQ(stats().requested_bytes.current, 1300);
  EXPECT_EQ(stats().allocated_bytes.current, 1024 + 512);
  EXPECT_EQ(stats().allocations.current, 2);
  memory_.release_storage(one);
  EXPECT_EQ(stats().requested_bytes.current, 300);
  EXPECT_EQ(stats().requested_bytes.peak, 1300);
  EXPECT_EQ(stats().allocated_bytes.peak, 1024 + 512);
  EXPECT_EQ(stats().allocated_bytes.freed, 1024);
  memory_.release_storage(two);
  EXPECT_EQ(stats().allocated_bytes.current, 0);
  EXPECT_EQ(stats().active_bytes.current, 0);
}

TEST_F(MemoryTest, AResetPeakStartsFromTheCurrentValue) {
  Buffer* one = memory_.allocate(1000);
  Buffer* two = memory_.allocate(1000);
  memory_.release_storage(one);
  memory_.reset_peak_stats();
  EXPECT_EQ(stats().allocated_bytes.peak, 1024);
  memory_.release_storage(two);
}

TEST_F(MemoryTest, ResetTotalsStartFromZeroAndKeepTheCurrentValue) {
  Buffer* one = memory_.allocate(1000);
  memory_.reset_accumulated_stats();
  EXPECT_EQ(stats().allocated_bytes.allocated, 0);
  EXPECT_EQ(stats().allocated_bytes.current, 1024);
  memory_.release_storage(one);
  EXPECT_EQ(stats().allocated_bytes.freed, 1024);
}

TEST_F(MemoryTest, WhatAnotherThreadReleasesIsCounted) {
  Buffer* one = memory_.allocate(1000);
  std::thread([&] { memory_.release_storage(one); }).join();
  EXPECT_EQ(stats().allocated_bytes.current, 0);
  EXPECT_EQ(stats().allocations.freed, 1);
  EXPECT_EQ(memory_.active_bytes(), 0);
}

TEST_F(MemoryTest, ABufferThatWorkStillUsesIsActiveButNotAllocated) {
  Buffer* buffer = memory_.allocate(1000);
  Memory::retain(buffer);
  memory_.release_storage(buffer);
  EXPECT_FALSE(buffer->storage_alive);
  EXPECT_EQ(stats().allocated_bytes.current, 0);
  EXPECT_EQ(stats().active_bytes.current, 1024);
  Memory::release(buffer);
  EXPECT_EQ(stats().active_bytes.current, 0);
}

TEST_F(MemoryTest, ABufferHasNoBytesUntilItIsTouched) {
  Buffer* buffer = memory_.allocate(kMiB);
  EXPECT_EQ(buffer->host, nullptr);
  EXPECT_EQ(stats().reserved_bytes.current, 0);
  std::byte* bytes = Memory::materialize(buffer);
  ASSERT_NE(bytes, nullptr);
  EXPECT_EQ(reinterpret_cast<uint64_t>(bytes) % 64, 0u);
  EXPECT_EQ(Memory::materialize(buffer), bytes);
  std::memset(bytes, 1, kMiB);
  EXPECT_GE(stats().reserved_bytes.current, static_cast<int64_t>(kMiB));
  memory_.release_storage(buffer);
}

TEST_F(MemoryTest, ReturnedBlocksAreCachedUntilTheCacheIsEmptied) {
  Buffer* buffer = memory_.allocate(kMiB);
  std::byte* bytes = Memory::materialize(buffer);
  memory_.release_storage(buffer);
  EXPECT_EQ(stats().segments.current, 1);
  Buffer* next = memory_.allocate(kMiB);
  EXPECT_EQ(Memory::materialize(next), bytes);
  memory_.release_storage(next);
  memory_.empty_cache();
  EXPECT_EQ(stats().segments.current, 0);
  EXPECT_EQ(stats().reserved_bytes.current, 0);
}

void count_call(void* context) { ++*static_cast<int*>(context); }

TEST_F(MemoryTest, AdoptedBytesAreFreedOnceWithTheBuffer) {
  alignas(64) std::byte bytes[128];
  int freed = 0;
  Buffer* buffer = memory_.allocate(100);
  Memory::adopt(buffer, bytes, sizeof bytes, &count_call, &freed);
  EXPECT_EQ(Memory::materialize(buffer), bytes);
  EXPECT_EQ(stats().reserved_bytes.current, 128);
  EXPECT_EQ(freed, 0);
  memory_.release_storage(buffer);
  EXPECT_EQ(freed, 1);
  EXPECT_EQ(stats().reserved_bytes.current, 0);
}

TEST_F(MemoryTest, AdoptionFreesWhatWasThereBefore) {
  alignas(64) std::byte first[64], second[64];
  int freed_first = 0, freed_second = 0;
  Buffer* buffer = memory_.allocate(64);
  Memory::adopt(buffer, first, 64, &count_call, &freed_first);
  Memory::adopt(buffer, second, 64, &count_call, &freed_second);
  EXPECT_EQ(freed_first, 1);
  EXPECT_EQ(freed_second, 0);
  memory_.release_storage(buffer);
  EXPECT_EQ(freed_first, 1);
  EXPECT_EQ(freed_second, 1);
}

TEST_F(MemoryTest, OwnBytesComeBackAfterAdoptedOnesWereDropped) {
  alignas(64) std::byte bytes[64];
  int freed = 0;
  Buffer* buffer = memory_.allocate(64);
  Memory::adopt(buffer, bytes, 64, &count_call, &freed);
  Memory::drop_bytes(buffer);
  EXPECT_NE(Memory::materialize(buffer), bytes);
  memory_.release_storage(buffer);
  EXPECT_EQ(freed, 1);
}

TEST_F(MemoryTest, AnAddressInsideFindsItsBuffer) {
  Buffer* one = memory_.allocate(1000);
  Buffer* two = memory_.allocate(1000);
  EXPECT_EQ(memory_.find(one->address), one);
  EXPECT_EQ(memory_.find(one->address + 999), one);
  EXPECT_EQ(memory_.find(two->address + 1), two);
  memory_.release_storage(one);
  memory_.release_storage(two);
}

TEST_F(MemoryTest, AnAddressOfNoLiveBufferFindsNothing) {
  Buffer* buffer = memory_.allocate(1000);
  const uint64_t address = buffer->address;
  EXPECT_EQ(memory_.find(memory_.base()), nullptr);
  EXPECT_EQ(memory_.find(address + kMiB), nullptr);
  memory_.release_storage(buffer);
  EXPECT_EQ(memory_.find(address), nullptr);
}

TEST_F(MemoryTest, AReusedRecordRemembersNothing) {
  Buffer* first = memory_.allocate(1000);
  Memory::materialize(first);
  first->last_use = 7;
  first->last_write = 7;
  first->window = 7;
  first->error = std::make_shared<Error>();
  memory_.release_storage(first);
  Buffer* second = memory_.allocate(600);
  ASSERT_EQ(second, first);
  EXPECT_EQ(second->nbytes, 600u);
  EXPECT_EQ(second->host, nullptr);
  EXPECT_EQ(second->last_use, 0u);
  EXPECT_EQ(second->last_write, 0u);
  EXPECT_EQ(second->window, 0u);
  EXPECT_EQ(second->error, nullptr);
  EXPECT_TRUE(second->storage_alive);
  memory_.release_storage(second);
}

TEST_F(MemoryTest, RecordsThatAnotherThreadFreedAreUsedAgain) {
  constexpr int kCount = 200;  // more than a thread keeps for itself
  std::vector<Buffer*> buffers;
  for (int i = 0; i < kCount; ++i) buffers.push_back(memory_.allocate(100));
  const auto [low, high] = std::minmax_element(
      buffers.begin(), buffers.end(),
      [](const Buffer* a, const Buffer* b) { return a->address < b->address; });
  const uint64_t first = (*low)->address, last = (*high)->address;
  std::thread([&] {
    for (Buffer* buffer : buffers) memory_.release_storage(buffer);
  }).join();
  Buffer* again = memory_.allocate(100);
  EXPECT_GE(again->address, first);
  EXPECT_LE(again->address, last);
  memory_.release_storage(again);
}

TEST_F(MemoryTest, LiveBuffersAreListedByAddress) {
  Buffer* first = memory_.allocate(100);
  Buffer* second = memory_.allocate(5000);
  Buffer* gone = memory_.allocate(7000);
  memory_.release_storage(gone);
  Memory::retain(second);  // as recorded work does
  memory_.release_storage(second);
  const auto live = memory_.live();
  ASSERT_EQ(live.size(), 2u);
  EXPECT_LT(live[0].address, live[1].address);
  for (const LiveBuffer& entry : live) {
    const Buffer* buffer = entry.address == first->address ? first : second;
    EXPECT_EQ(entry.address, buffer->address);
    EXPECT_EQ(entry.nbytes, buffer->nbytes);
    EXPECT_EQ(entry.charged, Memory::rounded(buffer->nbytes));
    EXPECT_EQ(entry.is_alive, buffer == first);
  }
  Memory::release(second);
  memory_.release_storage(first);
  EXPECT_TRUE(memory_.live().empty());
}

class SitesTest : public MemoryTest {
 protected:
  void SetUp() override {
    site_hooks().capture = [] { return Site{&line_, ++line_, 0}; };
  }
  void TearDown() override {
    site_hooks() = {};
    MemoryTest::TearDown();
  }
  static inline int line_ = 0;
};

TEST_F(SitesTest, TheLineOfAnAllocationIsNotedWhenAskedFor) {
  Buffer* before = memory_.allocate(100);
  EXPECT_EQ(memory_.live()[0].site.code, nullptr);
  memory_.record_sites(true);
  const int line = line_;
  Buffer* buffer = memory_.allocate(5000);
  for (const LiveBuffer& entry : memory_.live()) {
    const bool is_noted = entry.address == buffer->address;
    EXPECT_EQ(entry.site.code != nullptr, is_noted);
    if (is_noted) EXPECT_EQ(entry.site.instruction, line + 1);
  }
  memory_.release_storage(buffer);
  memory_.record_sites(false);
  buffer = memory_.allocate(5000);  // the same record
  for (const LiveBuffer& entry : memory_.live()) EXPECT_EQ(entry.site.code, nullptr);
  memory_.release_storage(buffer);
  memory_.release_storage(before);
}

TEST_F(MemoryTest, ThreadsAllocateAndReleaseWithoutMeetingEachOther) {
  const auto work = [this](unsigned char mine) {
    for (int round = 0; round < 50; ++round) {
      std::vector<Buffer*> buffers;
      for (uint64_t i = 1; i <= 40; ++i) {
        Buffer* buffer = memory_.allocate(i * 16);
        std::memset(Memory::materialize(buffer), mine, buffer->nbytes);
        buffers.push_back(buffer);
      }
      for (Buffer* buffer : buffers) {
        const auto* bytes = reinterpret_cast<const unsigned char*>(buffer->host);
        EXPECT_EQ(bytes[0], mine);
        EXPECT_EQ(bytes[buffer->nbytes - 1], mine);
        EXPECT_EQ(memory_.find(buffer->address), buffer);
        memory_.release_storage(buffer);
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned char id = 1; id <= 4; ++id) threads.emplace_back(work, id);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stats().active_bytes.current, 0);
  EXPECT_EQ(stats().allocations.current, 0);
  EXPECT_EQ(stats().allocations.allocated, 4 * 50 * 40);
}

}  // namespace
}  // namespace neuron::device
