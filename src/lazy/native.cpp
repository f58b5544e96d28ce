#include "lazy/native.h"

#include <vector>

#include "device/memory.h"
#include "fusion/kernels/pointwise_run.h"
#include "lazy/window.h"

namespace neuron::lazy {
namespace {

Status run_pointwise_step(const device::Executable&, device::Program& program,
                          const device::Step& step) {
  const auto& window = static_cast<const WindowProgram&>(program);
  const ir::Kernel& kernel = window.plan.kernels[step.kernel];
  const ir::PointwiseKernel& pointwise = window.plan.pointwise[kernel.pointwise];
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
  fusion::run_pointwise(pointwise.code, args);
  return {};
}

Status run_nothing(const device::Executable&, device::Program&, const device::Step&) {
  return {};
}

}  // namespace

const device::Executable& pointwise_executable() {
  static const device::Executable executable{&run_pointwise_step, nullptr};
  return executable;
}

const device::Executable& nothing_executable() {
  static const device::Executable executable{&run_nothing, nullptr};
  return executable;
}

}  // namespace neuron::lazy
