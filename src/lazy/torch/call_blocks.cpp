#include "lazy/torch/call_blocks.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <exception>
#include <vector>

#include "base/parallel.h"
#include "lazy/observe.h"
#include "lazy/torch/execute.h"

namespace neuron::lazy {

void run_tasks(int64_t count, const std::function<void(int64_t)>& task) {
  note_blocks(count);
  std::vector<std::exception_ptr> failures(static_cast<size_t>(count));
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    run_in_executor_scope([&] {
      for (int64_t i = begin; i < end; ++i) {
        try {
          task(i);
        } catch (...) {
          failures[static_cast<size_t>(i)] = std::current_exception();
        }
      }
    });
  });
  for (const std::exception_ptr& failure : failures) {
    if (failure != nullptr) std::rethrow_exception(failure);
  }
}

CallTensors make_results(ShapeFn shape, const torch::jit::Stack& stack, size_t count) {
  ShapeOutputs outputs(
      [](void*, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
        return strides.empty() ? at::empty(sizes, dtype)
                               : at::empty_strided(sizes, strides, dtype);
      },
      nullptr);
  shape(stack.data(), outputs);
  CallTensors results;
  for (size_t i = 0; i < count; ++i) {
    results.push_back(outputs.get(static_cast<int64_t>(i)));
  }
  return results;
}

void give_results(torch::jit::Stack* stack, CallTensors results) {
  stack->clear();
  for (at::Tensor& result : results) stack->emplace_back(std::move(result));
}

}  // namespace neuron::lazy
