// ExecutableCache: from the key of a kernel to the code that runs it.
#pragma once

#include <cstdint>

#include <tsl/robin_map.h>

#include "cache/key.h"
#include "device/program.h"

namespace neuron::cache {

/// Not thread-safe: used by the thread that executes programs. Executables are never
/// freed.
class ExecutableCache {
 public:
  /// The executable stored for `key`, or nullptr.
  const device::Executable* find(const Key& key);

  /// Stores `executable`, which must outlive the cache.
  void insert(const Key& key, const device::Executable* executable);

  uint64_t hits() const { return hits_; }
  uint64_t misses() const { return misses_; }
  size_t size() const { return entries_.size(); }

 private:
  tsl::robin_map<Key, const device::Executable*, KeyHash> entries_;
  uint64_t hits_ = 0;
  uint64_t misses_ = 0;
};

}  // namespace neuron::cache
