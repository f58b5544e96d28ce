// Pointwise ops that are not structured.
#include "lazy/torch/shapes/iterator.h"
#include "lazy/torch/shapes/table.h"

#include <c10/core/DefaultDtype.h>

namespace neuron::lazy::shapes {
namespace {

// abs and angle of complex numbers are real; angle of integers is floating.
void to_real(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  if (!self.is_complex()) return unary(args, out);
  const at::ScalarType real = c10::toRealValueType(self.scalar_type());
  if (!out.is_provided(0)) return set_like(out, 0, self, real);
  const at::Tensor& given = out.get(0);
  if (!given.is_complex()) {
    TORCH_CHECK(c10::canCast(real, given.scalar_type()), "result type ", real,
                " can't be cast to the desired output type ", given.scalar_type());
  }
  out.set(0, self.sizes(), given.scalar_type());
}

void abs_inplace(const IValue* args, ShapeOutputs& out) {
  TORCH_CHECK(!tensor(args[0]).is_complex(),
              "In-place abs is not supported for complex tensors.");
  unary(args, out);
}

void angle(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  if (self.is_complex()) {
    if (out.is_provided(0)) return to_real(args, out);
    return out.set(0, self.sizes(), c10::toRealValueType(self.scalar_type()));
  }
  unary_float(args, out);
}

void logical_not(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  if (is_plain(out, 0, self)) return out.set(0, self.sizes(), at::kBool);
  broadcast(out, at::kBool, self);
}

void is_nan(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  if (is_plain(out, 0, self)) return out.set(0, self.sizes(), at::kBool);
  if (c10::isIntegralType(self.scalar_type(), true))
    return set_like(out, 0, self, at::kBool);
  broadcast(out, at::kBool, self);
}

// complex and polar: two real tensors make a complex one.
void complex_pair(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& a = tensor(args[0]);
  const at::Tensor& b = tensor(args[1]);
  const auto is_real = [](const at::Tensor& t) {
    const at::ScalarType dtype = t.scalar_type();
    return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf;
  };
  TORCH_CHECK(is_real(a) && is_real(b),
              "Expected both inputs to be Half, Float or Double tensors but got ",
              a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "Expected object of scalar type ",
              a.scalar_type(), " but got scalar type ", b.scalar_type(),
              " for second argument");
  const at::ScalarType dtype = c10::toComplexType(a.scalar_type());
  if (out.is_provided(0)) {
    const at::ScalarType given = out.get(0).scalar_type();
    TORCH_CHECK(given == dtype, "Expected object of scalar type ", dtype,
                " but got scalar type ", given, " for argument 'out'");
  }
  broadcast(out, dtype, a, b);
}

void nan_to_num(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  if (!out.is_provided(0)) return set_like(out, 0, self);
  const at::ScalarType given = out.get(0).scalar_type();
  TORCH_CHECK(self.scalar_type() == given, "nan_to_num: dtype of out: ", given,
              " should be same as input: ", self.scalar_type());
  unary(args, out);
}

void relu(const IValue* args, ShapeOutputs& out) {
  TORCH_CHECK(tensor(args[0]).scalar_type() != at::kBool,
              "Boolean inputs not supported for relu");
  unary(args, out);
}

void hardtanh(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  TORCH_CHECK(self.scalar_type() != at::kBool, "Bool inputs not supported for hardtanh");
  if (self.scalar_type() == at::kByte) {
    TORCH_CHECK(args[1].toScalar().toLong() >= 0 && args[2].toScalar().toLong() >= 0,
                "cannot do hardtanh on an unsigned type with negative limits");
  }
  if (!out.is_provided(0)) return set_like(out, 0, self);
  unary(args, out);
}

void log_sigmoid_forward(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  for (int64_t i = 0; i < 2; ++i) {
    if (out.is_provided(i)) {
      out.resize(i, self.sizes());
    } else {
      set_contiguous_like(out, i, self);
    }
  }
}

// The gradient is allocated like `grad_output`.
void log_sigmoid_backward(const IValue* args, ShapeOutputs& out) {
  if (!out.is_provided(0)) return set_like(out, 0, tensor(args[0]));
  broadcast(out, tensor(args[0]).scalar_type(), tensor(args[1]), tensor(args[2]),
            tensor(args[0]));
}

// The weight comes already viewed so that it broadcasts to `self`.
void prelu_kernel(const IValue* args, ShapeOutputs& out) {
  set_like(out, 0, tensor(args[0]));
}

void prelu_kernel_backward(const IValue* args, ShapeOutputs& out) {
  auto config = at::TensorIteratorConfig();
  config.add_borrowed_output(out.slot(0)).add_borrowed_output(out.slot(1));
  for (int i = 0; i < 3; ++i) config.add_borrowed_const_input(tensor(args[i]));
  IteratorShape(out).build(config);
}

void rrelu_with_noise(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  TORCH_CHECK(self.sym_sizes() == tensor(args[1]).sym_sizes(),
              "noise tensor shape must match self tensor shape. Got self.shape = ",
              self.sizes(), " noise.shape = ", tensor(args[1]).sizes());
  if (out.is_provided(0)) return out.resize(0, self.sizes());
  set_contiguous_like(out, 0, self);
}

void where(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& condition = tensor(args[0]);
  const at::Tensor& a = tensor(args[1]);
  const at::Tensor& b = tensor(args[2]);
  TORCH_CHECK(
      condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
      "where expected condition to be a boolean tensor, but got a tensor with dtype ",
      condition.scalar_type());
  at::ScalarType dtype = a.scalar_type();
  if (b.scalar_type() != dtype) {
    at::native::ResultTypeState state = {};
    state = at::native::update_result_type_state(a, state);
    state = at::native::update_result_type_state(b, state);
    dtype = at::native::result_type(state);
  }
  if (is_plain(out, 0, condition) && a.is_contiguous() && b.is_contiguous() &&
      a.sizes() == condition.sizes() && b.sizes() == condition.sizes()) {
    return out.set(0, a.sizes(), dtype);
  }
  broadcast(out, dtype, condition, a, b);
}

void frexp(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  TORCH_CHECK(self.is_floating_point(),
              "torch.frexp() only supports floating-point dtypes");
  if (out.is_provided(0)) {
    TORCH_CHECK(out.get(0).scalar_type() == self.scalar_type(),
                "torch.frexp() expects mantissa to have dtype ", self.scalar_type(),
                " but got ", out.get(0).scalar_type());
    TORCH_CHECK(out.get(1).scalar_type() == at::kInt,
                "torch.frexp() expects exponent to have int dtype but got ",
                out.get(1).scalar_type());
  }
  set_like(out, 0, self);
  set_like(out, 1, self, at::kInt);
}

// self << scalar and the like.
void shift_by_scalar(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const at::ScalarType dtype = with_scalar(self, args[1].toScalar());
  if (out.is_provided(0)) {
    TORCH_CHECK(c10::canCast(dtype, self.scalar_type()), "result type ", dtype,
                " can't be cast to the desired output type ", self.scalar_type());
    return out.set(0, self.sizes(), self.scalar_type());
  }
  broadcast(out, dtype, self);
}

void add_relu_scalar(const IValue* args, ShapeOutputs& out) {
  broadcast(out, with_scalar(tensor(args[0]), args[1].toScalar()), tensor(args[0]));
}

void remainder_of_scalar(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& other = tensor(args[1]);
  broadcast(out, with_scalar(other, args[0].toScalar()), other);
}

void mvlgamma(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const int64_t p = args[1].toInt();
  TORCH_CHECK(self.scalar_type() != at::kBool,
              "The input tensor may not be a boolean tensor.");
  TORCH_CHECK(p >= 1, "p has to be greater than or equal to 1");
  const at::ScalarType dtype = c10::isIntegralType(self.scalar_type(), true)
                                   ? c10::typeMetaToScalarType(c10::get_default_dtype())
                                   : self.scalar_type();
  if (out.is_provided(0)) {
    const at::ScalarType given = out.get(0).scalar_type();
    TORCH_CHECK(c10::canCast(dtype, given), "mvlgamma: result type ", given,
                " can't be cast to the desired output type ", dtype);
    return out.set(0, self.sizes(), given);
  }
  out.set(0, self.sizes(), dtype);
}

void weight_norm(const IValue* args, ShapeOutputs& out) {
  set_like(out, 0, tensor(args[0]));
  const at::Tensor& g = tensor(args[1]);
  const bool is_narrow = g.scalar_type() == at::kBFloat16 || g.scalar_type() == at::kHalf;
  out.set(1, g.sizes(), g.strides(), is_narrow ? at::kFloat : g.scalar_type());
}

void weight_norm_backward(const IValue* args, ShapeOutputs& out) {
  set_contiguous_like(out, 0, tensor(args[1]));
  set_contiguous_like(out, 1, tensor(args[2]));
}

void logcumsumexp(const IValue* args, ShapeOutputs& out) {
  wrap(args[1].toInt(), tensor(args[0]));
  out.set(0, tensor(args[0]).sizes(), tensor(args[0]).scalar_type());
}

}  // namespace

Rows pointwise_rows() {
  static constexpr Row rows[] = {
      {"aten::abs", &to_real},
      {"aten::abs.out", &to_real},
      {"aten::abs_", &abs_inplace},
      {"aten::angle", &angle},
      {"aten::angle.out", &angle},
      {"aten::conj_physical.out", &unary},
      {"aten::conj_physical_", &unary},
      {"aten::logical_not", &logical_not},
      {"aten::logical_not.out", &logical_not},
      {"aten::logical_not_", &logical_not},
      {"aten::logical_and", &comparison},
      {"aten::logical_and.out", &comparison},
      {"aten::logical_and_", &comparison},
      {"aten::logical_or", &comparison},
      {"aten::logical_or.out", &comparison},
      {"aten::logical_or_", &comparison},
      {"aten::logical_xor", &comparison},
      {"aten::logical_xor.out", &comparison},
      {"aten::logical_xor_", &comparison},
      {"aten::isnan", &is_nan},
      {"aten::complex", &complex_pair},
      {"aten::complex.out", &complex_pair},
      {"aten::polar", &complex_pair},
      {"aten::polar.out", &complex_pair},
      {"aten::nan_to_num", &nan_to_num},
      {"aten::nan_to_num.out", &nan_to_num},
      {"aten::nan_to_num_", &nan_to_num},
      {"aten::relu", &relu},
      {"aten::relu_", &relu},
      {"aten::hardtanh", &hardtanh},
      {"aten::hardtanh.out", &hardtanh},
      {"aten::hardtanh_", &hardtanh},
      {"aten::hardtanh_backward", &binary<0, 1>},
      {"aten::hardtanh_backward.grad_input", &binary<0, 1>},
      {"aten::hardswish", &unary},
      {"aten::hardswish.out", &unary},
      {"aten::hardswish_", &unary},
      {"aten::hardswish_backward", &binary<0, 1>},
      {"aten::logit", &unary_float},
      {"aten::logit.out", &unary_float},
      {"aten::logit_", &unary_float},
      {"aten::log_sigmoid_forward", &log_sigmoid_forward},
      {"aten::log_sigmoid_forward.output", &log_sigmoid_forward},
      {"aten::log_sigmoid_backward", &log_sigmoid_backward},
      {"aten::log_sigmoid_backward.grad_input", &log_sigmoid_backward},
      {"aten::_prelu_kernel", &prelu_kernel},
      {"aten::_prelu_kernel_backward", &prelu_kernel_backward},
      {"aten::rrelu_with_noise", &rrelu_with_noise},
      {"aten::rrelu_with_noise.out", &rrelu_with_noise},
      {"aten::rrelu_with_noise_", &rrelu_with_noise},
      {"aten::where.self", &where},
      {"aten::where.self_out", &where},
      {"aten::frexp.Tensor", &frexp},
      {"aten::frexp.Tensor_out", &frexp},
      {"aten::floor_divide", &binary<0, 1>},
      {"aten::floor_divide.out", &binary<0, 1>},
      {"aten::floor_divide_.Tensor", &binary<0, 1>},
      {"aten::rsub.Tensor", &binary<0, 1>},
      {"aten::_add_relu.Tensor", &binary<0, 1>},
      {"aten::_add_relu.out", &binary<0, 1>},
      {"aten::_add_relu_.Tensor", &binary<0, 1>},
      {"aten::_add_relu.Scalar", &add_relu_scalar},
      {"aten::_add_relu_.Scalar", &add_relu_scalar},
      {"aten::remainder.Scalar_Tensor", &remainder_of_scalar},
      {"aten::__lshift__.Tensor", &binary<0, 1>},
      {"aten::__rshift__.Tensor", &binary<0, 1>},
      {"aten::__ilshift__.Tensor", &binary<0, 1>},
      {"aten::__irshift__.Tensor", &binary<0, 1>},
      {"aten::__lshift__.Scalar", &shift_by_scalar},
      {"aten::__rshift__.Scalar", &shift_by_scalar},
      {"aten::__ilshift__.Scalar", &shift_by_scalar},
      {"aten::__irshift__.Scalar", &shift_by_scalar},
      {"aten::mvlgamma", &mvlgamma},
      {"aten::mvlgamma.out", &mvlgamma},
      {"aten::mvlgamma_", &mvlgamma},
      {"aten::_weight_norm_interface", &weight_norm},
      {"aten::_weight_norm_interface_backward", &weight_norm_backward},
      {"aten::_standard_gamma_grad", &binary<0, 1>},
      {"aten::_logcumsumexp", &logcumsumexp},
      {"aten::_logcumsumexp.out", &logcumsumexp},
  };
  return rows;
}

}  // namespace neuron::lazy::shapes
