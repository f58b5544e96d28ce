// The whole machine on one screen. Hops of a recorded op: dispatch -> Core::record ->
// (window ends) -> Queue::submit; of its execution: Queue::run -> prepare_program ->
// Executable::run.
#include "lazy/flush.h"

#include "fusion/pipeline.h"

namespace neuron::lazy {
namespace {

// key -> cache -> compile: the code for one kernel.
const device::Executable* executable_for(const ir::Graph& graph, const ir::Kernel& kernel,
                                         Road& road) {
  static thread_local cache::Key key;
  cache::make_key(graph, kernel, key);
  const device::Executable* executable = road.executables.find(key);
  if (executable == nullptr) {
    executable = road.find_executable(graph, kernel);
    road.executables.insert(key, executable);
  }
  return executable;
}

// bind: the kernel becomes a step with its accesses.
void bind_kernel(WindowProgram& program, const ir::Kernel& kernel,
                 const device::Executable* executable) {
  device::Step step;
  step.executable = executable;
  step.node = kernel.first_node;
  step.first_access = static_cast<uint32_t>(program.accesses.size());
  for (uint32_t i = 0; i < kernel.num_nodes; ++i) {
    for (const ir::Operand& operand :
         program.graph.operands_of(program.graph.nodes[kernel.first_node + i])) {
      program.accesses.push_back({operand.buffer, operand.reads(), operand.writes()});
    }
  }
  step.num_accesses = static_cast<uint32_t>(program.accesses.size()) - step.first_access;
  program.steps.push_back(step);
}

// A buffer is let go by the last kernel that touches it.
void bind_releases(WindowProgram& program) {
  const auto& last_kernel = program.plan.last_kernel;
  for (const uint32_t kernel : last_kernel) ++program.steps[kernel].num_releases;
  uint32_t next = 0;
  for (device::Step& step : program.steps) {
    step.first_release = next;
    next += step.num_releases;
    step.num_releases = 0;
  }
  program.releases.resize(next);
  for (uint32_t buffer = 0; buffer < last_kernel.size(); ++buffer) {
    device::Step& step = program.steps[last_kernel[buffer]];
    program.releases[step.first_release + step.num_releases++] = buffer;
  }
}

}  // namespace

void prepare_program(WindowProgram& program, Road& road) {
  fusion::make_plan(program.graph, program.plan);
  for (const ir::Kernel& kernel : program.plan.kernels) {
    bind_kernel(program, kernel, executable_for(program.graph, kernel, road));
  }
  bind_releases(program);
}

}  // namespace neuron::lazy
