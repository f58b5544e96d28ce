// LSTM and GRU over whole sequences, a layer and direction at a time, with one node of
// the backward graph each.
//
// PyTorch unrolls a layer into steps. Here the products that do not wait for a step are
// made for all steps at once: the input's gates before the loop and, in the backward, the
// gradients of input, weights and biases after it. A step is a product and a cell.
#include "lazy/torch/rnn_layer.h"

#include <ATen/ops/_thnn_fused_gru_cell.h>
#include <ATen/ops/_thnn_fused_lstm_cell.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "lazy/torch/autograd_node.h"
#include "lazy/torch/rnn_cells.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {
namespace {

using at::Tensor;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

constexpr int64_t kept_of(RecurrentKind kind) {
  return kind == RecurrentKind::kLstm ? 4 : 5;
}

/// The results of a forward pass that its backward needs besides inputs and outputs.
struct Kept {
  Tensor cells;  // [length, batch, size]; undefined for a GRU
  Tensor workspace;
};

/// The times of a sequence in the order in which a direction goes through them.
struct Order {
  int64_t length;
  bool is_reverse;

  int64_t time(int64_t step) const { return is_reverse ? length - 1 - step : step; }
  int64_t last() const { return time(length - 1); }
  /// The part of a sequence from the second step on, or up to the last but one.
  Tensor without_first(const Tensor& sequence) const {
    return sequence.narrow(0, is_reverse ? 0 : 1, length - 1);
  }
  Tensor without_last(const Tensor& sequence) const {
    return sequence.narrow(0, is_reverse ? 1 : 0, length - 1);
  }
};

Tensor as_matrix(const Tensor& sequence) { return sequence.view({-1, sequence.size(2)}); }

/// Below autograd.
LayerOutputs run_layer(RecurrentKind kind, Order order, const LayerInputs& in,
                       Kept& kept) {
  const Tensor& x = in[kSequence];
  const int64_t batch = x.size(1), size = in[kHx].size(1);
  const auto make = [&](int64_t width) {
    return make_tensor({order.length, batch, width}, {}, x.scalar_type(),
                       x.device().index());
  };
  const Tensor all_gates = at::linear(as_matrix(x), in[kInputWeight], in[kInputBias])
                               .view({order.length, batch, gates_of(kind) * size});
  const Tensor hidden_weight = in[kHiddenWeight].t();
  const Tensor no_bias;
  LayerOutputs out{make(size), in[kHx].contiguous(), {}};
  kept.workspace = make(kept_of(kind) * size);
  const auto gates = all_gates.unbind(0);
  const auto states = out.sequence.unbind(0);
  const auto workspaces = kept.workspace.unbind(0);
  std::vector<Tensor> cells;
  if (kind == RecurrentKind::kLstm) {
    kept.cells = make(size);
    cells = kept.cells.unbind(0);
    out.cn = in[kCx].contiguous();
  }
  for (int64_t step = 0; step < order.length; ++step) {
    const int64_t t = order.time(step);
    const Tensor hidden = at::mm(out.hn, hidden_weight);
    const CellGates sum{gates[t], hidden, no_bias, in[kHiddenBias]};
    if (kind == RecurrentKind::kLstm) {
      record_lstm_cell(sum, out.cn, states[t], cells[t], workspaces[t]);
      out.cn = cells[t];
    } else {
      record_gru_cell(sum, out.hn, states[t], workspaces[t]);
    }
    out.hn = states[t];
  }
  return out;
}

/// The same as PyTorch's own steps, for gradients of gradients.
LayerOutputs unroll_layer(RecurrentKind kind, Order order, const LayerInputs& in) {
  const auto xs = in[kSequence].unbind(0);
  std::vector<Tensor> states(order.length);
  LayerOutputs out{{}, in[kHx], in[kCx]};
  for (int64_t step = 0; step < order.length; ++step) {
    const int64_t t = order.time(step);
    const Tensor from_input = at::linear(xs[t], in[kInputWeight]);
    const Tensor from_hidden = at::linear(out.hn, in[kHiddenWeight]);
    if (kind == RecurrentKind::kLstm) {
      std::tie(out.hn, out.cn, std::ignore) = at::_thnn_fused_lstm_cell(
          from_input, from_hidden, out.cn, in[kInputBias], in[kHiddenBias]);
    } else {
      std::tie(out.hn, std::ignore) = at::_thnn_fused_gru_cell(
          from_input, from_hidden, out.hn, in[kInputBias], in[kHiddenBias]);
    }
    states[t] = out.hn;
  }
  out.sequence = at::stack(states);
  return out;
}

Tensor sum_of(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  return b.defined() ? at::add(a, b) : a;
}

class LayerBackward : public torch::autograd::Node {
 public:
  LayerBackward(RecurrentKind kind, Order order) : kind_(kind), order_(order) {}

  std::string name() const override {
    return kind_ == RecurrentKind::kLstm ? "LstmLayerBackward" : "GruLayerBackward";
  }

  void save(const LayerInputs& inputs, const LayerOutputs& outputs, const Kept& kept) {
    for (int i = 0; i < kNumLayerInputs; ++i) inputs_[i] = saved_input(inputs[i]);
    sequence_ = saved_result(outputs.sequence);
    cells_ = saved_input(kept.cells);
    workspace_ = saved_input(kept.workspace);
  }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (SavedVariable& input : inputs_) input.reset_data();
    sequence_.reset_data();
    cells_.reset_data();
    workspace_.reset_data();
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool has_any = std::any_of(grads.begin(), grads.end(),
                                     [](const Tensor& grad) { return grad.defined(); });
    if (!has_any) return variable_list(kNumLayerInputs);
    LayerInputs inputs;
    for (int i = 0; i < kNumLayerInputs; ++i) inputs[i] = inputs_[i].unpack();
    if (c10::GradMode::is_enabled()) return unrolled(inputs, grads);
    const at::AutoDispatchBelowADInplaceOrView guard;
    return whole(inputs, grads);
  }

 private:
  variable_list unrolled(const LayerInputs& inputs, const variable_list& grads) const;
  variable_list whole(const LayerInputs& inputs, const variable_list& grads);

  /// Walks back through the steps: fills the gradients of the gates and returns those of
  /// the initial states.
  struct StateGradients {
    Tensor hx;
    Tensor cx;
  };
  StateGradients walk(const LayerInputs& inputs, const Tensor& sequence,
                      const variable_list& grads, const Tensor& of_input,
                      const Tensor& of_hidden);

  RecurrentKind kind_;
  Order order_;
  std::array<SavedVariable, kNumLayerInputs> inputs_;
  SavedVariable sequence_;
  SavedVariable cells_;
  SavedVariable workspace_;
};

variable_list LayerBackward::unrolled(const LayerInputs& inputs,
                                      const variable_list& grads) const {
  const LayerOutputs out = unroll_layer(kind_, order_, inputs);
  const variable_list all{out.sequence, out.hn, out.cn};
  variable_list outputs, of_outputs, wanted;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) continue;
    outputs.push_back(all[i]);
    of_outputs.push_back(grads[i]);
  }
  for (const Tensor& input : inputs) {
    if (input.defined() && input.requires_grad()) wanted.push_back(input);
  }
  const variable_list found =
      torch::autograd::grad(outputs, wanted, of_outputs, /*retain_graph=*/true,
                            /*create_graph=*/true, /*allow_unused=*/true);
  variable_list result(kNumLayerInputs);
  size_t next = 0;
  for (int i = 0; i < kNumLayerInputs; ++i) {
    if (inputs[i].defined() && inputs[i].requires_grad()) result[i] = found[next++];
  }
  return result;
}

LayerBackward::StateGradients LayerBackward::walk(const LayerInputs& inputs,
                                                  const Tensor& sequence,
                                                  const variable_list& grads,
                                                  const Tensor& of_input,
                                                  const Tensor& of_hidden) {
  const bool is_lstm = kind_ == RecurrentKind::kLstm;
  const auto slices = [](const Tensor& tensor) {
    return tensor.defined() ? tensor.unbind(0) : std::vector<Tensor>();
  };
  const auto contiguous = [](const Tensor& tensor) {
    return tensor.defined() ? tensor.contiguous() : tensor;
  };
  const auto of_outputs = slices(contiguous(grads[0]));
  const auto cells = slices(cells_.unpack());
  const auto workspaces = slices(workspace_.unpack());
  const auto input_slices = of_input.unbind(0);
  const auto hidden_slices = of_hidden.unbind(0);
  const Tensor first_cell = contiguous(inputs[kCx]);
  const auto of_output = [&](int64_t t) {
    return of_outputs.empty() ? Tensor() : of_outputs[t];
  };
  StateGradients grad;
  grad.hx = contiguous(sum_of(grads[1], of_output(order_.last())));
  if (is_lstm) {
    grad.cx = contiguous(grads[2]);
  } else if (!grad.hx.defined()) {
    grad.hx = at::zeros_like(inputs[kHx]);
  }
  for (int64_t step = order_.length - 1; step >= 0; --step) {
    const int64_t t = order_.time(step);
    const bool is_first = step == 0;
    const Tensor before = is_first ? Tensor() : of_output(order_.time(step - 1));
    Tensor onward = make_tensor_like(sequence.select(0, t));
    if (is_lstm) {
      const Tensor& cx = is_first ? first_cell : cells[order_.time(step - 1)];
      record_lstm_cell_backward(grad.hx, grad.cx, cx, cells[t], workspaces[t],
                                hidden_slices[t], onward);
      grad.cx = std::move(onward);
      grad.hx = before.defined()
                    ? at::addmm(before, hidden_slices[t], inputs[kHiddenWeight])
                    : at::mm(hidden_slices[t], inputs[kHiddenWeight]);
    } else {
      record_gru_cell_backward(grad.hx, workspaces[t], input_slices[t], hidden_slices[t],
                               onward);
      grad.hx =
          at::addmm(sum_of(onward, before), hidden_slices[t], inputs[kHiddenWeight]);
    }
  }
  return grad;
}

variable_list LayerBackward::whole(const LayerInputs& inputs,
                                   const variable_list& grads) {
  const Tensor sequence = sequence_.unpack(getptr());
  const int64_t width = gates_of(kind_) * sequence.size(2);
  const auto make = [&] {
    return make_tensor({order_.length, sequence.size(1), width}, {},
                       sequence.scalar_type(), sequence.device().index());
  };
  // An LSTM's gates are sums, so both terms have one gradient.
  const Tensor of_hidden = make();
  const Tensor of_input = kind_ == RecurrentKind::kLstm ? of_hidden : make();
  StateGradients states = walk(inputs, sequence, grads, of_input, of_hidden);

  const auto is_wanted = [&](LayerInput input) {
    return inputs[input].defined() && task_should_compute_output(input);
  };
  const Tensor& x = inputs[kSequence];
  variable_list result(kNumLayerInputs);
  if (is_wanted(kSequence)) {
    result[kSequence] = at::mm(as_matrix(of_input), inputs[kInputWeight]).view(x.sizes());
  }
  if (is_wanted(kHx)) result[kHx] = std::move(states.hx);
  if (is_wanted(kCx)) result[kCx] = std::move(states.cx);
  if (is_wanted(kInputWeight)) {
    result[kInputWeight] = at::mm(as_matrix(of_input).t(), as_matrix(x));
  }
  if (is_wanted(kHiddenWeight)) {
    Tensor grad =
        at::mm(of_hidden.select(0, order_.time(0)).t(), inputs[kHx].contiguous());
    if (order_.length > 1) {
      grad = at::addmm(grad, as_matrix(order_.without_first(of_hidden)).t(),
                       as_matrix(order_.without_last(sequence)));
    }
    result[kHiddenWeight] = std::move(grad);
  }
  if (is_wanted(kInputBias)) result[kInputBias] = at::sum(as_matrix(of_input), 0);
  if (is_wanted(kHiddenBias)) {
    const bool is_known = kind_ == RecurrentKind::kLstm && result[kInputBias].defined();
    result[kHiddenBias] =
        is_known ? result[kInputBias] : at::sum(as_matrix(of_hidden), 0);
  }
  return result;
}

}  // namespace

LayerOutputs apply_layer(RecurrentKind kind, bool is_reverse, LayerInputs inputs) {
  inputs[kSequence] = inputs[kSequence].contiguous();
  const Order order{inputs[kSequence].size(0), is_reverse};
  const bool wants_grad =
      c10::GradMode::is_enabled() &&
      std::any_of(inputs.begin(), inputs.end(), [](const Tensor& input) {
        return input.defined() && input.requires_grad();
      });
  c10::intrusive_ptr<LayerBackward> node;
  if (wants_grad) {
    node = c10::make_intrusive<LayerBackward>(kind, order);
    torch::autograd::edge_list edges;
    for (const Tensor& input : inputs) {
      edges.push_back(input.defined() ? torch::autograd::impl::gradient_edge(input)
                                      : torch::autograd::Edge());
    }
    node->set_next_edges(std::move(edges));
  }
  Kept kept;
  LayerOutputs outputs;
  {
    const at::AutoDispatchBelowADInplaceOrView guard;
    outputs = run_layer(kind, order, inputs, kept);
  }
  if (node) {
    torch::autograd::set_history(outputs.sequence, node);
    torch::autograd::set_history(outputs.hn, node);
    torch::autograd::set_history(outputs.cn, node);
    node->save(inputs, outputs, kept);
  }
  return outputs;
}

}  // namespace neuron::lazy
