// Window: the ops of one stream that were recorded and not yet submitted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/kernel_cache.h"
#include "device/program.h"
#include "device/queue.h"
#include "ir/graph.h"
#include "ir/plan.h"

namespace neuron::lazy {

class ProgramPool;
struct Road;

enum class WindowEnd : uint8_t {
#define NEURON_WINDOW_END(end, name, help) end,
#include "lazy/window_end.def"
#undef NEURON_WINDOW_END
  kCount
};

const char* window_end_name(WindowEnd end);
const char* window_end_help(WindowEnd end);

/// A window's graph on its way through the road: recorded, planned, bound, executed.
class WindowProgram final : public device::Program {
 public:
  WindowProgram(ProgramPool& pool, Road& road) : pool_(pool), road_(road) {}

  ir::Graph graph;
  ir::Plan plan;
  /// Per buffer, taken when the window closes: whether a tensor could see it then. Only
  /// such a buffer can be used by a later window. Taken later it would depend on time.
  std::vector<uint8_t> is_visible;
  /// Per pointwise kernel of the plan: where its machine code is or will be; nullptr
  /// where there will be none.
  std::vector<const cache::KernelEntry*> kernel_entries;

  /// Ends recording: notes what is visible.
  void close();
  void prepare() override;
  std::string describe(const device::Step& step) const override;
  void retire() override;

 private:
  ProgramPool& pool_;
  Road& road_;
};

/// Keeps the memory of programs that ran. Thread-safe.
class ProgramPool {
 public:
  explicit ProgramPool(Road& road) : road_(road) {}
  std::unique_ptr<WindowProgram, device::RetireProgram> take();
  void put(WindowProgram* program);

 private:
  static constexpr size_t kKeep = 64;
  Road& road_;
  std::mutex mutex_;
  std::vector<WindowProgram*> free_;
};

using WindowProgramPtr = std::unique_ptr<WindowProgram, device::RetireProgram>;

/// One stream: its open window and what has become of the earlier ones.
struct Stream {
  uint32_t id = 0;
  int priority = 0;
  uint64_t window = 0;       // process-wide number of the open window; see Buffer::window
  uint64_t sequence = 1;     // number of the open window within the stream
  uint32_t limit = 0;        // ops it may hold; grows while nothing is read
  WindowProgramPtr program;  // the recorded ops
  std::vector<device::Mark> after;  // points that the open window runs behind
  device::StreamState state;

  bool is_empty() const { return program == nullptr || program->graph.nodes.empty(); }
};

}  // namespace neuron::lazy
