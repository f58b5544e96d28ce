// Memory of one simulated core: device addresses, capacity, and the host bytes behind
// them.
//
// Capacity is charged when a buffer is made, as on a real device. Host bytes are taken
// when a program first touches the buffer and given back with its last reference.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <tsl/robin_map.h>

#include "base/site.h"
#include "device/buffer.h"

namespace neuron::device {

/// One figure with its peak and running totals, in the manner of PyTorch's memory_stats.
struct MemoryFigure {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
};

struct MemoryStats {
  MemoryFigure requested_bytes;  // as asked for, of live storages
  MemoryFigure allocated_bytes;  // rounded to the size class, of live storages
  MemoryFigure active_bytes;     // allocated, or still used by recorded work
  MemoryFigure reserved_bytes;   // host bytes held, in use or cached
  MemoryFigure allocations;      // live storages
  MemoryFigure segments;         // blocks of host bytes held
  int64_t retries = 0, out_of_memory = 0;
};

/// One storage that is alive, or whose bytes recorded work still holds.
struct LiveBuffer {
  uint64_t address = 0;
  uint64_t nbytes = 0;    // asked for
  uint64_t charged = 0;   // rounded up
  bool is_alive = false;  // a tensor can see it
  Site site;              // that made it, if sites were recorded then
};

/// Running totals of one group of threads; only ever grow. The recording thread and the
/// worker write different cache lines, since sharing one would cost more than the rest of
/// an append.
struct alignas(64) MemoryTotals {
  std::atomic<int64_t> made_count{0}, made_bytes{0}, made_requested{0};
  std::atomic<int64_t> freed_count{0}, freed_bytes{0}, freed_requested{0};
  std::atomic<int64_t> released_bytes{0};  // no reference left
};

class Memory {
 public:
  /// `capacity` bytes for core `device_index`. Reserves address space, touches nothing.
  Memory(uint16_t device_index, uint64_t capacity);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// A buffer of `nbytes` (> 0) with one reference held by its storage, or nullptr when
  /// the capacity is exhausted. Any thread; 10 ns when a record can be reused.
  Buffer* allocate(uint64_t nbytes);

  /// The storage is gone. Gives up its reference; recorded work may still hold others.
  void release_storage(Buffer* buffer);

  static void retain(Buffer* buffer) {
    buffer->refs.fetch_add(1, std::memory_order_relaxed);
  }
  static void release(Buffer* buffer);

  /// Gives the buffer bytes if it has none (uninitialised), 64-byte aligned.
  static std::byte* materialize(Buffer* buffer);

  /// The buffer takes over `host` (of at least its size); `free_host(context)` returns
  /// it.
  static void adopt(Buffer* buffer, std::byte* host, uint64_t host_bytes,
                    FreeHostFn free_host, void* context);

  /// Gives back the buffer's bytes. Content becomes uninitialised.
  static void drop_bytes(Buffer* buffer);

  /// The live buffer that contains `address`, or nullptr. For aliases that carry no
  /// context.
  Buffer* find(uint64_t address);
  bool contains(uint64_t address) const {
    return address >= base_ && address < base_ + address_space_;
  }

  /// Returns cached host blocks to the operating system.
  void empty_cache();

  /// Notes the Python line of each allocation from here on, or no longer; off at first,
  /// when it costs a branch. Both forget what was noted.
  void record_sites(bool records);
  bool records_sites() const { return records_sites_.load(std::memory_order_relaxed); }
  /// All buffers in use, by address. Takes time in the number of records ever made.
  std::vector<LiveBuffer> live();

  uint64_t capacity() const { return capacity_; }
  uint64_t base() const { return base_; }
  MemoryStats stats() const;
  void reset_peak_stats();
  void reset_accumulated_stats();
  /// Charged bytes that live storages or recorded work hold.
  int64_t active_bytes() const;
  void count_retry() { retries_.fetch_add(1); }
  void count_out_of_memory() { out_of_memory_.fetch_add(1); }

  /// The size that a request is charged with: a size class below 16 MiB, exact above
  /// (in steps of 512 bytes), never less than 256.
  static uint64_t rounded(uint64_t nbytes);

  static constexpr int kClasses = 42;  // buffers of up to 2^41 bytes
  static constexpr int kMaxDevices = 64;

 private:
  static constexpr uint64_t kAddressSpace = uint64_t{1} << 41;
  static constexpr uint64_t kLeastAddressSpace = uint64_t{1} << 34;
  static constexpr uint64_t kMaxCachedBytes = uint64_t{4} << 30;

  Buffer* new_record(uint8_t size_class);
  void recycle(Buffer* buffer);
  void note_site(const Buffer* buffer);
  std::byte* take_block(uint64_t size);
  void return_block(std::byte* block, uint64_t size);

  const uint16_t device_index_;
  const uint64_t capacity_;
  uint64_t base_ = 0;
  uint64_t address_space_ = kAddressSpace;  // less where the process may not have so much
  std::atomic<uint64_t> next_address_;
  std::array<std::atomic<Buffer*>, kClasses> free_records_{};

  int64_t sum(std::atomic<int64_t> MemoryTotals::* total) const;
  void count(std::atomic<int64_t> MemoryTotals::* total, int64_t amount);
  void count_reserved(int64_t bytes, int64_t segments);

  const std::thread::id owner_;  // the thread that made this core: it records most
  MemoryTotals owned_, others_;
  alignas(64) std::atomic<int64_t> peak_bytes_{0}, peak_requested_{0}, peak_count_{0};
  std::atomic<int64_t> seen_released_{0};  // a lower bound of the released bytes
  alignas(64) std::atomic<int64_t> reserved_bytes_{0}, peak_reserved_{0}, segments_{0},
      peak_segments_{0}, retries_{0}, out_of_memory_{0};
  MemoryStats base_stats_;          // totals at the last reset of the accumulated figures
  mutable std::mutex stats_mutex_;  // guards base_stats_

  std::mutex records_mutex_;                // guards by_address_
  std::map<uint64_t, Buffer*> by_address_;  // every record ever made, by start address

  std::atomic<bool> records_sites_{false};
  std::mutex sites_mutex_;  // guards sites_
  tsl::robin_map<const Buffer*, Site> sites_;

  std::mutex blocks_mutex_;  // guards the two below
  tsl::robin_map<uint64_t, std::vector<std::byte*>> cached_blocks_;  // by size
  uint64_t cached_bytes_ = 0;
};

/// The size in bytes of a host block for a request of `nbytes`.
uint64_t block_size(uint64_t nbytes);

}  // namespace neuron::device
