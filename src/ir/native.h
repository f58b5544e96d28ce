// Native ops that are not pointwise: nodes without a call whose kernel is our own.
#pragma once

#include <cstdint>

namespace neuron::ir {

/// What a node without call and code runs (Node::variant). Operands are the inputs, then
/// the outputs, optional ones left out; n0 and n1 are the node's numbers, both integers
/// unless said otherwise.
enum class Native : uint16_t {
  kNone,
  /// in [kept..., reduced...], out [kept...]. n0: fusion::Reduce + 256 * reduced
  /// dimensions; n1 (real): correction.
  kReduce,
  /// in, values, indices. n0: (1 for max, 0 for min) + 256 * reduced dimensions.
  kReduceWithIndex,
  /// in, out; contiguous. n0: (1 for log) + 256 * dimension.
  kSoftmax,
  /// gradient, result, gradient of the input; as kSoftmax.
  kSoftmaxBackward,
  /// in, [weight], [bias], out, mean, rstd. n0: 1 weight + 2 bias; n1 (real): eps.
  kLayerNorm,
  /// gradient, in, mean, rstd, [weight], [of in], [of weight], [of bias].
  /// n0: 1 weight + 2, 4, 8 for the gradients.
  kLayerNormBackward,
  /// log-probabilities, targets, [weight], out, total weight.
  /// n0: fusion::LossReduction + 256 for weight; n1: ignored index.
  kNllLoss,
  /// gradient, targets, [weight], total weight, gradient of the input; as kNllLoss.
  kNllLossBackward,
  /// a, b, [bias], out: matrices, stacks of matrices, or a matrix and a vector; the
  /// strides of a and b are stored. n0: 1 for bias.
  kMatmul,
  /// table, indices, out: rows of the table. n0: 256 where a negative index counts from
  /// the end.
  kGatherRows,
  /// rows, indices, table. n0: fusion::RowUpdate + 256 as kGatherRows; n1: an index that
  /// is skipped.
  kScatterRows,
  /// input gates, hidden gates, cx, [input bias], [hidden bias], hy, cy, workspace.
  /// n0: 1 input bias + 2 hidden bias.
  kLstmCell,
  /// [grad of hy], [grad of cy], cx, cy, workspace, of the gates, of cx.
  /// n0: 1 grad of hy + 2 grad of cy.
  kLstmCellBackward,
  /// input gates, hidden gates, hx, [input bias], [hidden bias], hy, workspace; n0 as
  /// kLstmCell.
  kGruCell,
  /// gradient, workspace, of the input's gates, of the hidden gates, of hx.
  kGruCellBackward,
};

}  // namespace neuron::ir
