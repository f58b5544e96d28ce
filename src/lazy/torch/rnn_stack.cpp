// nn.LSTM and nn.GRU: stacks of layers and directions (rnn_layer.h).
//
// Packed sequences, projections, autocast and calls that PyTorch would reject go to its
// own composite.
#include <ATen/autocast_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/gru_native.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/stack.h>

#include "lazy/torch/autograd_node.h"
#include "lazy/torch/pointwise_entry.h"
#include "lazy/torch/rnn_layer.h"

namespace neuron::lazy {
namespace {

using at::Tensor;
using at::TensorList;
using c10::DispatchKeySet;

/// What nn.LSTM and nn.GRU say about their layers.
struct Stack {
  RecurrentKind kind;
  TensorList params;
  bool has_biases;
  int64_t num_layers;
  double dropout;
  bool train;
  bool bidirectional;
  bool batch_first;

  int64_t directions() const { return bidirectional ? 2 : 1; }
  int64_t params_each() const { return has_biases ? 4 : 2; }
};

/// Whether all is as a stack without projections has it, with something to compute.
bool is_ours(const Stack& stack, const Tensor& input, TensorList states,
             DispatchKeySet keys) {
  if (!is_ordinary(keys, input) || input.dim() != 3 || input.numel() == 0 ||
      !is_real_float(input.scalar_type()) || stack.num_layers < 1 ||
      at::autocast::is_autocast_enabled(at::kPrivateUse1)) {
    return false;
  }
  const int64_t count = stack.num_layers * stack.directions();
  const int64_t batch = input.size(stack.batch_first ? 0 : 1);
  const auto is_fit = [&](const Tensor& tensor, at::IntArrayRef sizes) {
    return tensor.defined() && tensor.device() == input.device() &&
           tensor.dtype() == input.dtype() && !has_tangent(tensor) &&
           tensor.sizes() == sizes;
  };
  if (states[0].dim() != 3 || states[0].size(2) == 0 ||
      static_cast<int64_t>(stack.params.size()) != count * stack.params_each()) {
    return false;
  }
  const int64_t size = states[0].size(2), width = gates_of(stack.kind) * size;
  for (const Tensor& state : states) {
    if (!is_fit(state, {count, batch, size})) return false;
  }
  for (int64_t i = 0; i < count; ++i) {
    const Tensor* params = &stack.params[i * stack.params_each()];
    const int64_t features =
        i < stack.directions() ? input.size(2) : size * stack.directions();
    if (!is_fit(params[0], {width, features}) || !is_fit(params[1], {width, size})) {
      return false;
    }
    if (stack.has_biases &&
        (!is_fit(params[2], {width}) || !is_fit(params[3], {width}))) {
      return false;
    }
  }
  return true;
}

/// All layers; the states of the result are stacked.
LayerOutputs run_stack(const Stack& stack, const Tensor& input, TensorList states) {
  const auto hx = states[0].unbind(0);
  const auto cx = states.size() > 1 ? states[1].unbind(0) : std::vector<Tensor>();
  std::vector<Tensor> hn, cn;
  Tensor x = stack.batch_first ? input.transpose(0, 1) : input;
  for (int64_t layer = 0; layer < stack.num_layers; ++layer) {
    std::vector<Tensor> sides;
    for (int64_t side = 0; side < stack.directions(); ++side) {
      const int64_t i = layer * stack.directions() + side;
      const Tensor* params = &stack.params[i * stack.params_each()];
      LayerOutputs out = apply_layer(stack.kind, side == 1,
                                     {x, hx[i], cx.empty() ? Tensor() : cx[i], params[0],
                                      params[1], stack.has_biases ? params[2] : Tensor(),
                                      stack.has_biases ? params[3] : Tensor()});
      sides.push_back(std::move(out.sequence));
      hn.push_back(std::move(out.hn));
      cn.push_back(std::move(out.cn));
    }
    x = sides.size() == 1 ? sides[0] : at::cat(sides, 2);
    if (stack.train && stack.dropout != 0 && layer + 1 < stack.num_layers) {
      x = at::dropout(x, stack.dropout, /*train=*/true);
    }
  }
  return {stack.batch_first ? x.transpose(0, 1) : x, at::stack(hn),
          cx.empty() ? Tensor() : at::stack(cn)};
}

std::tuple<Tensor, Tensor, Tensor> lstm(DispatchKeySet keys, const Tensor& input,
                                        TensorList hx, TensorList params, bool has_biases,
                                        int64_t num_layers, double dropout, bool train,
                                        bool bidirectional, bool batch_first) {
  const Stack stack{RecurrentKind::kLstm, params,     has_biases,
                    num_layers,           dropout,    train,
                    bidirectional,        batch_first};
  if (hx.size() != 2 || !is_ours(stack, input, hx, keys)) {
    return at::native::lstm(input, hx, params, has_biases, num_layers, dropout, train,
                            bidirectional, batch_first);
  }
  LayerOutputs out = run_stack(stack, input, hx);
  return {std::move(out.sequence), std::move(out.hn), std::move(out.cn)};
}

std::tuple<Tensor, Tensor> gru(DispatchKeySet keys, const Tensor& input, const Tensor& hx,
                               TensorList params, bool has_biases, int64_t num_layers,
                               double dropout, bool train, bool bidirectional,
                               bool batch_first) {
  const Stack stack{RecurrentKind::kGru, params,     has_biases,
                    num_layers,          dropout,    train,
                    bidirectional,       batch_first};
  if (!is_ours(stack, input, hx, keys)) {
    return at::native::gru(input, hx, params, has_biases, num_layers, dropout, train,
                           bidirectional, batch_first);
  }
  LayerOutputs out = run_stack(stack, input, hx);
  return {std::move(out.sequence), std::move(out.hn)};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("lstm.input", TORCH_FN(lstm));
  m.impl("gru.input", TORCH_FN(gru));
}

// In inference mode, where nothing is active above the device.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("lstm.input", TORCH_FN(lstm));
  m.impl("gru.input", TORCH_FN(gru));
}

}  // namespace neuron::lazy
