// One step of an LSTM and of a GRU as one native op, and its gradient as another: the
// fused cells that PyTorch's recurrent modules call on an accelerator.
#include <ATen/core/Tensor.h>
#include <ATen/ops/sum.h>

#include <initializer_list>

#include "lazy/torch/pointwise_entry.h"
#include "lazy/torch/register.h"
#include "lazy/torch/rnn_cells.h"
#include "lazy/torch/row_node.h"

namespace neuron::lazy {
namespace {

using at::Tensor;
using ir::Native;
using ir::Op;
using OptionalTensor = std::optional<Tensor>;

int64_t mask_of(const Tensor& first, const Tensor& second) {
  return (first.defined() ? 1 : 0) + (second.defined() ? 2 : 0);
}

void record_cell(OpTrack& track, Op op, Native native, int64_t mask,
                 std::initializer_list<const Tensor*> reads,
                 std::initializer_list<const Tensor*> writes) {
  track.calls.fetch_add(1, std::memory_order_relaxed);
  if ((*writes.begin())->numel() == 0) return;
  RowNode node(op, native);
  for (const Tensor* tensor : reads) {
    if (tensor->defined()) node.read(*tensor);
  }
  for (const Tensor* tensor : writes) node.write(*tensor);
  node.set_integer(0, mask);
  node.record();
}

}  // namespace

void record_lstm_cell(const CellGates& gates, const Tensor& cx, const Tensor& hy,
                      const Tensor& cy, const Tensor& workspace) {
  static OpTrack& track = track_op("aten::_thnn_fused_lstm_cell");
  record_cell(track, Op::kInternalThnnFusedLstmCell, Native::kLstmCell,
              mask_of(gates.input_bias, gates.hidden_bias),
              {&gates.input, &gates.hidden, &cx, &gates.input_bias, &gates.hidden_bias},
              {&hy, &cy, &workspace});
}

void record_lstm_cell_backward(const Tensor& grad_hy, const Tensor& grad_cy,
                               const Tensor& cx, const Tensor& cy,
                               const Tensor& workspace, const Tensor& grad_gates,
                               const Tensor& grad_cx) {
  static OpTrack& track = track_op("aten::_thnn_fused_lstm_cell_backward_impl");
  record_cell(track, Op::kInternalThnnFusedLstmCellBackwardImpl,
              Native::kLstmCellBackward, mask_of(grad_hy, grad_cy),
              {&grad_hy, &grad_cy, &cx, &cy, &workspace}, {&grad_gates, &grad_cx});
}

void record_gru_cell(const CellGates& gates, const Tensor& hx, const Tensor& hy,
                     const Tensor& workspace) {
  static OpTrack& track = track_op("aten::_thnn_fused_gru_cell");
  record_cell(track, Op::kInternalThnnFusedGruCell, Native::kGruCell,
              mask_of(gates.input_bias, gates.hidden_bias),
              {&gates.input, &gates.hidden, &hx, &gates.input_bias, &gates.hidden_bias},
              {&hy, &workspace});
}

void record_gru_cell_backward(const Tensor& grad, const Tensor& workspace,
                              const Tensor& grad_input, const Tensor& grad_hidden,
                              const Tensor& grad_hx) {
  static OpTrack& track = track_op("aten::_thnn_fused_gru_cell_backward");
  record_cell(track, Op::kInternalThnnFusedGruCellBackward, Native::kGruCellBackward, 0,
              {&grad, &workspace}, {&grad_input, &grad_hidden, &grad_hx});
}

namespace {

/// What the arguments of one call must agree on: the first of them is the state.
class Cell {
 public:
  Cell(const char* name, const Tensor& state) : name_(name), state_(state) {
    TORCH_CHECK(state.dim() == 2, "[", name, "] the state must be a matrix: got ",
                state.dim(), " dimensions, expected [batch, hidden size]");
    TORCH_CHECK_TYPE(is_real_float(state.scalar_type()), "[", name,
                     "] the state must be floating point: got ", state.scalar_type(),
                     "; convert it first");
  }

  /// A new tensor of `states` states a row.
  Tensor make(int64_t states) const {
    return make_tensor({state_.size(0), states * state_.size(1)}, {},
                       state_.scalar_type(), state_.device().index());
  }

  /// `tensor`, if given, in row-major order; an error where it is not what the cell
  /// takes.
  Tensor rows(const char* what, const OptionalTensor& tensor, int64_t states) const {
    return checked(what, tensor, {state_.size(0), states * state_.size(1)});
  }
  Tensor bias(const char* what, const OptionalTensor& tensor, int64_t gates) const {
    return checked(what, tensor, {gates * state_.size(1)});
  }

 private:
  Tensor checked(const char* what, const OptionalTensor& given,
                 at::IntArrayRef sizes) const {
    if (!given.has_value() || !given->defined()) return {};
    TORCH_CHECK(given->sizes() == sizes, "[", name_, "] ", what,
                " has the wrong size: got ", given->sizes(), ", expected ", sizes);
    TORCH_CHECK(given->scalar_type() == state_.scalar_type(), "[", name_, "] ", what,
                " has another type than the state: got ", given->scalar_type(),
                ", expected ", state_.scalar_type(), "; convert one of them");
    TORCH_CHECK(given->device() == state_.device(), "[", name_, "] ", what,
                " is on another device than the state: got ", given->device(),
                ", expected ", state_.device(), "; move one of them");
    return given->contiguous();
  }

  const char* name_;
  const Tensor& state_;
};

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates,
                                             const Tensor& hidden_gates, const Tensor& cx,
                                             const OptionalTensor& input_bias,
                                             const OptionalTensor& hidden_bias) {
  const Cell cell("_thnn_fused_lstm_cell", cx);
  const Tensor input = cell.rows("input_gates", input_gates, 4);
  const Tensor hidden = cell.rows("hidden_gates", hidden_gates, 4);
  const Tensor to_input = cell.bias("input_bias", input_bias, 4);
  const Tensor to_hidden = cell.bias("hidden_bias", hidden_bias, 4);
  Tensor hy = cell.make(1), cy = cell.make(1), workspace = cell.make(4);
  record_lstm_cell({input, hidden, to_input, to_hidden}, cx.contiguous(), hy, cy,
                   workspace);
  return {std::move(hy), std::move(cy), std::move(workspace)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor& grad_hy,
                                                      const OptionalTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy,
                                                      const Tensor& workspace,
                                                      bool has_bias) {
  const Cell cell("_thnn_fused_lstm_cell_backward", cx);
  const Tensor of_hy = cell.rows("grad_hy", grad_hy, 1);
  const Tensor of_cy = cell.rows("grad_cy", grad_cy, 1);
  if (!of_hy.defined() && !of_cy.defined()) return {};
  Tensor grad_gates = cell.make(4), grad_cx = cell.make(1);
  record_lstm_cell_backward(of_hy, of_cy, cx.contiguous(), cell.rows("cy", cy, 1),
                            cell.rows("workspace", workspace, 4), grad_gates, grad_cx);
  Tensor grad_bias = has_bias ? at::sum(grad_gates, 0) : Tensor();
  return {std::move(grad_gates), std::move(grad_cx), std::move(grad_bias)};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                    const Tensor& hx, const OptionalTensor& input_bias,
                                    const OptionalTensor& hidden_bias) {
  const Cell cell("_thnn_fused_gru_cell", hx);
  const Tensor input = cell.rows("input_gates", input_gates, 3);
  const Tensor hidden = cell.rows("hidden_gates", hidden_gates, 3);
  const Tensor to_input = cell.bias("input_bias", input_bias, 3);
  const Tensor to_hidden = cell.bias("hidden_bias", hidden_bias, 3);
  Tensor hy = cell.make(1), workspace = cell.make(5);
  record_gru_cell({input, hidden, to_input, to_hidden}, hx.contiguous(), hy, workspace);
  return {std::move(hy), std::move(workspace)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(
    const Tensor& grad, const Tensor& workspace, bool has_bias) {
  const Cell cell("_thnn_fused_gru_cell_backward", grad);
  Tensor grad_input = cell.make(3), grad_hidden = cell.make(3), grad_hx = cell.make(1);
  record_gru_cell_backward(grad.contiguous(), cell.rows("workspace", workspace, 5),
                           grad_input, grad_hidden, grad_hx);
  Tensor input_bias, hidden_bias;
  if (has_bias) {
    input_bias = at::sum(grad_input, 0);
    hidden_bias = at::sum(grad_hidden, 0);
  }
  return {std::move(grad_input), std::move(grad_hidden), std::move(grad_hx),
          std::move(input_bias), std::move(hidden_bias)};
}

}  // namespace

void register_rnn_ops(Registrar& m) {
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

}  // namespace neuron::lazy
