// KernelCache: from the key of a fused kernel to its machine code, once there is any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <tsl/robin_map.h>

#include "cache/key.h"

namespace neuron::cache {

/// What is known of one kernel. The thread that executes and the thread that compiles
/// share it.
struct KernelEntry {
  // Of the executing thread.
  uint64_t points = 0;     // how much it ran; meaning known to the compiler
  uint64_t wanted_at = 0;  // the points at which to compile; 0: not chosen yet
  bool is_asked = false;   // was handed over for compilation
  bool is_recent = false;  // was found since the last trim
  /// The machine code, an object known to its maker; set once, by the compiling thread,
  /// after `owner`, which keeps it alive.
  std::atomic<const void*> code{nullptr};
  std::shared_ptr<const void> owner;
};

/// Used by the thread that executes programs; the figures by any.
class KernelCache {
 public:
  static constexpr size_t kMaxEntries = 4096;

  /// The entry of `key`, a new one if there was none; about 30 ns. It stays where it is
  /// until the next `trim`, and as long as somebody shares it.
  const std::shared_ptr<KernelEntry>& find_or_add(const Key& key);

  /// Forgets kernels that were not found since the last time, if there are too many.
  void trim();

  /// For reports: visit(key) of every kernel; whether there is one of this key.
  template <class Visit>
  void for_each_key(const Visit& visit) const {
    for (const auto& entry : entries_) visit(entry.first);
  }
  bool has(const Key& key) const { return entries_.count(key) > 0; }

  size_t size() const { return entries_.size(); }
  uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }
  uint64_t misses() const { return misses_.load(std::memory_order_relaxed); }

 private:
  // One writer: no need of a locked instruction.
  static void count(std::atomic<uint64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  tsl::robin_map<Key, std::shared_ptr<KernelEntry>, KeyHash> entries_;
  std::atomic<uint64_t> hits_{0};
  std::atomic<uint64_t> misses_{0};
};

}  // namespace neuron::cache
