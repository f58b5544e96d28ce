#include "lazy/native.h"

#include <memory>
#include <vector>

#include "device/memory.h"
#include "fusion/codegen/run_compiled.h"
#include "fusion/kernels/pointwise_run.h"
#include "fusion/planner.h"
#include "lazy/window.h"

namespace neuron::lazy {
namespace {

// `code`: a fusion::CompiledPointwise, nullptr while there is none.
Status run_pointwise_kernel(const device::Program& program,
                            const ir::PointwiseKernel& pointwise, const void* code) {
  static thread_local std::vector<ir::TensorArg> tensors;
  tensors.clear();
  for (const ir::TensorRef& ref : pointwise.tensors) {
    std::byte* bytes = device::Memory::materialize(program.buffers[ref.buffer]);
    tensors.push_back({bytes + ref.offset, ref.strides});
  }
  ir::PointwiseArgs args;
  args.numel = pointwise.numel;
  args.rank = pointwise.rank;
  args.sizes = pointwise.sizes;
  args.tensors = tensors.data();
  args.reals = pointwise.reals.data();
  args.integers = pointwise.integers.data();
  if (code == nullptr) {
    fusion::run_pointwise(pointwise.code, args);
  } else {
    fusion::run_compiled(*static_cast<const fusion::CompiledPointwise*>(code),
                         pointwise.code, args);
  }
  return {};
}

Status run_pointwise_step(const device::Executable&, device::Program& program,
                          const device::Step& step) {
  const auto& window = static_cast<const WindowProgram&>(program);
  const ir::Kernel& kernel = window.plan.kernels[step.kernel];
  const cache::KernelEntry* entry = window.kernel_entries[kernel.pointwise];
  const void* code =
      entry == nullptr ? nullptr : entry->code.load(std::memory_order_acquire);
  return run_pointwise_kernel(program, window.plan.pointwise[kernel.pointwise], code);
}

// One node of a window with a plan of its own.
struct SingleNode {
  ir::Graph graph;
  ir::Plan plan;
};

std::vector<device::Part> split_pointwise_step(device::Program& program,
                                               const device::Step& step) {
  const auto& window = static_cast<const WindowProgram&>(program);
  fusion::Planner planner;
  std::vector<device::Part> parts;
  for (const uint32_t node : window.plan.nodes_of(window.plan.kernels[step.kernel])) {
    auto single = std::make_shared<SingleNode>();
    single->graph.nodes = {window.graph.nodes[node]};
    single->graph.operands = window.graph.operands;
    single->graph.dims = window.graph.dims;
    single->graph.num_buffers = window.graph.num_buffers;
    const std::vector<uint8_t> all_visible(window.graph.num_buffers, 1);
    planner.plan(single->graph, all_visible, single->plan);
    device::Part& part = parts.emplace_back();
    for (const ir::KernelAccess& access : single->plan.accesses) {
      part.accesses.push_back({access.buffer, access.reads, access.writes});
    }
    part.run = [&program, single] {
      return run_pointwise_kernel(program, single->plan.pointwise[0], nullptr);
    };
  }
  return parts;
}

Status run_nothing(const device::Executable&, device::Program&, const device::Step&) {
  return {};
}

}  // namespace

const device::Executable& pointwise_executable() {
  static const device::Executable executable{&run_pointwise_step, nullptr,
                                             &split_pointwise_step};
  return executable;
}

const device::Executable& nothing_executable() {
  static const device::Executable executable{&run_nothing, nullptr};
  return executable;
}

}  // namespace neuron::lazy
