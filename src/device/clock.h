// What the clock is told about the host, and what it tells.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "device/work.h"

namespace neuron::device {

/// A point in a stream: behind its program `sequence`.
struct Mark {
  uint32_t stream = 0;
  uint64_t sequence = 0;  // 0: before the first
};

/// What the host did since its last submission, in order. Filled where programs are
/// submitted, under the recorder's lock; stays short however often the host does the
/// same.
class HostLog {
 public:
  enum class Kind : uint8_t { kWait, kCopyIn, kCopyOut, kCopyLater };
  struct Entry {
    Kind kind;
    uint32_t stream;  // of kWait and kCopyLater
    uint64_t amount;  // sequence, or bytes
    uint64_t count;   // of copies
  };

  /// The host has waited for `mark`.
  void wait(const Mark& mark);
  /// The host has copied `bytes` and was kept for it.
  void copy(uint64_t bytes, bool to_device);
  /// The host has asked for a copy to the device that runs in the order of `stream`.
  void copy_later(uint32_t stream, uint64_t bytes);

  const std::vector<Entry>& entries() const { return entries_; }
  bool is_empty() const { return entries_.empty(); }
  void clear() { entries_.clear(); }
  void swap(HostLog& other) { entries_.swap(other.entries_); }

 private:
  void add_copy(Kind kind, uint32_t stream, uint64_t bytes);
  std::vector<Entry> entries_;
};

/// What has happened on the clock so far; times in ns.
struct ClockCounts {
  double now = 0;    // when the host and all that was submitted are done
  double host = 0;   // that the host spent on submissions and copies
  double queue = 0;  // that the compute queue was busy, launches included
  double dma = 0;    // that copies between HBM and SBUF took
  std::array<double, kNumEngines> engines = {};
  uint64_t ops = 0, launches = 0, swaps = 0, host_ops = 0;
  uint64_t bytes_read = 0, bytes_written = 0;       // of HBM
  uint64_t bytes_to_device = 0, bytes_to_host = 0;  // over the link
};

}  // namespace neuron::device
