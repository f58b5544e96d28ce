// Softmax and layer norm as one op each, with the node of their gradient, and the
// gradients without boxing. Other calls than those of dense floating tensors of one type
// go to PyTorch's composite, or to the boxed recorder.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/layer_norm_native.h>
#include <ATen/ops/log_softmax_native.h>
#include <ATen/ops/softmax_native.h>

#include <array>

#include "lazy/torch/autograd_node.h"
#include "lazy/torch/lower_rows.h"
#include "lazy/torch/pointwise_entry.h"
#include "lazy/torch/register.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {
namespace {

using at::Tensor;
using c10::DispatchKeySet;
using ir::Op;
namespace nodes = torch::autograd::generated;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using OptionalDtype = std::optional<at::ScalarType>;

// --- softmax -------------------------------------------------------------------------

template <bool kIsLog>
Tensor record_softmax_of(const Tensor& self, int64_t dim) {
  static OpTrack& track = track_op(kIsLog ? "aten::_log_softmax" : "aten::_softmax");
  Tensor out = make_tensor_like(self);
  record_softmax(kIsLog ? Op::kInternalLogSoftmax : Op::kInternalSoftmax, kIsLog, self,
                 dim, out);
  track.calls.fetch_add(1, std::memory_order_relaxed);
  return out;
}

template <bool kIsLog, class Node>
Tensor softmax(DispatchKeySet keys, const Tensor& self, int64_t dim,
               OptionalDtype dtype) {
  const int64_t d = dim < 0 ? dim + self.dim() : dim;
  if (is_ordinary(keys, self) && is_plain(self) && d >= 0 && d < self.dim() &&
      dtype.value_or(self.scalar_type()) == self.scalar_type()) {
    const auto run = [&] { return record_softmax_of<kIsLog>(self, d); };
    if (needs_no_gradient(self)) return run();
    return with_unary_node<Node>(self, run, [&](Node& node) {
      node.dim = dim;
      node.self_scalar_type = self.scalar_type();
    });
  }
  if constexpr (kIsLog) {
    return at::native::log_softmax(self, dim, dtype);
  } else {
    return at::native::softmax(self, dim, dtype);
  }
}

template <bool kIsLog>
Tensor softmax_backward(const Tensor& grad, const Tensor& result, int64_t dim,
                        at::ScalarType dtype) {
  static const PointwiseEntry entry(
      kIsLog ? Op::kInternalLogSoftmaxBackwardData : Op::kInternalSoftmaxBackwardData,
      kIsLog ? "aten::_log_softmax_backward_data" : "aten::_softmax_backward_data", "");
  const int64_t d = dim < 0 ? dim + grad.dim() : dim;
  if (!is_plain(grad) || !is_same_plain(grad, result) || dtype != grad.scalar_type() ||
      d < 0 || d >= grad.dim()) {
    return entry.record_slow(grad, result, dim, dtype);
  }
  Tensor out = make_tensor_like(grad);
  record_softmax_backward(entry.op, kIsLog, grad, result, d, out);
  entry.track->calls.fetch_add(1, std::memory_order_relaxed);
  return out;
}

// --- layer norm ----------------------------------------------------------------------

// Sizes of the mean and of the reciprocal deviation: 1 where the norm goes over.
at::DimVector statistics_sizes(const Tensor& input, size_t normalized) {
  at::DimVector sizes(input.sizes().begin(), input.sizes().end());
  std::fill(sizes.end() - static_cast<int64_t>(normalized), sizes.end(), 1);
  return sizes;
}

bool is_affine(const Tensor& tensor, const Tensor& input, at::IntArrayRef shape) {
  return !tensor.defined() ||
         (is_plain(tensor) && tensor.sizes() == shape &&
          tensor.dtype() == input.dtype() && tensor.device() == input.device());
}

// Types whose statistics have the type of the input.
bool is_normalized(const Tensor& input, at::IntArrayRef shape) {
  return is_plain(input) &&
         (input.scalar_type() == at::kFloat || input.scalar_type() == at::kDouble) &&
         !shape.empty() && shape.size() <= input.sizes().size() &&
         input.sizes().slice(input.sizes().size() - shape.size()) == shape;
}

Three normalize(const Tensor& input, at::IntArrayRef shape, const Tensor& weight,
                const Tensor& bias, double eps) {
  static OpTrack& track = track_op("aten::native_layer_norm");
  const at::DimVector sizes = statistics_sizes(input, shape.size());
  const int device = input.device().index();
  Tensor out = make_tensor_like(input);
  Tensor mean = make_tensor(sizes, {}, input.scalar_type(), device);
  Tensor rstd = make_tensor(sizes, {}, input.scalar_type(), device);
  record_layer_norm(input, weight, bias, eps, out, mean, rstd);
  track.calls.fetch_add(1, std::memory_order_relaxed);
  return {std::move(out), std::move(mean), std::move(rstd)};
}

Tensor layer_norm(DispatchKeySet keys, const Tensor& input, c10::SymIntArrayRef sizes,
                  const std::optional<Tensor>& weight_option,
                  const std::optional<Tensor>& bias_option, double eps, bool cudnn) {
  const Tensor weight = weight_option.value_or(Tensor());
  const Tensor bias = bias_option.value_or(Tensor());
  const auto shape = c10::asIntArrayRefSlowOpt(sizes);
  if (!shape.has_value() || !is_ordinary(keys, input, weight, bias) ||
      !is_normalized(input, *shape) || !is_affine(weight, input, *shape) ||
      !is_affine(bias, input, *shape)) {
    return at::native::layer_norm_symint(input, sizes, weight_option, bias_option, eps,
                                         cudnn);
  }
  if (!torch::autograd::compute_requires_grad(input, weight, bias)) {
    return std::get<0>(normalize(input, *shape, weight, bias, eps));
  }
  const auto node = make_node<nodes::NativeLayerNormBackward0>(input, weight, bias);
  node->input_ = saved_input(input);
  node->weight_ = saved_input(weight);
  node->bias_ = saved_input(bias);
  node->normalized_shape = sizes.vec();
  const auto [out, mean, rstd] = normalize(input, *shape, weight, bias, eps);
  // The statistics have no gradient of their own: the backward of this node covers it.
  torch::autograd::set_history(out, node);
  node->result1_ = saved_result(mean);
  node->result2_ = saved_result(rstd);
  return out;
}

Three layer_norm_backward(const Tensor& grad, const Tensor& input,
                          c10::SymIntArrayRef sizes, const Tensor& mean,
                          const Tensor& rstd, const std::optional<Tensor>& weight_option,
                          const std::optional<Tensor>& bias_option,
                          std::array<bool, 3> wanted) {
  static const PointwiseEntry entry(Op::kNativeLayerNormBackward,
                                    "aten::native_layer_norm_backward", "");
  const Tensor weight = weight_option.value_or(Tensor());
  const Tensor bias = bias_option.value_or(Tensor());
  const auto shape = c10::asIntArrayRefSlowOpt(sizes);
  const bool is_native =
      shape.has_value() && is_normalized(input, *shape) && is_plain(grad) &&
      is_same_plain(input, grad) && is_affine(weight, input, *shape) &&
      is_affine(bias, input, *shape) && is_plain(mean) && is_plain(rstd) &&
      mean.dtype() == input.dtype() && (wanted[0] || wanted[1] || wanted[2]) &&
      (weight.defined() || !wanted[1]) && (bias.defined() || !wanted[2]);
  if (!is_native) {
    torch::jit::Stack stack{
        grad,        input,
        sizes,       mean,
        rstd,        weight_option,
        bias_option, c10::List<bool>({wanted[0], wanted[1], wanted[2]})};
    record_boxed(entry.handle, {}, &stack);
    return {stack[0].toTensor(), stack[1].toTensor(), stack[2].toTensor()};
  }
  Three out;
  if (wanted[0]) std::get<0>(out) = make_tensor_like(input);
  if (wanted[1]) std::get<1>(out) = make_tensor_like(weight);
  if (wanted[2]) std::get<2>(out) = make_tensor_like(bias);
  record_layer_norm_backward(grad, input, mean, rstd, weight, std::get<0>(out),
                             std::get<1>(out), std::get<2>(out));
  entry.track->calls.fetch_add(1, std::memory_order_relaxed);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("softmax.int", TORCH_FN((softmax<false, nodes::SoftmaxBackward0>)));
  m.impl("log_softmax.int", TORCH_FN((softmax<true, nodes::LogSoftmaxBackward0>)));
  m.impl("layer_norm", TORCH_FN(layer_norm));
}

void register_norm_ops(Registrar& m) {
  m.impl("_softmax_backward_data", TORCH_FN(softmax_backward<false>));
  m.impl("_log_softmax_backward_data", TORCH_FN(softmax_backward<true>));
  m.impl("native_layer_norm_backward", TORCH_FN(layer_norm_backward));
}

}  // namespace neuron::lazy
