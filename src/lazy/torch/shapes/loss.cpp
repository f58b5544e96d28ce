// Losses that are not structured.
#include "lazy/torch/shapes/iterator.h"
#include "lazy/torch/shapes/table.h"

#include <algorithm>

namespace neuron::lazy::shapes {
namespace {

constexpr int64_t kNone = 0;  // at::Reduction::None

void binary_cross_entropy(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  if (args[3].toInt() != kNone) return out.set(0, {}, self.scalar_type());
  set_like(out, 0, self);
}

void cross_entropy_with_logits(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const at::Tensor& target = tensor(args[1]);
  TORCH_CHECK_VALUE(self.sizes() == target.sizes(), "Target size (", target.sizes(),
                    ") must be the same as input size (", self.sizes(), ")");
  if (args[4].toInt() != kNone) return out.set(0, {}, self.scalar_type());
  binary<0, 1>(args, out);
}

// grad_output, self, target: as broadcast, but a fresh gradient is contiguous.
void pair_backward(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[1]);
  if (!out.is_provided(0)) return set_contiguous_like(out, 0, self);
  broadcast(out, self.scalar_type(), self, tensor(args[2]), tensor(args[0]));
}

void huber_loss(const IValue* args, ShapeOutputs& out) {
  TORCH_CHECK(args[3].toDouble() > 0,
              "huber_loss does not support non-positive values for delta.");
  if (args[2].toInt() == kNone) return binary<0, 1>(args, out);
  out.set(0, {}, tensor(args[0]).scalar_type());
}

void nll_loss2d(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const at::Tensor& target = tensor(args[1]);
  TORCH_CHECK(target.dim() == 3,
              "only batches of spatial targets supported (3D tensors) but got "
              "targets of dimension: ",
              target.dim());
  TORCH_CHECK(self.dim() == 4,
              "only batches of spatial inputs supported (4D tensors), but got "
              "input of dimension: ",
              self.dim());
  TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) &&
                  self.size(3) == target.size(2),
              "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
  const auto weight = maybe_tensor(args[2]);
  TORCH_CHECK(!weight.has_value() || weight->numel() == self.size(1),
              "weight tensor should be defined either for all or no classes");
  if (args[3].toInt() == kNone) {
    out.set(0, target.sizes(), self.scalar_type());
  } else {
    out.set(0, {}, self.scalar_type());
  }
  out.set(1, {}, self.scalar_type());
}

void multi_margin_loss(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const at::Tensor& target = tensor(args[1]);
  TORCH_CHECK(args[2].toScalar().toDouble() == 1 || args[2].toScalar().toDouble() == 2,
              "only p == 1 and p == 2 supported");
  if (args[5].toInt() == kNone && target.dim() > 0) {
    return out.set(0, {target.numel()}, self.scalar_type());
  }
  out.set(0, {}, self.scalar_type());
}

void multilabel_margin_loss(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  if (args[2].toInt() == kNone && self.dim() > 1) {
    out.set(0, {self.size(0)}, self.scalar_type());
  } else {
    out.set(0, {}, self.scalar_type());
  }
  out.set(1, tensor(args[1]).sizes(), self.scalar_type());
}

void ctc_loss(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& log_probs = tensor(args[0]);
  const at::DimVector target_lengths = ints(args[3]);
  const int64_t batch = log_probs.size(1);
  TORCH_CHECK(static_cast<int64_t>(ints(args[2]).size()) == batch,
              "input_lengths must be of size batch_size");
  TORCH_CHECK(static_cast<int64_t>(target_lengths.size()) == batch,
              "target_lengths must be of size batch_size");
  int64_t longest = 0;
  for (const int64_t length : target_lengths) longest = std::max(longest, length);
  out.set(0, {batch}, log_probs.scalar_type());
  out.set(1, {batch, log_probs.size(0), 2 * longest + 1}, log_probs.scalar_type());
}

}  // namespace

Rows loss_rows() {
  static constexpr Row rows[] = {
      {"aten::binary_cross_entropy", &binary_cross_entropy},
      {"aten::binary_cross_entropy.out", &binary_cross_entropy},
      {"aten::binary_cross_entropy_backward", &like<1>},
      {"aten::binary_cross_entropy_backward.grad_input", &like<1>},
      {"aten::binary_cross_entropy_with_logits", &cross_entropy_with_logits},
      {"aten::mse_loss_backward", &pair_backward},
      {"aten::mse_loss_backward.grad_input", &pair_backward},
      {"aten::smooth_l1_loss_backward", &pair_backward},
      {"aten::smooth_l1_loss_backward.grad_input", &pair_backward},
      {"aten::huber_loss_backward", &pair_backward},
      {"aten::huber_loss_backward.out", &pair_backward},
      {"aten::huber_loss", &huber_loss},
      {"aten::huber_loss.out", &huber_loss},
      {"aten::nll_loss2d_forward", &nll_loss2d},
      {"aten::nll_loss2d_forward.output", &nll_loss2d},
      {"aten::nll_loss2d_backward", &contiguous_like<1>},
      {"aten::nll_loss2d_backward.grad_input", &contiguous_like<1>},
      {"aten::multi_margin_loss", &multi_margin_loss},
      {"aten::multi_margin_loss.out", &multi_margin_loss},
      {"aten::multi_margin_loss_backward", &contiguous_like<1>},
      {"aten::multi_margin_loss_backward.grad_input", &contiguous_like<1>},
      {"aten::multilabel_margin_loss_forward", &multilabel_margin_loss},
      {"aten::multilabel_margin_loss_forward.output", &multilabel_margin_loss},
      {"aten::multilabel_margin_loss_backward", &contiguous_like<1>},
      {"aten::multilabel_margin_loss_backward.grad_input", &contiguous_like<1>},
      {"aten::glu_backward", &contiguous_like<1>},
      {"aten::glu_backward.grad_input", &contiguous_like<1>},
      {"aten::glu_jvp", &like<0>},
      {"aten::glu_backward_jvp", &like<0>},
      {"aten::_ctc_loss", &ctc_loss},
      {"aten::_ctc_loss_backward", &contiguous_like<1>},
      {"aten::_ctc_loss_backward.Tensor", &contiguous_like<1>},
  };
  return rows;
}

}  // namespace neuron::lazy::shapes
