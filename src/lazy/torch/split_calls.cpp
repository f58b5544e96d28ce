// Large library calls in blocks that all cores share.
//
// A library call runs on one thread, so that no OpenMP team spins against the thread that
// records (`execute.h`). A large one is therefore divided here:
//
// 1. How a call is divided depends on the shapes of its arguments alone. Hence its bits
//    do not depend on the number of threads, on the mode or on what runs beside it.
// 2. A block is a call of its own on one thread, on narrowed arguments, and copies its
//    result into its part of the whole result while that is still in its cache.
// 3. What sums over blocks (the gradients of weights) is kept per block and added in the
//    order of the blocks.
// 4. Blocks differ by one item at most, and both halves of their list are equal work, for
//    that is how `parallel_for` hands them to two cores.
#include "lazy/torch/split_calls.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "lazy/torch/call_blocks.h"
#include "lazy/torch/split_items.h"

namespace neuron::lazy {
namespace {

using torch::jit::Stack;
using Tensors = CallTensors;

// Multiply-adds below which a call is not worth a second thread: about 150 us.
constexpr int64_t kMinMacs = int64_t{1} << 22;
// Multiply-adds per element of the weight below which adding up one gradient per block
// costs more than it brings.
constexpr int64_t kMinMacsPerWeight = 512;
// Elements that one task of a sum adds up.
constexpr int64_t kSumGrain = int64_t{1} << 15;

c10::OperatorHandle find_op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

bool is_worth_splitting(const Division& division, int64_t macs) {
  return division.extent > 1 && macs >= kMinMacs;
}

void copy_part(const Division& division, int64_t block, const at::Tensor& whole,
               const at::Tensor& result) {
  division.part(whole, block).copy_(result);
}

// Calls `op` block by block; all of its results are divided like its arguments.
void run_blocks(const c10::OperatorHandle& op, const Division& division, Tensors results,
                Stack* stack) {
  run_tasks(division.num_blocks(), [&](int64_t block) {
    Stack part = division.arguments(*stack, block);
    op.callBoxed(&part);
    for (size_t i = 0; i < results.size(); ++i) {
      copy_part(division, block, results[i], part[i].toTensor());
    }
  });
  give_results(stack, std::move(results));
}

// ------------------------------------------------------------------------ convolution

// `large` is the side with more positions: the output, or the input of a transposed one.
int64_t convolution_macs(const at::Tensor& large, const at::Tensor& weight) {
  return large.numel() * (weight.numel() / std::max<int64_t>(1, weight.size(0)));
}

void run_convolution(Stack* stack) {
  static const c10::OperatorHandle op = find_op("aten::convolution");
  static const ShapeFn shape = find_shape_function("aten::convolution");
  const at::Tensor& input = (*stack)[0].toTensor();
  const at::Tensor& weight = (*stack)[1].toTensor();
  const bool is_transposed = (*stack)[6].toBool();
  const Division division{0, input.size(0), {0}};
  if (division.extent < 2) return op.callBoxed(stack);
  Tensors results = make_results(shape, *stack, 1);
  const int64_t macs = convolution_macs(is_transposed ? input : results[0], weight);
  if (!is_worth_splitting(division, macs)) return op.callBoxed(stack);
  run_blocks(op, division, std::move(results), stack);
}

// Adds the gradients of the blocks in their order into that of the first.
at::Tensor add_up(std::vector<at::Tensor>& parts) {
  at::Tensor& sum = parts[0];
  const bool is_same_layout = sum.is_non_overlapping_and_dense() &&
                              std::ranges::all_of(parts, [&](const at::Tensor& part) {
                                return part.strides() == sum.strides();
                              });
  if (!is_same_layout || sum.numel() < 2 * kSumGrain) {
    for (size_t i = 1; i < parts.size(); ++i) sum.add_(parts[i]);
    return sum;
  }
  const int64_t numel = sum.numel();
  run_tasks((numel + kSumGrain - 1) / kSumGrain, [&](int64_t task) {
    const int64_t begin = task * kSumGrain;
    const int64_t length = std::min(kSumGrain, numel - begin);
    const auto piece = [&](const at::Tensor& part) {
      return part.as_strided({length}, {1}, part.storage_offset() + begin);
    };
    at::Tensor into = piece(sum);
    for (size_t i = 1; i < parts.size(); ++i) into.add_(piece(parts[i]));
  });
  return sum;
}

struct ConvolutionBackward {
  // Arguments of `convolution_backward`, and where its mask stands among them.
  static constexpr size_t kMask = 10;

  Stack stack;
  Division division;
  bool wants_input, wants_weight, wants_bias;

  // Gradients of a block, or of all images if `block` is negative, as far as asked for.
  Stack call(int64_t block, bool input, bool weights) const {
    static const c10::OperatorHandle op = find_op("aten::convolution_backward");
    Stack part = block < 0 ? stack : division.arguments(stack, block);
    part[kMask] = c10::List<bool>(
        {input && wants_input, weights && wants_weight, weights && wants_bias});
    op.callBoxed(&part);
    return part;
  }
};

// Every block gives its gradient of the input and its part of the others.
Tensors split_all(const ConvolutionBackward& call, at::Tensor grad_input) {
  const auto count = static_cast<size_t>(call.division.num_blocks());
  std::vector<at::Tensor> weights(count), biases(count);
  run_tasks(call.division.num_blocks(), [&](int64_t block) {
    const Stack part = call.call(block, true, true);
    if (call.wants_input) {
      copy_part(call.division, block, grad_input, part[0].toTensor());
    }
    if (call.wants_weight) weights[block] = part[1].toTensor();
    if (call.wants_bias) biases[block] = part[2].toTensor();
  });
  Tensors results = {std::move(grad_input), at::Tensor(), at::Tensor()};
  if (call.wants_weight) results[1] = add_up(weights);
  if (call.wants_bias) results[2] = add_up(biases);
  return results;
}

// The gradients of weight and bias are one task, beside those of the input.
Tensors split_input(const ConvolutionBackward& call, at::Tensor grad_input) {
  Tensors results = {grad_input, at::Tensor(), at::Tensor()};
  run_tasks(1 + call.division.num_blocks(), [&](int64_t task) {
    if (task == 0) {
      const Stack whole = call.call(-1, false, true);
      for (size_t i = 1; i < 3; ++i) results[i] = whole[i].toTensor();
      return;
    }
    const Stack part = call.call(task - 1, true, false);
    copy_part(call.division, task - 1, grad_input, part[0].toTensor());
  });
  return results;
}

void run_convolution_backward(Stack* stack) {
  static const c10::OperatorHandle op = find_op("aten::convolution_backward");
  static const ShapeFn shape = find_shape_function("aten::convolution_backward");
  const int64_t images = (*stack)[1].toTensor().size(0);
  const at::Tensor& weight = (*stack)[2].toTensor();
  const bool is_transposed = (*stack)[7].toBool();
  const int64_t macs =
      convolution_macs((*stack)[is_transposed ? 1 : 0].toTensor(), weight);
  const c10::List<bool> mask = (*stack)[ConvolutionBackward::kMask].toBoolList();
  const bool wants_input = mask[0], wants_weights = mask[1] || mask[2];
  if (macs < kMinMacs) return op.callBoxed(stack);
  // Parts of a sum that are rounded to half a float would lose digits.
  const bool has_wide_sums =
      weight.scalar_type() == at::kFloat || weight.scalar_type() == at::kDouble;
  const bool is_all_split =
      images > 1 &&
      (!wants_weights || (has_wide_sums && macs / weight.numel() >= kMinMacsPerWeight));
  // Else there must be two tasks at least.
  if (!is_all_split && !(wants_input && wants_weights)) return op.callBoxed(stack);
  at::Tensor grad_input = make_results(shape, *stack, 1)[0];
  const ConvolutionBackward call{
      *stack, {0, images, {0, 1}}, wants_input, mask[1], mask[2]};
  give_results(stack, is_all_split ? split_all(call, std::move(grad_input))
                                   : split_input(call, std::move(grad_input)));
}

// Also wants the sizes of the bias.
void run_convolution_backward_overrideable(Stack* stack) {
  const at::Tensor& weight = (*stack)[2].toTensor();
  const bool is_transposed = (*stack)[6].toBool();
  const int64_t bias =
      is_transposed ? weight.size(1) * (*stack)[8].toInt() : weight.size(0);
  stack->insert(stack->begin() + 3, c10::IValue(std::vector<int64_t>{bias}));
  run_convolution_backward(stack);
}

// -------------------------------------------------------------------------- attention

// Divides attention by batches, or by heads where there are few batches. The first
// `tensors` arguments are (batch, head, ...), argument `mask` is added to the scores.
Division divide_attention(const Stack& stack, size_t tensors, size_t query, size_t mask) {
  const at::Tensor& first = stack[query].toTensor();
  const int64_t batch = first.size(0), heads = first.size(1);
  Division division;
  division.dim = batch < kMaxBlocks && heads > batch ? 1 : 0;
  division.extent = first.size(division.dim);
  for (size_t arg = 0; arg < tensors; ++arg) {
    // Shared heads would have to be divided by groups.
    if (stack[arg].toTensor().size(division.dim) != division.extent) return {};
    division.args.push_back(arg);
  }
  if (!stack[mask].isTensor()) return division;
  const at::Tensor& scores = stack[mask].toTensor();
  if (scores.defined() && scores.dim() == 4 && scores.size(division.dim) > 1) {
    division.args.push_back(mask);
  }
  return division;
}

// Both products of attention.
int64_t attention_macs(const at::Tensor& query, const at::Tensor& key) {
  return 2 * query.numel() * key.size(2);
}

void run_attention(Stack* stack) {
  static const c10::OperatorHandle op =
      find_op("aten::_scaled_dot_product_flash_attention_for_cpu");
  static const ShapeFn shape =
      find_shape_function("aten::_scaled_dot_product_flash_attention_for_cpu");
  const int64_t macs = attention_macs((*stack)[0].toTensor(), (*stack)[1].toTensor());
  const Division division = divide_attention(*stack, 3, 0, 5);
  if (!is_worth_splitting(division, macs)) return op.callBoxed(stack);
  run_blocks(op, division, make_results(shape, *stack, 2), stack);
}

void run_attention_backward(Stack* stack) {
  static const c10::OperatorHandle op =
      find_op("aten::_scaled_dot_product_flash_attention_for_cpu_backward");
  static const ShapeFn shape =
      find_shape_function("aten::_scaled_dot_product_flash_attention_for_cpu_backward");
  const int64_t macs = attention_macs((*stack)[1].toTensor(), (*stack)[2].toTensor());
  const Division division = divide_attention(*stack, 6, 1, 8);
  if (!is_worth_splitting(division, macs)) return op.callBoxed(stack);
  run_blocks(op, division, make_results(shape, *stack, 3), stack);
}

// A whole layer of an encoder: by sequences.
void run_encoder_layer(Stack* stack) {
  static const c10::OperatorHandle op = find_op("aten::_transformer_encoder_layer_fwd");
  static const ShapeFn shape =
      find_shape_function("aten::_transformer_encoder_layer_fwd");
  constexpr size_t kMask = 18, kMaskType = 19;
  constexpr int64_t kPaddingMask = 1;  // (sequence, position)
  const at::Tensor& source = (*stack)[0].toTensor();
  if (source.dim() != 3) return op.callBoxed(stack);
  Division division{0, source.size(0), {0}};
  if ((*stack)[kMask].isTensor()) {
    const at::Tensor& mask = (*stack)[kMask].toTensor();
    const bool is_padding =
        (*stack)[kMaskType].isInt() && (*stack)[kMaskType].toInt() == kPaddingMask;
    if (is_padding || mask.dim() == 4) {
      if (mask.size(0) == source.size(0)) division.args.push_back(kMask);
    } else if (mask.dim() != 2) {
      return op.callBoxed(stack);
    }
  }
  int64_t weights = 0;
  for (const size_t arg : {3, 5, 14, 16}) weights += (*stack)[arg].toTensor().numel();
  const int64_t macs = source.size(0) * source.size(1) * weights;
  if (!is_worth_splitting(division, macs)) return op.callBoxed(stack);
  run_blocks(op, division, make_results(shape, *stack, 1), stack);
}

using Run = void (*)(Stack* stack);

// An op that is run by a function of its own.
class OwnCall final : public CpuCall {
 public:
  explicit OwnCall(Run run) : run_(run) {}
  void run(Stack* stack) const override { run_(stack); }

 private:
  Run run_;
};

struct Row {
  std::string_view op;
  Run run;
};

constexpr Row kRows[] = {
    {"aten::convolution", &run_convolution},
    {"aten::convolution_overrideable", &run_convolution},
    {"aten::convolution_backward", &run_convolution_backward},
    {"aten::convolution_backward_overrideable", &run_convolution_backward_overrideable},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", &run_attention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
     &run_attention_backward},
    {"aten::_transformer_encoder_layer_fwd", &run_encoder_layer},
};

}  // namespace

std::unique_ptr<CpuCall> find_cpu_call(const c10::OperatorHandle& op) {
  for (const Row& row : kRows) {
    if (row.op == op.schema().name()) return std::make_unique<OwnCall>(row.run);
  }
  return find_itemwise_call(op);
}

}  // namespace neuron::lazy
