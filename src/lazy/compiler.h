// Compiler: turns kernels that run often into machine code, on a thread of its own.
//
// The policy is in points: how much a kernel ran, in units of work. A kernel is asked for
// once it has enough of them, so what matters is the time that was spent in it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cache/disk_cache.h"
#include "cache/kernel_cache.h"
#include "fusion/codegen/module.h"
#include "ir/plan.h"

namespace neuron::lazy {

/// What the compiler did, for reports.
struct CompileCounts {
  uint64_t compiles = 0;
  uint64_t failures = 0;
  uint64_t disk_hits = 0;
  uint64_t disk_misses = 0;
  uint64_t waiting = 0;  // asked for and not yet there
  uint64_t nanoseconds = 0;
};

struct CompileEvent;

/// One a process. Kernels are asked for by the threads that execute; no such thread, and
/// none that records, compiles or waits for code.
class Compiler {
 public:
  /// Loads the code generator; nullptr, with the reason, when there is none.
  using OpenFn = const fusion::CodegenTable* (*)(std::string& reason);

  /// `runs`: how many runs of kUnit work make a kernel worth compiling. `disk` may be
  /// null.
  Compiler(OpenFn open, int64_t runs, std::unique_ptr<cache::DiskCache> disk);
  ~Compiler() { shut_down(); }
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  /// Whether machine code could be faster for a run of the kernel; a few nanoseconds.
  static bool can_gain(const ir::PointwiseKernel& kernel);

  /// Counts a run of a kernel that has no code yet, and asks for code when it is worth
  /// it.
  void count_run(const std::shared_ptr<cache::KernelEntry>& entry, const cache::Key& key,
                 const ir::PointwiseKernel& kernel);

  CompileCounts counts() const;

  /// For tests: from now on every kernel fails to compile.
  void fail_on_purpose(bool fails) { fails_.store(fails, std::memory_order_relaxed); }

  /// Drops what waits and ends the thread, after the kernel that it compiles now.
  /// Idempotent; does nothing in a forked child.
  void shut_down();

  /// Work (elements times instructions) below which machine code is not faster: its calls
  /// take 0.1 us longer. Measured: 4 ops gain from 500 elements on, 16 ops from 64.
  static constexpr int64_t kLeastWork = 4096;
  /// Optimised code gains under 7 % and takes twice as long.
  static constexpr fusion::OptLevel kLevel = fusion::OptLevel::kNone;
  /// The work of one run that counts fully, about 10 us.
  static constexpr int64_t kUnit = 1 << 16;

 private:
  static constexpr size_t kMaxInstrs = 120;
  static constexpr size_t kMaxWaiting = 64;

  struct Job {
    std::shared_ptr<cache::KernelEntry> entry;
    std::string key;
    ir::PointwiseCode code;
  };

  void run();
  void compile(Job& job);
  std::vector<char> object_of(const Job& job, CompileEvent& event);

  const OpenFn open_;
  const uint64_t wanted_points_;
  const std::unique_ptr<cache::DiskCache> disk_;
  const fusion::CodegenTable* table_ = nullptr;  // of the thread
  std::string target_;                           // of the thread: head of keys on disk
  std::atomic<bool> is_off_{false};
  std::atomic<bool> fails_{false};

  mutable std::mutex mutex_;  // guards the rest but for the counters
  std::condition_variable work_arrived_;
  std::deque<Job> waiting_;
  bool stopping_ = false;
  int process_ = 0;  // that the thread belongs to
  std::thread thread_;

  std::atomic<uint64_t> compiles_{0}, failures_{0}, disk_hits_{0}, disk_misses_{0};
  std::atomic<uint64_t> unfinished_{0}, nanoseconds_{0};
};

}  // namespace neuron::lazy
