// Switches that make the engine do less at a time, to find out by halves what is wrong.
#pragma once

#include <atomic>
#include <cstdint>

namespace neuron {

/// 0 leaves the engine free. Read once a window, written by any thread; what is recorded
/// already keeps the older value.
struct BisectSwitches {
  std::atomic<int64_t> flush_every{0};    // a window ends after so many ops
  std::atomic<int64_t> max_fused_ops{0};  // so many ops may share a kernel
};

/// The switches of the process; at the start they are what the environment says.
BisectSwitches& bisect_switches();

}  // namespace neuron
