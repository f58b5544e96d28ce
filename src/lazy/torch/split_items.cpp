// Library calls in blocks of items: one loop for all rows of split_items.def.
#include "lazy/torch/split_items.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "lazy/torch/call_blocks.h"
#include "lazy/torch/shape.h"

namespace neuron::lazy {
namespace {

using torch::jit::Stack;

// Tenths of a nanosecond below which a call is not worth a second thread: each block
// costs about 4 us of its own.
constexpr int64_t kMinCost = 600'000;

struct Row {
  std::string_view op;
  const char* out;
  unsigned divided;
  int trailing;
  int dim_arg;
  int size_arg;
  size_t num_results;
  int64_t cost;
};

constexpr Row kRows[] = {
#define NEURON_ITEMWISE(op, out, divided, trailing, dim_arg, size_arg, results, cost) \
  {op, out, divided, trailing, dim_arg, size_arg, results, cost},
#include "lazy/torch/split_items.def"
#undef NEURON_ITEMWISE
};

// Which dimensions are free: those in front of the ones of an item, but for those that
// the call names.
c10::SmallVector<bool, 8> free_dims(const Row& row, const Stack& stack, int64_t rank) {
  c10::SmallVector<bool, 8> is_free(static_cast<size_t>(rank), false);
  for (int64_t d = 0; d + row.trailing < rank; ++d) is_free[d] = true;
  const auto close = [&](int64_t d) {
    if (rank > 0) is_free[at::maybe_wrap_dim(d, rank)] = false;
  };
  if (row.dim_arg >= 0) {
    const c10::IValue& named = stack[row.dim_arg];
    if (named.isInt()) close(named.toInt());
    if (named.isIntList()) {
      for (const int64_t d : named.toIntList()) close(d);
    }
  }
  return is_free;
}

// The first free dimension with an item for every block, else the longest; all divided
// tensors must have as many items.
std::optional<Division> division_of(const Row& row, const Stack& stack) {
  Division division;
  for (size_t arg = 0; arg < stack.size(); ++arg) {
    if ((row.divided >> arg & 1) == 0) continue;
    if (!stack[arg].isTensor() || !stack[arg].toTensor().defined()) return std::nullopt;
    division.args.push_back(arg);
  }
  const at::Tensor& first = stack[division.args[0]].toTensor();
  const auto is_free = free_dims(row, stack, first.dim());
  for (int64_t d = 0; d < first.dim() && division.extent < kMaxBlocks; ++d) {
    if (!is_free[d] || first.size(d) <= division.extent) continue;
    division.dim = d;
    division.extent = first.size(d);
  }
  for (const size_t arg : division.args) {
    const at::Tensor& tensor = stack[arg].toTensor();
    if (tensor.dim() <= division.dim || tensor.size(division.dim) != division.extent) {
      return std::nullopt;
    }
  }
  return division.extent > 1 ? std::make_optional(division) : std::nullopt;
}

// A size that the arguments give for the result is that of the block.
void set_size(const Row& row, const Division& division, int64_t block, Stack* part) {
  if (row.size_arg < 0) return;
  auto sizes = (*part)[row.size_arg].toIntVector();
  sizes[division.dim] = division.begin(block + 1) - division.begin(block);
  (*part)[row.size_arg] = std::move(sizes);
}

class ItemwiseCall final : public CpuCall {
 public:
  ItemwiseCall(const Row& row, const c10::OperatorHandle& op, ShapeFn shape)
      : row_(row), op_(op), shape_(shape) {
    if (*row.out == '\0') return;
    out_ = c10::Dispatcher::singleton().findSchemaOrThrow(op.schema().name().c_str(),
                                                          row.out);
  }

  void run(Stack* stack) const override {
    const std::optional<Division> division = division_of(row_, *stack);
    if (!division.has_value()) return op_.callBoxed(stack);
    CallTensors results = make_results(shape_, *stack, row_.num_results);
    if (!is_worth_it(*division, *stack, results)) return op_.callBoxed(stack);
    run_tasks(division->num_blocks(), [&](int64_t block) {
      Stack part = division->arguments(*stack, block);
      set_size(row_, *division, block, &part);
      if (out_.has_value()) {
        for (const at::Tensor& result : results) {
          part.emplace_back(division->part(result, block));
        }
        out_->callBoxed(&part);
        return;
      }
      op_.callBoxed(&part);
      for (size_t i = 0; i < results.size(); ++i) {
        division->part(results[i], block).copy_(part[i].toTensor());
      }
    });
    give_results(stack, std::move(results));
  }

 private:
  bool is_worth_it(const Division& division, const Stack& stack,
                   const CallTensors& results) const {
    int64_t elements = 0;
    for (const size_t arg : division.args) {
      elements = std::max(elements, stack[arg].toTensor().numel());
    }
    for (const at::Tensor& result : results) {
      if (!result.defined() || result.dim() <= division.dim ||
          result.size(division.dim) != division.extent) {
        return false;
      }
      elements = std::max(elements, result.numel());
    }
    return elements * row_.cost >= kMinCost;
  }

  const Row& row_;
  c10::OperatorHandle op_;
  std::optional<c10::OperatorHandle> out_;
  ShapeFn shape_;
};

}  // namespace

std::unique_ptr<CpuCall> find_itemwise_call(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string name = schema.overload_name().empty()
                               ? schema.name()
                               : schema.name() + "." + schema.overload_name();
  const ShapeFn shape = find_shape_function(name);
  if (shape == nullptr) return nullptr;
  for (const Row& row : kRows) {
    if (row.op == name) return std::make_unique<ItemwiseCall>(row, op, shape);
  }
  return nullptr;
}

}  // namespace neuron::lazy
