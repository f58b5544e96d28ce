// The whole machine on one screen. Hops of a recorded op: dispatch -> Core::record ->
// (window ends) -> Queue::submit; of its execution: Queue::run -> prepare_program ->
// Executable::run.
#include "lazy/flush.h"

#include "lazy/fault.h"
#include "lazy/native.h"
#include "lazy/native_rows.h"
#include "lazy/observe.h"
#include "lazy/work.h"

namespace neuron::lazy {
namespace {

// key -> cache -> compile: the code for a kernel.
const device::Executable* executable_for(const ir::Graph& graph, const ir::Plan& plan,
                                         const ir::Kernel& kernel, Road& road) {
  if (kernel.is_pointwise()) return &pointwise_executable();
  const ir::Node& node = graph.nodes[plan.nodes_of(kernel)[0]];
  if (node.variant != 0) return &rows_executable();
  static thread_local cache::Key key;
  cache::make_key(graph, node, key);
  if (journal_wants(Topic::kCache)) observe_lookup(road.executables, key);
  const device::Executable* executable = road.executables.find(key);
  if (executable == nullptr) {
    executable = road.find_executable(graph, node);
    road.executables.insert(key, executable);
  }
  return executable;
}

// key -> cache -> compile: where the machine code of a fused kernel is or will be.
const cache::KernelEntry* entry_for(const ir::PointwiseKernel& kernel, Road& road) {
  if (road.compiler == nullptr || !Compiler::can_gain(kernel)) return nullptr;
  static thread_local cache::Key key;
  cache::make_key(kernel.code, key);
  if (journal_wants(Topic::kCache)) observe_lookup(road.kernels, key);
  const auto& entry = road.kernels.find_or_add(key);
  if (!entry->is_asked) road.compiler->count_run(entry, key, kernel);
  return entry.get();
}

void find_entries(WindowProgram& program, Road& road) {
  const ir::Plan& plan = program.plan;
  road.kernels.trim();
  program.kernel_entries.clear();
  for (uint32_t i = 0; i < plan.num_pointwise; ++i) {
    program.kernel_entries.push_back(entry_for(plan.pointwise[i], road));
  }
}

// bind: the kernel becomes a step with its accesses.
void bind_kernel(WindowProgram& program, const ir::Kernel& kernel,
                 const device::Executable* executable) {
  const ir::Plan& plan = program.plan;
  device::Step step;
  step.executable = executable;
  step.node = plan.nodes_of(kernel)[0];
  step.kernel = static_cast<uint32_t>(&kernel - plan.kernels.data());
  step.first_access = static_cast<uint32_t>(program.accesses.size());
  step.num_accesses = kernel.num_accesses;
  for (const ir::KernelAccess& access : plan.accesses_of(kernel)) {
    program.accesses.push_back({access.buffer, access.reads, access.writes});
  }
  program.steps.push_back(step);
}

// A buffer is let go by the last kernel that touches it; one that no kernel touches, by
// the last of all.
void bind_releases(WindowProgram& program) {
  auto& last_kernel = program.plan.last_kernel;
  if (program.steps.empty()) {
    device::Step step;
    step.executable = &nothing_executable();
    program.steps.push_back(step);
  }
  const auto last = static_cast<uint32_t>(program.steps.size() - 1);
  for (uint32_t& kernel : last_kernel) {
    if (kernel == ir::Plan::kUntouched) kernel = last;
  }
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
  if (has_fault()) break_nodes(program);
  program.is_visible.resize(program.buffers.size(), 1);
  road.planner.plan(program.graph, program.is_visible, program.plan);
  find_entries(program, road);
  for (const ir::Kernel& kernel : program.plan.kernels) {
    bind_kernel(program, kernel,
                executable_for(program.graph, program.plan, kernel, road));
  }
  bind_releases(program);
  if (program.is_timed) fill_work(program, road.sbuf_bytes);
  if (has_fault()) break_steps(program);
  if (journal_wants_any()) observe_plan(program);
}

}  // namespace neuron::lazy
