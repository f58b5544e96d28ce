#include "lazy/native_rows.h"

#include <algorithm>

#include "base/check.h"
#include "device/memory.h"
#include "fusion/kernels/matmul.h"
#include "fusion/kernels/rows.h"
#include "ir/itemsize.h"
#include "ir/native.h"
#include "lazy/window.h"

namespace neuron::lazy {
namespace {

using fusion::LossReduction;
using fusion::RowShape;
using ir::Native;

// The operands of a node as pointers, taken one after the other.
class Operands {
 public:
  Operands(const WindowProgram& window, const ir::Node& node)
      : window_(window), node_(node), operands_(window.graph.operands_of(node)) {}

  const ir::Operand& peek() const { return operands_[next_]; }
  const ir::Operand& last() const { return operands_.back(); }
  void* take() {
    const ir::Operand& operand = operands_[next_++];
    return device::Memory::materialize(window_.buffers[operand.buffer]) + operand.offset;
  }
  void* take_if(bool is_there) { return is_there ? take() : nullptr; }

  std::span<const int64_t> sizes(const ir::Operand& operand) const {
    return window_.graph.sizes_of(operand);
  }
  int64_t stride(const ir::Operand& operand, size_t d) const {
    const auto strides = window_.graph.strides_of(operand);
    if (!strides.empty()) return strides[d];
    int64_t stride = 1;
    for (size_t k = d + 1; k < operand.rank; ++k) stride *= sizes(operand)[k];
    return stride;
  }
  int64_t numel(const ir::Operand& operand) const {
    int64_t numel = 1;
    for (const int64_t size : sizes(operand)) numel *= size;
    return numel;
  }

  int64_t low() const { return node_.numbers[0].integer & 0xff; }
  int64_t high() const { return node_.numbers[0].integer >> 8; }
  const ir::Node& node() const { return node_; }

 private:
  const WindowProgram& window_;
  const ir::Node& node_;
  std::span<const ir::Operand> operands_;
  size_t next_ = 0;
};

fusion::ReduceShape reduce_shape(const Operands& operands, const ir::Operand& in,
                                 const ir::Operand& out) {
  fusion::ReduceShape shape;
  shape.num_reduced = static_cast<int>(operands.high());
  shape.num_kept = in.rank - shape.num_reduced;
  for (size_t d = 0; d < in.rank; ++d) {
    shape.sizes[d] = operands.sizes(in)[d];
    shape.in_strides[d] = operands.stride(in, d);
    if (d < out.rank) shape.out_strides[d] = operands.stride(out, d);
  }
  return shape;
}

void run_reduce(Operands& operands) {
  const ir::Operand& in = operands.peek();
  const void* source = operands.take();
  const ir::Operand& out = operands.peek();
  fusion::reduce(static_cast<fusion::Reduce>(operands.low()), in.dtype, source, out.dtype,
                 operands.take(), reduce_shape(operands, in, out),
                 operands.node().numbers[1].real);
}

void run_reduce_with_index(Operands& operands) {
  const ir::Operand& in = operands.peek();
  const void* source = operands.take();
  const ir::Operand& out = operands.peek();
  void* values = operands.take();
  auto* indices = static_cast<int64_t*>(operands.take());
  fusion::reduce_with_index(operands.low() != 0, in.dtype, source, values, indices,
                            reduce_shape(operands, in, out));
}

RowShape row_shape(const Operands& operands, const ir::Operand& in) {
  RowShape shape;
  const auto dim = static_cast<size_t>(operands.high());
  const auto sizes = operands.sizes(in);
  for (size_t d = 0; d < sizes.size(); ++d) {
    (d < dim ? shape.outer : d == dim ? shape.size : shape.inner) *= sizes[d];
  }
  return shape;
}

void run_softmax(Operands& operands, bool is_backward) {
  const ir::Operand& in = operands.peek();
  const RowShape shape = row_shape(operands, in);
  const bool is_log = operands.low() != 0;
  const void* source = operands.take();
  if (!is_backward) {
    fusion::softmax(is_log, in.dtype, source, operands.take(), shape);
    return;
  }
  const void* result = operands.take();
  fusion::softmax_backward(is_log, in.dtype, source, result, operands.take(), shape);
}

void run_layer_norm(Operands& operands) {
  const int64_t mask = operands.low();
  const ir::Operand& in = operands.peek();
  const void* source = operands.take();
  const void* weight = operands.take_if((mask & 1) != 0);
  const void* bias = operands.take_if((mask & 2) != 0);
  void* out = operands.take();
  const ir::Operand& stats = operands.peek();
  void* mean = operands.take();
  void* rstd = operands.take();
  const int64_t rows = operands.numel(stats);
  fusion::layer_norm(in.dtype, source, weight, bias, operands.node().numbers[1].real,
                     rows, operands.numel(in) / rows, out, stats.dtype, mean, rstd);
}

void run_layer_norm_backward(Operands& operands) {
  const int64_t mask = operands.low();
  const ir::Operand& grad_operand = operands.peek();
  const void* grad = operands.take();
  const void* in = operands.take();
  const ir::Operand& stats = operands.peek();
  const void* mean = operands.take();
  const void* rstd = operands.take();
  const void* weight = operands.take_if((mask & 1) != 0);
  void* grad_in = operands.take_if((mask & 2) != 0);
  void* grad_weight = operands.take_if((mask & 4) != 0);
  void* grad_bias = operands.take_if((mask & 8) != 0);
  const int64_t rows = operands.numel(stats);
  fusion::layer_norm_backward(grad_operand.dtype, grad, in, stats.dtype, mean, rstd,
                              weight, rows, operands.numel(grad_operand) / rows, grad_in,
                              grad_weight, grad_bias);
}

Status run_nll_loss(Operands& operands) {
  const ir::Operand& in = operands.peek();
  const void* log_probs = operands.take();
  const int64_t rows = operands.numel(operands.peek());
  const auto* targets = static_cast<const int64_t*>(operands.take());
  const void* weight = operands.take_if(operands.high() != 0);
  void* out = operands.take();
  return fusion::nll_loss(in.dtype, log_probs, targets, weight,
                          static_cast<LossReduction>(operands.low()),
                          operands.node().numbers[1].integer, rows,
                          operands.numel(in) / rows, out, operands.take());
}

Status run_nll_loss_backward(Operands& operands) {
  const ir::Operand& grad_operand = operands.peek();
  const void* grad = operands.take();
  const int64_t grad_stride =
      grad_operand.rank == 0 ? 0 : operands.stride(grad_operand, 0);
  const int64_t rows = operands.numel(operands.peek());
  const auto* targets = static_cast<const int64_t*>(operands.take());
  const void* weight = operands.take_if(operands.high() != 0);
  const void* total_weight = operands.take();
  const ir::Operand& out = operands.peek();
  return fusion::nll_loss_backward(out.dtype, grad, grad_stride, targets, weight,
                                   static_cast<LossReduction>(operands.low()),
                                   operands.node().numbers[1].integer, total_weight, rows,
                                   operands.numel(out) / rows, operands.take());
}

// One stack of matrices: the last two dimensions of an operand. A vector is a column.
fusion::Matrices matrices_of(const Operands& operands, const ir::Operand& operand,
                             const void* data) {
  const size_t rank = operand.rank;
  if (rank == 1) return {data, operands.stride(operand, 0), 1, 0};
  return {data, operands.stride(operand, rank - 2), operands.stride(operand, rank - 1),
          rank == 3 ? operands.stride(operand, 0) : 0};
}

void run_matmul(Operands& operands) {
  const ir::Operand& a = operands.peek();
  const fusion::Matrices left = matrices_of(operands, a, operands.take());
  const ir::Operand& b = operands.peek();
  const fusion::Matrices right = matrices_of(operands, b, operands.take());
  fusion::Addend addend;
  if (operands.low() != 0) {  // one row for all, or a matrix
    const ir::Operand& added = operands.peek();
    addend.row = added.rank == 2 ? operands.stride(added, 0) : 0;
    addend.data = operands.take();
  }
  void* out = operands.take();
  fusion::MatmulSizes sizes;
  const auto left_sizes = operands.sizes(a);
  const auto right_sizes = operands.sizes(b);
  if (a.rank == 3) sizes.batch = left_sizes[0];
  sizes.m = left_sizes[a.rank - 2];
  sizes.k = left_sizes[a.rank - 1];
  sizes.n = b.rank == 1 ? 1 : right_sizes[b.rank - 1];
  fusion::matmul(a.dtype, sizes, left, right, addend, out);
}

fusion::RowIndices take_indices(Operands& operands) {
  const ir::Operand& operand = operands.peek();
  fusion::RowIndices indices;
  indices.dtype = operand.dtype;
  indices.count = operands.numel(operand);
  indices.wraps = operands.high() != 0;
  indices.data = operands.take();
  return indices;
}

fusion::RowTable take_table(Operands& operands) {
  const ir::Operand& operand = operands.peek();
  const int64_t extent = operands.sizes(operand)[0];
  const auto itemsize = static_cast<int64_t>(ir::itemsize_of(operand.dtype));
  return {operands.take(), extent, operands.numel(operand) / extent, itemsize};
}

Status run_gather_rows(Operands& operands) {
  const fusion::RowTable table = take_table(operands);
  const fusion::RowIndices indices = take_indices(operands);
  return fusion::gather_rows(table, indices, operands.take());
}

Status run_scatter_rows(Operands& operands) {
  const void* rows = operands.take();
  fusion::RowIndices indices = take_indices(operands);
  indices.skipped = operands.node().numbers[1].integer;
  const ir::DType dtype = operands.peek().dtype;
  return fusion::scatter_rows(static_cast<fusion::RowUpdate>(operands.low()), dtype, rows,
                              indices, take_table(operands));
}

fusion::CellShape cell_shape(const Operands& operands, const ir::Operand& state) {
  return {operands.sizes(state)[0], operands.sizes(state)[1]};
}

fusion::CellInputs take_biases(Operands& operands, fusion::CellInputs in) {
  in.input_bias = operands.take_if((operands.low() & 1) != 0);
  in.hidden_bias = operands.take_if((operands.low() & 2) != 0);
  return in;
}

void run_cell(Operands& operands, bool is_lstm) {
  fusion::CellInputs in;
  in.input_gates = operands.take();
  in.hidden_gates = operands.take();
  const ir::Operand& state = operands.peek();
  const fusion::CellShape shape = cell_shape(operands, state);
  const void* before = operands.take();
  in = take_biases(operands, in);
  void* hy = operands.take();
  void* cy = operands.take_if(is_lstm);
  void* workspace = operands.take();
  if (is_lstm) {
    fusion::lstm_cell(state.dtype, shape, in, before, hy, cy, workspace);
  } else {
    fusion::gru_cell(state.dtype, shape, in, before, hy, workspace);
  }
}

void run_lstm_cell_backward(Operands& operands) {
  const void* grad_hy = operands.take_if((operands.low() & 1) != 0);
  const void* grad_cy = operands.take_if((operands.low() & 2) != 0);
  const ir::Operand& state = operands.peek();
  const void* cx = operands.take();
  const void* cy = operands.take();
  const void* workspace = operands.take();
  void* grad_gates = operands.take();
  fusion::lstm_cell_backward(state.dtype, cell_shape(operands, state), grad_hy, grad_cy,
                             cx, cy, workspace, grad_gates, operands.take());
}

void run_gru_cell_backward(Operands& operands) {
  const ir::Operand& state = operands.peek();
  const void* grad = operands.take();
  const void* workspace = operands.take();
  void* grad_input = operands.take();
  void* grad_hidden = operands.take();
  fusion::gru_cell_backward(state.dtype, cell_shape(operands, state), grad, workspace,
                            grad_input, grad_hidden, operands.take());
}

Status run_rows_step(const device::Executable&, device::Program& program,
                     const device::Step& step) {
  const auto& window = static_cast<const WindowProgram&>(program);
  const ir::Node& node = window.graph.nodes[step.node];
  Operands operands(window, node);
  switch (static_cast<Native>(node.variant)) {
    case Native::kReduce:
      run_reduce(operands);
      return {};
    case Native::kReduceWithIndex:
      run_reduce_with_index(operands);
      return {};
    case Native::kSoftmax:
      run_softmax(operands, /*is_backward=*/false);
      return {};
    case Native::kSoftmaxBackward:
      run_softmax(operands, /*is_backward=*/true);
      return {};
    case Native::kLayerNorm:
      run_layer_norm(operands);
      return {};
    case Native::kLayerNormBackward:
      run_layer_norm_backward(operands);
      return {};
    case Native::kNllLoss:
      return run_nll_loss(operands);
    case Native::kNllLossBackward:
      return run_nll_loss_backward(operands);
    case Native::kMatmul:
      run_matmul(operands);
      return {};
    case Native::kGatherRows:
      return run_gather_rows(operands);
    case Native::kScatterRows:
      return run_scatter_rows(operands);
    case Native::kLstmCell:
      run_cell(operands, /*is_lstm=*/true);
      return {};
    case Native::kLstmCellBackward:
      run_lstm_cell_backward(operands);
      return {};
    case Native::kGruCell:
      run_cell(operands, /*is_lstm=*/false);
      return {};
    case Native::kGruCellBackward:
      run_gru_cell_backward(operands);
      return {};
    case Native::kNone:
      break;
  }
  fail_check(__FILE__, __LINE__, "an op was recorded without a call and has no kernel");
}

}  // namespace

const device::Executable& rows_executable() {
  static const device::Executable executable{&run_rows_step, nullptr};
  return executable;
}

}  // namespace neuron::lazy
