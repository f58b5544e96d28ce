// Lowerings of pointwise ops: which code each is, by its arguments.
#include <ATen/core/Reduction.h>
#include <c10/core/DefaultDtype.h>

#include <optional>

#include "lazy/torch/lower.h"
#include "lazy/torch/pointwise_call.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {
namespace {

using ir::Code;

bool is_input(const c10::IValue& value) {
  return value.isScalar() || (value.isTensor() && value.toTensor().defined());
}

void take(PointwiseCall& call, const c10::IValue& value) {
  if (value.isTensor()) {
    call.input(value.toTensor());
  } else {
    call.input(value.toScalar());
  }
}

// How the type of the computation follows from the inputs.
enum class Rule : uint8_t { kPromote, kFloat, kOutput };

at::ScalarType dtype_of(const PointwiseCall& call, Rule rule, const at::Tensor& out) {
  if (rule == Rule::kOutput) return out.scalar_type();
  at::ScalarType dtype = call.common_dtype();
  if (rule == Rule::kFloat && c10::isIntegralType(dtype, /*includeBool=*/true)) {
    dtype = c10::get_default_dtype_as_scalartype();
  }
  return dtype;
}

// Inputs `promoting` decide the type; numbers `weak` follow it.
bool lower(const LowerArgs& a, Code code, Rule rule, std::initializer_list<int> promoting,
           std::initializer_list<int> weak = {}) {
  const at::Tensor& out = a.outputs.get(0);
  PointwiseCall call;
  for (const int i : promoting) {
    if (!is_input(a.args[i])) return false;
    take(call, a.args[i]);
  }
  const at::ScalarType dtype = dtype_of(call, rule, out);
  for (const int i : weak) {
    if (!a.args[i].isScalar()) return false;
    call.input(a.args[i].toScalar());
  }
  return call.record(a.op, code, dtype, out);
}

template <Code kCode, Rule kRule>
bool lower_unary(const LowerArgs& a) {
  return lower(a, kCode, kRule, {0});
}
template <Code kCode, Rule kRule>
bool lower_binary(const LowerArgs& a) {
  return lower(a, kCode, kRule, {0, 1});
}

bool is_one(const c10::IValue& alpha) {
  return alpha.isScalar() && !alpha.toScalar().isComplex() && alpha.toScalar().equal(1);
}

template <Code kPlain, Code kScaled, int kFirst, int kSecond>
bool lower_scaled(const LowerArgs& a) {
  if (a.num_args < 3 || is_one(a.args[2])) {
    return lower(a, kPlain, Rule::kPromote, {kFirst, kSecond});
  }
  return lower(a, kScaled, Rule::kPromote, {kFirst, kSecond}, {2});
}

bool lower_div(const LowerArgs& a) {
  // With a rounding mode it is another op.
  if (a.num_args > 2 && !a.args[2].isNone() && a.args[2].isString()) return false;
  return lower(a, Code::kDiv, Rule::kFloat, {0, 1});
}

bool lower_pow(const LowerArgs& a) {
  if (!a.args[1].isScalar() || !a.args[0].isTensor()) {
    return lower(a, Code::kPow, Rule::kPromote, {0, 1});
  }
  const at::Scalar exponent = a.args[1].toScalar();
  if (exponent.isComplex() || exponent.isBoolean()) return false;
  const Code code = power_code(exponent.toDouble());
  if (code == Code::kPow) return lower(a, code, Rule::kPromote, {0, 1});
  PointwiseCall call;
  take(call, a.args[0]);
  take(call, a.args[1]);
  const at::ScalarType dtype = call.common_dtype();
  PointwiseCall simple;
  take(simple, a.args[0]);
  return simple.record(a.op, code, dtype, a.outputs.get(0));
}

bool lower_clamp(const LowerArgs& a) {
  const bool has_min = is_input(a.args[1]);
  const bool has_max = is_input(a.args[2]);
  if (has_min && has_max) return lower(a, Code::kClamp, Rule::kPromote, {0, 1, 2});
  if (has_min) return lower(a, Code::kMaximum, Rule::kPromote, {0, 1});
  return lower(a, Code::kMinimum, Rule::kPromote, {0, 2});
}

bool lower_hardtanh(const LowerArgs& a) {
  return lower(a, Code::kClamp, Rule::kPromote, {0}, {1, 2});
}

bool lower_elu(const LowerArgs& a) {
  if (!is_one(a.args[2]) || !is_one(a.args[3])) return false;
  return lower(a, Code::kElu, Rule::kPromote, {0}, {1});
}

template <Code kExact, Code kTanh, bool kIsBackward>
bool lower_gelu(const LowerArgs& a) {
  const auto approximate = a.args[kIsBackward ? 2 : 1].toStringView();
  if (approximate != "tanh" && approximate != "none") return false;  // ATen complains
  const Code code = approximate == "tanh" ? kTanh : kExact;
  if (kIsBackward) return lower(a, code, Rule::kPromote, {0, 1});
  return lower(a, code, Rule::kPromote, {0});
}

bool lower_where(const LowerArgs& a) {
  const at::Tensor& condition = a.args[0].toTensor();
  if (condition.scalar_type() != at::kBool) return false;
  PointwiseCall values;
  take(values, a.args[1]);
  take(values, a.args[2]);
  PointwiseCall call;
  for (int i = 0; i < 3; ++i) take(call, a.args[i]);
  return call.record(a.op, Code::kWhere, values.common_dtype(), a.outputs.get(0));
}

bool lower_masked_fill(const LowerArgs& a) {
  if (!is_input(a.args[2]) || a.args[1].toTensor().scalar_type() != at::kBool)
    return false;
  PointwiseCall call;
  take(call, a.args[1]);
  take(call, a.args[2]);
  take(call, a.args[0]);
  return call.record(a.op, Code::kWhere, a.args[0].toTensor().scalar_type(),
                     a.outputs.get(0));
}

template <Code kCode>
bool lower_logical(const LowerArgs& a) {
  PointwiseCall call;
  take(call, a.args[0]);
  if (kCode != Code::kNot) take(call, a.args[1]);
  return call.record(a.op, kCode, at::kBool, a.outputs.get(0));
}

bool lower_fill(const LowerArgs& a) {
  if (!is_input(a.args[1])) return false;
  PointwiseCall call;
  take(call, a.args[1]);
  return call.record(a.op, Code::kCopy, a.outputs.get(0).scalar_type(), a.outputs.get(0));
}

bool lower_zero(const LowerArgs& a) {
  PointwiseCall call;
  call.input(at::Scalar(0));
  return call.record(a.op, Code::kCopy, a.outputs.get(0).scalar_type(), a.outputs.get(0));
}

bool lower_copy(const LowerArgs& a) { return lower(a, Code::kCopy, Rule::kOutput, {0}); }

template <Code kCode>
bool lower_addc(const LowerArgs& a) {
  return lower(a, kCode, Rule::kPromote, {0, 1, 2}, {3});
}

bool lower_lerp(const LowerArgs& a) {
  if (a.args[2].isScalar()) return lower(a, Code::kLerp, Rule::kPromote, {0, 1}, {2});
  return lower(a, Code::kLerp, Rule::kPromote, {0, 1, 2});
}

bool lower_threshold(const LowerArgs& a) {
  return lower(a, Code::kThreshold, Rule::kPromote, {0}, {1, 2});
}
bool lower_threshold_backward(const LowerArgs& a) {
  return lower(a, Code::kThresholdBackward, Rule::kPromote, {0, 1}, {2});
}
bool lower_leaky_relu(const LowerArgs& a) {
  return lower(a, Code::kLeakyRelu, Rule::kPromote, {0}, {1});
}
bool lower_leaky_relu_backward(const LowerArgs& a) {
  return lower(a, Code::kLeakyReluBackward, Rule::kPromote, {0, 1}, {2});
}
bool lower_hardtanh_backward(const LowerArgs& a) {
  return lower(a, Code::kHardtanhBackward, Rule::kPromote, {0, 1}, {2, 3});
}
bool lower_softplus(const LowerArgs& a) {
  return lower(a, Code::kSoftplus, Rule::kPromote, {0}, {1, 2});
}
bool lower_softplus_backward(const LowerArgs& a) {
  return lower(a, Code::kSoftplusBackward, Rule::kPromote, {0, 1}, {2, 3});
}

bool lower_mse_loss_backward(const LowerArgs& a) {
  PointwiseCall call;
  take(call, a.args[1]);
  take(call, a.args[2]);
  take(call, a.args[0]);
  const at::ScalarType dtype = call.common_dtype();
  const bool is_mean = a.args[3].toInt() == at::Reduction::Mean;
  const auto numel = static_cast<double>(a.args[1].toTensor().numel());
  call.input(at::Scalar(is_mean ? 2.0 / numel : 2.0));
  return call.record(a.op, Code::kSquaredErrorBackward, dtype, a.outputs.get(0));
}
bool lower_dropout_backward(const LowerArgs& a) {
  PointwiseCall call;
  take(call, a.args[0]);
  take(call, a.args[1]);
  call.input(at::Scalar(a.args[2].toDouble()));
  return call.record(a.op, Code::kMulMul, a.args[0].toTensor().scalar_type(),
                     a.outputs.get(0));
}
// With a number of decimals it is another op.
bool lower_round(const LowerArgs& a) {
  if (a.num_args > 1 && a.args[1].isInt()) return false;
  return lower(a, Code::kRound, Rule::kPromote, {0});
}

}  // namespace

ir::Code power_code(double exponent) {
  constexpr std::pair<double, Code> kSimple[] = {
      {2.0, Code::kSquare}, {3.0, Code::kCube},        {0.5, Code::kSqrt},
      {-0.5, Code::kRsqrt}, {-1.0, Code::kReciprocal}, {-2.0, Code::kReciprocalSquare},
      {1.0, Code::kCopy},
  };
  for (const auto& [value, code] : kSimple) {
    if (exponent == value) return code;
  }
  return Code::kPow;
}

const LowerTable& pointwise_lowerings() {
  constexpr Rule kPromote = Rule::kPromote;
  constexpr Rule kFloat = Rule::kFloat;
  static const auto* made = new LowerTable{
      {"aten::add", &lower_scaled<Code::kAdd, Code::kAddScaled, 0, 1>},
      {"aten::sub", &lower_scaled<Code::kSub, Code::kSubScaled, 0, 1>},
      {"aten::rsub", &lower_scaled<Code::kSub, Code::kSubScaled, 1, 0>},
      {"aten::mul", &lower_binary<Code::kMul, kPromote>},
      {"aten::div", &lower_div},
      {"aten::neg", &lower_unary<Code::kNeg, kPromote>},
      {"aten::abs", &lower_unary<Code::kAbs, kPromote>},
      {"aten::sqrt", &lower_unary<Code::kSqrt, kFloat>},
      {"aten::rsqrt", &lower_unary<Code::kRsqrt, kFloat>},
      {"aten::reciprocal", &lower_unary<Code::kReciprocal, kFloat>},
      {"aten::exp", &lower_unary<Code::kExp, kFloat>},
      {"aten::exp2", &lower_unary<Code::kExp2, kFloat>},
      {"aten::expm1", &lower_unary<Code::kExpm1, kFloat>},
      {"aten::log", &lower_unary<Code::kLog, kFloat>},
      {"aten::log2", &lower_unary<Code::kLog2, kFloat>},
      {"aten::log10", &lower_unary<Code::kLog10, kFloat>},
      {"aten::log1p", &lower_unary<Code::kLog1p, kFloat>},
      {"aten::sin", &lower_unary<Code::kSin, kFloat>},
      {"aten::cos", &lower_unary<Code::kCos, kFloat>},
      {"aten::tan", &lower_unary<Code::kTan, kFloat>},
      {"aten::asin", &lower_unary<Code::kAsin, kFloat>},
      {"aten::acos", &lower_unary<Code::kAcos, kFloat>},
      {"aten::atan", &lower_unary<Code::kAtan, kFloat>},
      {"aten::atan2", &lower_binary<Code::kAtan2, kFloat>},
      {"aten::sinh", &lower_unary<Code::kSinh, kFloat>},
      {"aten::cosh", &lower_unary<Code::kCosh, kFloat>},
      {"aten::tanh", &lower_unary<Code::kTanh, kFloat>},
      {"aten::asinh", &lower_unary<Code::kAsinh, kFloat>},
      {"aten::acosh", &lower_unary<Code::kAcosh, kFloat>},
      {"aten::atanh", &lower_unary<Code::kAtanh, kFloat>},
      {"aten::erf", &lower_unary<Code::kErf, kFloat>},
      {"aten::erfc", &lower_unary<Code::kErfc, kFloat>},
      {"aten::sigmoid", &lower_unary<Code::kSigmoid, kFloat>},
      {"aten::floor", &lower_unary<Code::kFloor, kPromote>},
      {"aten::ceil", &lower_unary<Code::kCeil, kPromote>},
      {"aten::round", &lower_round},
      {"aten::trunc", &lower_unary<Code::kTrunc, kPromote>},
      {"aten::frac", &lower_unary<Code::kFrac, kPromote>},
      {"aten::sign", &lower_unary<Code::kSign, kPromote>},
      {"aten::sgn", &lower_unary<Code::kSign, kPromote>},
      {"aten::pow", &lower_pow},
      {"aten::maximum", &lower_binary<Code::kMaximum, kPromote>},
      {"aten::minimum", &lower_binary<Code::kMinimum, kPromote>},
      {"aten::clamp", &lower_clamp},
      {"aten::clamp_min", &lower_binary<Code::kMaximum, kPromote>},
      {"aten::clamp_max", &lower_binary<Code::kMinimum, kPromote>},
      {"aten::hardtanh", &lower_hardtanh},
      {"aten::relu", &lower_unary<Code::kRelu, kPromote>},
      {"aten::gelu", &lower_gelu<Code::kGelu, Code::kGeluTanh, false>},
      {"aten::gelu_backward",
       &lower_gelu<Code::kGeluBackward, Code::kGeluTanhBackward, true>},
      {"aten::silu", &lower_unary<Code::kSilu, kPromote>},
      {"aten::silu_backward", &lower_binary<Code::kSiluBackward, kPromote>},
      {"aten::leaky_relu", &lower_leaky_relu},
      {"aten::leaky_relu_backward", &lower_leaky_relu_backward},
      {"aten::elu", &lower_elu},
      {"aten::softplus", &lower_softplus},
      {"aten::softplus_backward", &lower_softplus_backward},
      {"aten::threshold", &lower_threshold},
      {"aten::threshold_backward", &lower_threshold_backward},
      {"aten::hardtanh_backward", &lower_hardtanh_backward},
      {"aten::tanh_backward", &lower_binary<Code::kTanhBackward, kPromote>},
      {"aten::sigmoid_backward", &lower_binary<Code::kSigmoidBackward, kPromote>},
      {"aten::where", &lower_where},
      {"aten::masked_fill", &lower_masked_fill},
      {"aten::eq", &lower_binary<Code::kEq, kPromote>},
      {"aten::ne", &lower_binary<Code::kNe, kPromote>},
      {"aten::lt", &lower_binary<Code::kLt, kPromote>},
      {"aten::le", &lower_binary<Code::kLe, kPromote>},
      {"aten::gt", &lower_binary<Code::kGt, kPromote>},
      {"aten::ge", &lower_binary<Code::kGe, kPromote>},
      {"aten::logical_and", &lower_logical<Code::kAnd>},
      {"aten::logical_or", &lower_logical<Code::kOr>},
      {"aten::logical_xor", &lower_logical<Code::kXor>},
      {"aten::logical_not", &lower_logical<Code::kNot>},
      {"aten::bitwise_and", &lower_binary<Code::kAnd, kPromote>},
      {"aten::bitwise_or", &lower_binary<Code::kOr, kPromote>},
      {"aten::bitwise_xor", &lower_binary<Code::kXor, kPromote>},
      {"aten::bitwise_not", &lower_unary<Code::kNot, kPromote>},
      {"aten::addcmul", &lower_addc<Code::kAddcmul>},
      {"aten::addcdiv", &lower_addc<Code::kAddcdiv>},
      {"aten::lerp", &lower_lerp},
      {"aten::fill", &lower_fill},
      {"aten::zero", &lower_zero},
      {"aten::clone", &lower_copy},
      {"aten::_to_copy", &lower_copy},
      {"aten::mse_loss_backward", &lower_mse_loss_backward},
      {"aten::native_dropout_backward", &lower_dropout_backward},
      {"aten::xlogy", &lower_binary<Code::kXlogy, kFloat>},
  };
  return *made;
}

}  // namespace neuron::lazy
