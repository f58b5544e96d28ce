// What the stages of the road write into the journal. Each function is called only while
// somebody reads its topic, so it may be slow; none takes a lock but the journal's.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/site.h"
#include "cache/disk_cache.h"
#include "cache/executable_cache.h"
#include "cache/kernel_cache.h"
#include "ir/graph.h"
#include "lazy/journal.h"
#include "lazy/window.h"

namespace neuron::lazy {

/// The core that a closed window belongs to.
int device_of(const WindowProgram& program);

/// kWindows, by the thread that ends the window; `site` is the line that ended it.
void observe_window_end(const WindowProgram& program, WindowEnd end, const Site& site);

/// kFusion and kCapture, by the executing thread, when the window is planned.
void observe_plan(const WindowProgram& program);

/// kCache, by the executing thread, before the look-up.
void observe_lookup(const cache::KernelCache& kernels, const cache::Key& key);
void observe_lookup(const cache::ExecutableCache& executables, const cache::Key& key);

/// kCache, by the compiling thread, of a look-up on disk. `key` is the whole key; its
/// first line names what the code depends on besides itself.
void observe_disk_lookup(const cache::DiskCache& disk, const std::string& key,
                         bool is_hit);

/// kCompile, by the compiling thread. An empty `failure`: machine code is there.
struct CompileEvent {
  size_t num_instrs = 0;
  size_t num_bytes = 0;
  double milliseconds = 0;
  bool is_from_disk = false;
  int level = 0;
  std::string failure;
};
void observe_compile(const CompileEvent& event);

/// kFallback, by the executing thread, after a call of ATen.
void observe_call(const WindowProgram& program, const ir::Node& node,
                  std::chrono::nanoseconds time);
/// The calling thread's call runs in so many blocks; told to `observe_call`.
void note_blocks(int64_t count);
/// The same of an op that ran when it was called, by the calling thread.
void observe_call_at_once(const std::string& op, bool is_fallback, const Site& site,
                          std::chrono::nanoseconds time);

}  // namespace neuron::lazy
