// Core: one simulated NeuronCore as the recorder sees it: memory, streams, windows,
// queue.
//
// Locks. `mutex_` guards the streams, their open windows, the window fields of buffers
// and the counters. It is held for the time of an append or a flush, never over a wait
// and never while taking Python's GIL: sites are captured before it is taken.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/site.h"
#include "base/status.h"
#include "device/memory.h"
#include "device/queue.h"
#include "ir/graph.h"
#include "lazy/flush.h"
#include "lazy/stats.h"
#include "lazy/window.h"

namespace neuron::device {
struct LogicalCore;
}

namespace neuron::lazy {

/// One tensor operand as the caller sees it; sizes and strides are copied.
struct OperandSpec {
  device::Buffer* buffer = nullptr;
  int64_t offset = 0;  // bytes
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;  // in elements; nullptr when contiguous
  uint8_t rank = 0;
  ir::DType dtype = ir::DType::kFloat32;
  uint8_t flags = 0;  // ir::Operand::Flags
};

/// One op to record.
struct OpSpec {
  ir::Op op = ir::Op::kHost;
  std::span<const OperandSpec> operands;
  ir::Number numbers[2] = {{0.0}, {0.0}};
  uint8_t number_kinds = 0;
  uint8_t number_slots = 0;  // of a native pointwise op; see ir::Node
  ir::Code code = ir::Code::kNone;
  ir::DType dtype = ir::DType::kFloat32;
  uint16_t variant = 0;
  std::unique_ptr<ir::Call> call;
  Site site;
};

/// A point in a stream that can be waited for; sequence 0: nothing was recorded yet.
using StreamPoint = device::Mark;

class Core {
 public:
  static constexpr uint32_t kNumStreams = 33;  // the default stream and a pool of 32

  Core(uint16_t index, uint64_t hbm_bytes, FindExecutable find_executable);
  ~Core() { shut_down(); }

  uint16_t index() const { return index_; }
  device::Memory& memory() { return memory_; }
  device::Queue& queue() { return queue_; }
  /// Called before the first op; the compiler must outlive the core.
  void set_compiler(Compiler* compiler) { road_.compiler = compiler; }
  const cache::KernelCache& kernels() const { return road_.kernels; }
  /// Which chip the clock is of; called before the first op.
  void set_logical_core(const device::LogicalCore& core);
  /// From here on the clock runs, for windows that are submitted later. Until somebody
  /// asks for the time it stands still and costs nothing.
  void start_clock();
  /// Dry runs; see Queue::set_dry. What is pending runs as it was recorded.
  void set_dry(bool is_dry);
  /// Tells the clock that the host copied `bytes` into the buffer, when what was
  /// submitted and uses it had run: at once, whether that is so here or the upload is
  /// recorded.
  void count_upload(const device::Buffer& buffer, uint64_t bytes);
  /// The same for a copy in the order of `stream`, which the host does not wait for.
  void count_late_upload(const device::Buffer& buffer, uint64_t bytes, uint32_t stream);
  /// The host copied `bytes` that it has waited for.
  void count_download(uint64_t bytes);
  /// The clock after all that was recorded; waits for it.
  device::ClockCounts clock();
  const cache::ExecutableCache& executables() const { return road_.executables; }

  /// A buffer of `nbytes`; runs what is pending and retries when memory is short. Fails
  /// with kOutOfMemory, naming requested, used and free bytes.
  Status allocate(uint64_t nbytes, device::Buffer*& buffer);

  /// Appends an op to the stream's window. Under 0.05 us for three operands.
  void record(uint32_t stream, OpSpec op);

  /// Submits the stream's window, if there is anything in it.
  void flush(uint32_t stream, WindowEnd end);
  void flush_all(WindowEnd end);

  /// Waits until the last recorded write (or use) of `buffer` has run. Returns the stream
  /// that wrote it, whose stored error the reader has to take.
  uint32_t wait_for_write(device::Buffer& buffer, WindowEnd end);
  void wait_for_use(device::Buffer& buffer, WindowEnd end);
  /// True when no recorded work names the buffer any more.
  bool is_idle(device::Buffer& buffer);
  /// True when nothing that writes the buffer is pending.
  bool is_written(device::Buffer& buffer);

  /// Waits for all work of a stream or of all streams; the earliest stored error, or
  /// nullptr.
  ErrorPtr synchronize_stream(uint32_t stream);
  ErrorPtr synchronize();
  /// The earliest stored error of `stream`, which is then forgotten.
  ErrorPtr take_error(uint32_t stream);

  /// The point behind everything recorded so far on `stream`.
  StreamPoint mark(uint32_t stream);
  void wait(const StreamPoint& point, WindowEnd end);
  bool has_reached(const StreamPoint& point, WindowEnd end);
  /// Later work of `stream` runs after `point`.
  void order_after(uint32_t stream, const StreamPoint& point);

  uint32_t next_pool_stream() {
    return 1 + next_stream_.fetch_add(1) % (kNumStreams - 1);
  }

  /// A copy of the counters.
  Stats stats();
  void reset_stats();

  void shut_down() { queue_.shut_down(); }

 private:
  void log_wait_for_use(const device::Buffer& buffer);
  uint32_t buffer_index(Stream& stream, device::Buffer& buffer);
  /// `waits`: the caller is going to wait for the window.
  void flush_locked(Stream& stream, WindowEnd end, const Site& site, bool waits = false);

  const uint16_t index_;
  device::Memory memory_;
  device::Queue queue_;
  Road road_;
  ProgramPool pool_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Stream>> streams_;
  Stats stats_;
  bool is_timed_ = false;     // the clock runs
  device::HostLog host_log_;  // since the last submission
  std::atomic<uint32_t> next_stream_{0};
};

/// Modes of the process, switchable at any time.
struct Modes {
  std::atomic<bool> adaptive{false};
  std::atomic<bool> blocking{false};
};
Modes& modes();

}  // namespace neuron::lazy
