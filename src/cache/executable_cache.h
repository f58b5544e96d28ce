// ExecutableCache: from the key of a kernel to the code that runs it.
#pragma once

#include <atomic>
#include <cstdint>

#include <tsl/robin_map.h>

#include "cache/key.h"
#include "device/program.h"

namespace neuron::cache {

/// Used by the thread that executes programs, the figures by any. Executables are never
/// freed.
class ExecutableCache {
 public:
  /// The executable stored for `key`, or nullptr.
  const device::Executable* find(const Key& key);

  /// Stores `executable`, which must outlive the cache.
  void insert(const Key& key, const device::Executable* executable);

  /// For reports: visit(key) of every kernel; whether there is one of this key.
  template <class Visit>
  void for_each_key(const Visit& visit) const {
    for (const auto& entry : entries_) visit(entry.first);
  }
  bool has(const Key& key) const { return entries_.count(key) > 0; }

  uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }
  uint64_t misses() const { return misses_.load(std::memory_order_relaxed); }
  size_t size() const { return entries_.size(); }

 private:
  tsl::robin_map<Key, const device::Executable*, KeyHash> entries_;
  // One writer: no need of a locked instruction.
  static void count(std::atomic<uint64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  std::atomic<uint64_t> hits_{0};
  std::atomic<uint64_t> misses_{0};
};

}  // namespace neuron::cache
