// Program: what the hardware queue executes. Knows buffers and executables, never ops.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/site.h"
#include "base/status.h"
#include "device/buffer.h"
#include "device/clock.h"
#include "device/work.h"

namespace neuron::device {

class Program;
struct Step;

/// How a step touches one buffer of the program's table.
struct Access {
  uint32_t buffer = 0;
  bool reads = false;
  bool writes = false;
};

/// A part of a step with its own accesses.
struct Part {
  std::vector<Access> accesses;
  std::function<Status()> run;
};

/// Code for a step. `run` is called on the executing thread with all buffers that the
/// step reads or writes free of errors. It gives bytes to what it writes, and reports
/// failure by its status; it must not throw.
struct Executable {
  using RunFn = Status (*)(const Executable&, Program&, const Step&);
  RunFn run = nullptr;
  /// Free for the maker of the executable.
  const void* context = nullptr;
  /// The step as parts that can fail one by one, for a step that does the work of several
  /// ops: used when something it reads does not exist, so that only what depends on that
  /// is skipped. nullptr: the step is one whole.
  using SplitFn = std::vector<Part> (*)(Program&, const Step&);
  SplitFn split = nullptr;
};

/// One executable with its slice of the program's accesses. After the step, the buffers
/// in its slice of `releases` have no further reader in this program.
struct Step {
  const Executable* executable = nullptr;
  uint32_t node = 0;    // meaning known to the maker: the first recorded node,
  uint32_t kernel = 0;  // and the planned kernel
  uint32_t first_access = 0, num_accesses = 0;
  uint32_t first_release = 0, num_releases = 0;
  Work work;  // what it does on the simulated chip
};

/// Everything recorded into one window, ready to run. Holds one reference on each buffer.
class Program {
 public:
  virtual ~Program() = default;

  uint32_t stream = 0;
  uint64_t sequence = 0;  // position in its stream, from 1
  uint32_t weight = 1;    // how much it adds to the queue's backlog
  std::vector<Buffer*> buffers;
  std::vector<Step> steps;
  std::vector<Access> accesses;
  std::vector<uint32_t> releases;

  // For the clock.
  bool is_timed = false;    // else the clock does not see it
  uint32_t num_ops = 0;     // that the host recorded into it, but for marks and uploads
  bool is_window = false;   // submitted as one compiled program, else op by op
  uint64_t signature = 0;   // equal for programs that need not be loaded again
  HostLog host_log;         // what the host did before it submitted this
  std::vector<Mark> after;  // points of other streams that it starts behind

  /// Called once on the executing thread before the first step; may fill in the steps.
  virtual void prepare() {}

  /// Text about a step for an error message: op, shapes, dtypes, Python line.
  virtual std::string describe(const Step& step) const = 0;

  /// Ends the program's life after it ran: deletes it, or keeps its memory for the next
  /// one.
  virtual void retire() { delete this; }
};

struct RetireProgram {
  void operator()(Program* program) const { program->retire(); }
};
using ProgramPtr = std::unique_ptr<Program, RetireProgram>;

}  // namespace neuron::device
