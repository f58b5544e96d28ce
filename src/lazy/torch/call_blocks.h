// The blocks of a library call: what each of them works on, and how they run.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstdint>
#include <functional>

#include "lazy/torch/shape.h"

namespace neuron::lazy {

using CallTensors = c10::SmallVector<at::Tensor, 4>;

/// Four blocks also keep the result of each small enough to be reused by malloc.
inline constexpr int64_t kMaxBlocks = 4;

/// Runs tasks 0 to count - 1 on all cores, each with one library thread, and raises the
/// failure of the first task that failed.
void run_tasks(int64_t count, const std::function<void(int64_t)>& task);

/// The blocks of a call: ranges of dimension `dim`, which has `extent` items, of the
/// arguments `args`.
struct Division {
  int64_t dim = 0;
  int64_t extent = 1;
  c10::SmallVector<size_t, 8> args;

  int64_t num_blocks() const { return std::min(extent, kMaxBlocks); }
  int64_t begin(int64_t block) const { return block * extent / num_blocks(); }

  at::Tensor part(const at::Tensor& whole, int64_t block) const {
    return whole.narrow(dim, begin(block), begin(block + 1) - begin(block));
  }
  torch::jit::Stack arguments(const torch::jit::Stack& whole, int64_t block) const {
    torch::jit::Stack stack = whole;
    for (const size_t arg : args) stack[arg] = part(stack[arg].toTensor(), block);
    return stack;
  }
};

/// Fresh tensors for the first `count` results, laid out as recorded.
CallTensors make_results(ShapeFn shape, const torch::jit::Stack& stack, size_t count);
/// Leaves the results on the stack.
void give_results(torch::jit::Stack* stack, CallTensors results);

}  // namespace neuron::lazy
