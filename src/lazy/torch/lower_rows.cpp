// Lowerings of reductions, normalisations and losses to native nodes.
#include "lazy/torch/lower_rows.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/core/Reduction.h>

#include <cmath>

#include "lazy/torch/lower.h"
#include "lazy/torch/pointwise_call.h"
#include "lazy/torch/row_node.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {
namespace {

using at::Tensor;
using fusion::Reduce;
using ir::Native;
using ir::Operand;

bool is_native_float(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf ||
         dtype == at::kBFloat16;
}

bool is_usable(const Tensor& tensor) {
  return is_neuron(tensor) && tensor.numel() > 0 && !tensor.is_conj() && !tensor.is_neg();
}

ir::DType dtype_of(const Tensor& tensor) {
  return static_cast<ir::DType>(tensor.scalar_type());
}

// The tensor itself, or a recorded copy of it in row-major order.
Tensor dense(const Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  Tensor copy =
      make_tensor(tensor.sizes(), {}, tensor.scalar_type(), tensor.device().index());
  PointwiseCall call;
  call.input(tensor);
  call.record(ir::Op::kContiguous, ir::Code::kCopy, tensor.scalar_type(), copy);
  return copy;
}

// --- reductions -----------------------------------------------------------------------

// The reduced dimensions that an argument names: an integer, a list, or all.
ReducedDims dims_of(const Tensor& self, const c10::IValue* dim) {
  ReducedDims dims;
  const int64_t rank = self.dim();
  const auto mark = [&](int64_t d) {
    if (rank == 0) return;
    const int64_t wrapped = at::maybe_wrap_dim(d, rank);
    if (!dims.is_reduced[wrapped]) ++dims.num_reduced;
    dims.is_reduced[wrapped] = true;
  };
  if (dim != nullptr && dim->isInt()) {
    mark(dim->toInt());
  } else if (dim != nullptr && dim->isIntList() && !dim->toIntList().empty()) {
    for (const int64_t d : dim->toIntList()) mark(d);
  } else {
    for (int64_t d = 0; d < rank; ++d) mark(d);
  }
  return dims;
}

}  // namespace

void record_softmax(ir::Op op, bool is_log, const Tensor& self, int64_t dim,
                    const Tensor& out) {
  RowNode call(op, Native::kSoftmax);
  call.read(self);
  call.write(out);
  call.set_integer(0, (is_log ? 1 : 0) + 256 * dim);
  call.record();
}

void record_softmax_backward(ir::Op op, bool is_log, const Tensor& grad,
                             const Tensor& result, int64_t dim, const Tensor& out) {
  RowNode call(op, Native::kSoftmaxBackward);
  call.read(grad);
  call.read(result);
  call.write(out);
  call.set_integer(0, (is_log ? 1 : 0) + 256 * dim);
  call.record();
}

void record_layer_norm(const Tensor& self, const Tensor& weight, const Tensor& bias,
                       double eps, const Tensor& out, const Tensor& mean,
                       const Tensor& rstd) {
  RowNode call(ir::Op::kNativeLayerNorm, Native::kLayerNorm);
  call.read(self);
  if (weight.defined()) call.read(weight);
  if (bias.defined()) call.read(bias);
  call.write(out);
  call.write(mean);
  call.write(rstd);
  call.set_integer(0, (weight.defined() ? 1 : 0) + (bias.defined() ? 2 : 0));
  call.set_real(1, eps);
  call.record();
}

void record_layer_norm_backward(const Tensor& grad, const Tensor& self,
                                const Tensor& mean, const Tensor& rstd,
                                const Tensor& weight, const Tensor& grad_input,
                                const Tensor& grad_weight, const Tensor& grad_bias) {
  RowNode call(ir::Op::kNativeLayerNormBackward, Native::kLayerNormBackward);
  call.read(grad);
  call.read(self);
  call.read(mean);
  call.read(rstd);
  if (weight.defined()) call.read(weight);
  int64_t mask = weight.defined() ? 1 : 0;
  int64_t bit = 2;
  for (const Tensor* out : {&grad_input, &grad_weight, &grad_bias}) {
    if (out->defined()) {
      call.write(*out);
      mask |= bit;
    }
    bit *= 2;
  }
  call.set_integer(0, mask);
  call.record();
}

bool record_reduce(ir::Op op, Native native, int64_t kind, double correction,
                   const Tensor& self, const ReducedDims& dims,
                   std::initializer_list<Tensor> outs) {
  constexpr int kMaxRank = ReducedDims::kMaxRank;
  const Tensor& out = *outs.begin();
  if (self.dim() > kMaxRank) return false;
  int64_t in_sizes[kMaxRank], in_strides[kMaxRank], out_strides[kMaxRank];
  const bool keeps = out.dim() == self.dim();
  int kept = 0;
  int64_t out_dim = 0;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (dims.is_reduced[d]) {
      if (keeps) ++out_dim;
      continue;
    }
    in_sizes[kept] = self.sizes()[d];
    in_strides[kept] = self.strides()[d];
    out_strides[kept] = out.strides()[out_dim++];
    ++kept;
  }
  int rank = kept;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (!dims.is_reduced[d]) continue;
    in_sizes[rank] = self.sizes()[d];
    in_strides[rank] = self.strides()[d];
    ++rank;
  }
  RowNode call(op, native);
  OperandSpec& in = call.read(self);
  in.sizes = in_sizes;
  in.strides = in_strides;
  in.rank = static_cast<uint8_t>(rank);
  for (const Tensor& tensor : outs) {
    OperandSpec& written = call.write(tensor);
    written.sizes = in_sizes;
    written.strides = out_strides;
    written.rank = static_cast<uint8_t>(kept);
  }
  call.set_integer(0, kind + 256 * dims.num_reduced);
  if (native == Native::kReduce) call.set_real(1, correction);
  call.record();
  return true;
}

namespace {

bool lower_reduce(const LowerArgs& a, Reduce reduce, const c10::IValue* dim,
                  double correction = 1.0) {
  const Tensor& self = a.args[0].toTensor();
  const Tensor& out = a.outputs.get(0);
  if (!is_usable(self) || !is_neuron(out) ||
      !fusion::can_reduce(reduce, dtype_of(self), dtype_of(out))) {
    return false;
  }
  return record_reduce(a.op, Native::kReduce, static_cast<int64_t>(reduce), correction,
                       self, dims_of(self, dim), {out});
}

// sum(self, dtype), sum.dim_IntList(self, dim, keepdim, dtype) and the like.
template <Reduce kReduce>
bool lower_sum(const LowerArgs& a) {
  const bool has_dim = a.num_args >= 4;
  return lower_reduce(a, kReduce, has_dim ? &a.args[1] : nullptr);
}

template <Reduce kReduce>
bool lower_over_dim(const LowerArgs& a) {
  return lower_reduce(a, kReduce, a.num_args > 1 ? &a.args[1] : nullptr);
}

// max(self), max.dim(self, dim, keepdim), max.other(self, other)
template <bool kIsMax>
bool lower_max(const LowerArgs& a) {
  if (a.num_args == 1)
    return lower_reduce(a, kIsMax ? Reduce::kAmax : Reduce::kAmin, nullptr);
  if (!a.args[1].isInt()) return false;
  const Tensor& self = a.args[0].toTensor();
  const Tensor& values = a.outputs.get(0);
  const Tensor& indices = a.outputs.get(1);
  if (!is_usable(self) || !is_neuron(values) || !is_neuron(indices) ||
      values.strides() != indices.strides() || values.dtype() != self.dtype() ||
      !fusion::can_reduce(kIsMax ? Reduce::kArgmax : Reduce::kArgmin, dtype_of(self),
                          ir::DType::kInt64)) {
    return false;
  }
  return record_reduce(a.op, Native::kReduceWithIndex, kIsMax ? 1 : 0, 0, self,
                       dims_of(self, &a.args[1]), {values, indices});
}

// argmax(self, dim, keepdim): without a dimension the index counts all elements.
template <Reduce kReduce>
bool lower_argmax(const LowerArgs& a) {
  return lower_reduce(a, kReduce, &a.args[1]);
}

// var.correction(self, dim, correction, keepdim)
template <Reduce kReduce>
bool lower_var(const LowerArgs& a) {
  if (a.num_args < 4 || !(a.args[1].isNone() || a.args[1].isIntList())) return false;
  const double correction = a.args[2].isScalar() ? a.args[2].toScalar().toDouble() : 1.0;
  return lower_reduce(a, kReduce, &a.args[1], correction);
}

// linalg_vector_norm(self, ord, dim, keepdim, dtype)
bool lower_vector_norm(const LowerArgs& a) {
  const double ord = a.args[1].toScalar().toDouble();
  if (ord == 2) return lower_reduce(a, Reduce::kNorm2, &a.args[2]);
  if (ord == 1) return lower_reduce(a, Reduce::kNorm1, &a.args[2]);
  if (std::isinf(ord) && ord > 0) return lower_reduce(a, Reduce::kNormInf, &a.args[2]);
  return false;
}

// --- rows -----------------------------------------------------------------------------

bool are_contiguous(std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* tensor : tensors) {
    if (!is_neuron(*tensor) || !tensor->is_contiguous()) return false;
  }
  return true;
}

// _softmax(self, dim, half_to_float)
template <bool kIsLog>
bool lower_softmax(const LowerArgs& a) {
  const Tensor& self = a.args[0].toTensor();
  const Tensor& out = a.outputs.get(0);
  if (!is_usable(self) || !is_native_float(self.scalar_type()) ||
      out.dtype() != self.dtype() || !are_contiguous({&out})) {
    return false;
  }
  const int64_t dim =
      self.dim() == 0 ? 0 : at::maybe_wrap_dim(a.args[1].toInt(), self.dim());
  record_softmax(a.op, kIsLog, dense(self), dim, out);
  return true;
}

// _softmax_backward_data(grad, output, dim, dtype)
template <bool kIsLog>
bool lower_softmax_backward(const LowerArgs& a) {
  const Tensor& grad = a.args[0].toTensor();
  const Tensor& result = a.args[1].toTensor();
  const Tensor& out = a.outputs.get(0);
  if (!is_usable(grad) || !is_usable(result) || !is_native_float(grad.scalar_type()) ||
      result.dtype() != grad.dtype() || out.dtype() != grad.dtype() ||
      grad.sizes() != result.sizes() || !are_contiguous({&out})) {
    return false;
  }
  const int64_t dim =
      grad.dim() == 0 ? 0 : at::maybe_wrap_dim(a.args[2].toInt(), grad.dim());
  record_softmax_backward(a.op, kIsLog, dense(grad), dense(result), dim, out);
  return true;
}

// An optional argument: undefined, or of the dtype `like`.
bool has_dtype(const c10::IValue& value, const Tensor& like) {
  return !value.isTensor() || !value.toTensor().defined() ||
         (is_usable(value.toTensor()) && value.toTensor().dtype() == like.dtype());
}
Tensor optional_dense(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined()) return {};
  return dense(value.toTensor());
}

// native_layer_norm(input, normalized_shape, weight, bias, eps)
bool lower_layer_norm(const LowerArgs& a) {
  const Tensor& self = a.args[0].toTensor();
  const Tensor& out = a.outputs.get(0);
  const Tensor& mean = a.outputs.get(1);
  const Tensor& rstd = a.outputs.get(2);
  if (!is_usable(self) || !is_native_float(self.scalar_type()) ||
      !has_dtype(a.args[2], self) || !has_dtype(a.args[3], self) ||
      !are_contiguous({&out, &mean, &rstd}) || out.dtype() != self.dtype()) {
    return false;
  }
  record_layer_norm(dense(self), optional_dense(a.args[2]), optional_dense(a.args[3]),
                    a.args[4].toDouble(), out, mean, rstd);
  return true;
}

// native_layer_norm_backward(grad, input, normalized_shape, mean, rstd, weight, bias,
// mask)
bool lower_layer_norm_backward(const LowerArgs& a) {
  const Tensor& grad = a.args[0].toTensor();
  const Tensor& self = a.args[1].toTensor();
  const Tensor& mean = a.args[3].toTensor();
  const Tensor& rstd = a.args[4].toTensor();
  if (!is_usable(grad) || !is_usable(self) || !is_native_float(self.scalar_type()) ||
      grad.dtype() != self.dtype() || !has_dtype(a.args[5], self) ||
      !has_dtype(a.args[6], self) || !is_usable(mean) || !is_usable(rstd)) {
    return false;
  }
  bool writes = false;
  for (int i = 0; i < 3; ++i) {
    const Tensor& out = a.outputs.get(i);
    if (!out.defined()) continue;
    if (!are_contiguous({&out}) || out.dtype() != self.dtype()) return false;
    writes = true;
  }
  if (!writes) return false;
  record_layer_norm_backward(dense(grad), dense(self), dense(mean), dense(rstd),
                             optional_dense(a.args[5]), a.outputs.get(0),
                             a.outputs.get(1), a.outputs.get(2));
  return true;
}

int64_t loss_reduction(int64_t reduction) {
  return static_cast<int64_t>(
      reduction == at::Reduction::Mean  ? fusion::LossReduction::kMean
      : reduction == at::Reduction::Sum ? fusion::LossReduction::kSum
                                        : fusion::LossReduction::kNone);
}

bool can_lower_nll(const Tensor& log_probs, const Tensor& target,
                   const c10::IValue& weight) {
  return is_usable(log_probs) && is_usable(target) && target.scalar_type() == at::kLong &&
         is_native_float(log_probs.scalar_type()) && log_probs.dim() >= 1 &&
         log_probs.dim() <= 2 && has_dtype(weight, log_probs);
}

// nll_loss_forward(self, target, weight, reduction, ignore_index)
bool lower_nll_loss(const LowerArgs& a) {
  const Tensor& self = a.args[0].toTensor();
  const Tensor& target = a.args[1].toTensor();
  const Tensor& out = a.outputs.get(0);
  const Tensor& total = a.outputs.get(1);
  if (!can_lower_nll(self, target, a.args[2]) || !are_contiguous({&out, &total})) {
    return false;
  }
  RowNode call(a.op, Native::kNllLoss);
  const Tensor in = dense(self);
  const Tensor targets = dense(target);
  const Tensor weight = optional_dense(a.args[2]);
  call.read(in);
  call.read(targets);
  if (weight.defined()) call.read(weight);
  call.write(out);
  call.write(total);
  call.set_integer(0, loss_reduction(a.args[3].toInt()) + (weight.defined() ? 256 : 0));
  call.set_integer(1, a.args[4].toInt());
  call.record();
  return true;
}

// nll_loss_backward(grad, self, target, weight, reduction, ignore_index, total_weight)
bool lower_nll_loss_backward(const LowerArgs& a) {
  const Tensor& grad = a.args[0].toTensor();
  const Tensor& self = a.args[1].toTensor();
  const Tensor& target = a.args[2].toTensor();
  const Tensor& total = a.args[6].toTensor();
  const Tensor& out = a.outputs.get(0);
  if (!can_lower_nll(self, target, a.args[3]) || !is_usable(grad) || !is_usable(total) ||
      grad.dtype() != self.dtype() || total.dtype() != self.dtype() || grad.dim() > 1 ||
      out.dtype() != self.dtype() || !are_contiguous({&out})) {
    return false;
  }
  RowNode call(a.op, Native::kNllLossBackward);
  const Tensor targets = dense(target);
  const Tensor weight = optional_dense(a.args[3]);
  call.read(grad);
  call.read(targets);
  if (weight.defined()) call.read(weight);
  call.read(total);
  call.write(out);
  call.set_integer(0, loss_reduction(a.args[4].toInt()) + (weight.defined() ? 256 : 0));
  call.set_integer(1, a.args[5].toInt());
  call.record();
  return true;
}

// --- losses that are a pointwise op and its mean or sum
// -----------------------------------

// `code` of the inputs into a tensor of its own, then reduced into the output.
bool lower_loss(const LowerArgs& a, ir::Code code, int64_t reduction,
                const double* number) {
  const Tensor& self = a.args[0].toTensor();
  const Tensor& target = a.args[1].toTensor();
  const Tensor& out = a.outputs.get(0);
  if (!is_usable(self) || !is_usable(target) || !is_native_float(self.scalar_type()) ||
      target.dtype() != self.dtype() || target.sizes() != self.sizes() ||
      !is_neuron(out) || out.dtype() != self.dtype()) {
    return false;
  }
  const bool reduces = reduction != at::Reduction::None;
  Tensor each = out;
  if (reduces) {
    each = make_tensor(self.sizes(), {}, self.scalar_type(), self.device().index());
  }
  PointwiseCall call;
  call.input(self);
  call.input(target);
  if (number != nullptr) call.input(at::Scalar(*number));
  if (!call.record(a.op, code, self.scalar_type(), each)) return false;
  if (!reduces) return true;
  const Reduce reduce = reduction == at::Reduction::Mean ? Reduce::kMean : Reduce::kSum;
  return record_reduce(a.op, Native::kReduce, static_cast<int64_t>(reduce), 1.0, each,
                       dims_of(each, nullptr), {out});
}

bool lower_mse_loss(const LowerArgs& a) {
  return lower_loss(a, ir::Code::kSquaredError, a.args[2].toInt(), nullptr);
}
bool lower_smooth_l1_loss(const LowerArgs& a) {
  const double beta = a.args[3].toDouble();
  return lower_loss(a, ir::Code::kSmoothL1, a.args[2].toInt(), &beta);
}
// binary_cross_entropy_with_logits(self, target, weight, pos_weight, reduction)
bool lower_bce_with_logits(const LowerArgs& a) {
  const auto is_given = [&](int i) {
    return a.args[i].isTensor() && a.args[i].toTensor().defined();
  };
  if (is_given(2) || is_given(3)) return false;
  return lower_loss(a, ir::Code::kBceWithLogits, a.args[4].toInt(), nullptr);
}

}  // namespace

const LowerTable& row_lowerings() {
  static const auto* made = new LowerTable{
      {"aten::sum", &lower_sum<Reduce::kSum>},
      {"aten::mean", &lower_sum<Reduce::kMean>},
      {"aten::prod", &lower_sum<Reduce::kProd>},
      {"aten::amax", &lower_over_dim<Reduce::kAmax>},
      {"aten::amin", &lower_over_dim<Reduce::kAmin>},
      {"aten::any", &lower_over_dim<Reduce::kAny>},
      {"aten::all", &lower_over_dim<Reduce::kAll>},
      {"aten::max", &lower_max<true>},
      {"aten::min", &lower_max<false>},
      {"aten::argmax", &lower_argmax<Reduce::kArgmax>},
      {"aten::argmin", &lower_argmax<Reduce::kArgmin>},
      {"aten::var", &lower_var<Reduce::kVar>},
      {"aten::std", &lower_var<Reduce::kStd>},
      {"aten::linalg_vector_norm", &lower_vector_norm},
      {"aten::_softmax", &lower_softmax<false>},
      {"aten::_log_softmax", &lower_softmax<true>},
      {"aten::_softmax_backward_data", &lower_softmax_backward<false>},
      {"aten::_log_softmax_backward_data", &lower_softmax_backward<true>},
      {"aten::native_layer_norm", &lower_layer_norm},
      {"aten::native_layer_norm_backward", &lower_layer_norm_backward},
      {"aten::nll_loss_forward", &lower_nll_loss},
      {"aten::nll_loss_backward", &lower_nll_loss_backward},
      {"aten::mse_loss", &lower_mse_loss},
      {"aten::smooth_l1_loss", &lower_smooth_l1_loss},
      {"aten::binary_cross_entropy_with_logits", &lower_bce_with_logits},
  };
  return *made;
}

}  // namespace neuron::lazy
