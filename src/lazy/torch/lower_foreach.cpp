// Lowerings of multi-tensor ops: a native node for each element, which the planner then
// fuses with those of the other multi-tensor ops of the step.
#include "lazy/torch/lower.h"
#include "lazy/torch/pointwise_call.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {
namespace {

using at::Tensor;
using ir::Code;

// Element `k` of an argument that may be one value for all.
bool take_element(PointwiseCall& call, const c10::IValue& arg, size_t k) {
  const c10::IValue& value = arg.isList() ? arg.toListRef()[k] : arg;
  if (value.isTensor()) {
    call.input(value.toTensor());
  } else if (value.isScalar()) {
    call.input(value.toScalar());
  } else {
    return false;
  }
  return true;
}

size_t num_elements(const LowerArgs& a) {
  return a.args[0].isList() ? a.args[0].toListRef().size() : a.args[1].toListRef().size();
}

// In-place forms return nothing: they write their first argument.
const Tensor& out_of(const LowerArgs& a, size_t k) {
  return a.outputs.size() == 0 ? a.args[0].toListRef()[k].toTensor()
                               : a.outputs.get(static_cast<int64_t>(k));
}

// One element: the call and whether it promotes to float.
struct Element {
  Code code = Code::kCopy;
  std::initializer_list<int> inputs;  // arguments in the order of the code's slots
  int weak = -1;                      // argument that does not decide the type
  bool is_float = false;
};

bool make_call(const LowerArgs& a, const Element& element, size_t k, PointwiseCall& call,
               at::ScalarType& dtype) {
  for (const int i : element.inputs) {
    if (!take_element(call, a.args[i], k)) return false;
  }
  dtype = call.common_dtype();
  if (element.is_float && !c10::isFloatingType(dtype)) return false;
  return element.weak < 0 || take_element(call, a.args[element.weak], k);
}

bool lower_each(const LowerArgs& a, const Element& element) {
  const size_t count = num_elements(a);
  if (a.outputs.size() != 0 && a.outputs.size() != count) return false;
  for (int pass = 0; pass < 2; ++pass) {  // look at all before the first is recorded
    for (size_t k = 0; k < count; ++k) {
      const Tensor& out = out_of(a, k);
      if (!out.defined() || !is_neuron(out)) return false;
      if (out.numel() == 0) continue;
      PointwiseCall call;
      at::ScalarType dtype = at::kFloat;
      if (!make_call(a, element, k, call, dtype)) return false;
      if (!c10::canCast(dtype, out.scalar_type())) return false;  // ATen complains
      if (pass == 0 && !call.can_record(element.code, dtype, out)) return false;
      if (pass == 1 && !call.record(a.op, element.code, dtype, out)) return false;
    }
  }
  return true;
}

bool is_one(const c10::IValue& alpha) {
  return alpha.isScalar() && !alpha.toScalar().isComplex() && alpha.toScalar().equal(1);
}

template <Code kPlain, Code kScaled>
bool lower_scaled(const LowerArgs& a) {
  if (a.num_args < 3 || is_one(a.args[2])) return lower_each(a, {kPlain, {0, 1}});
  return lower_each(a, {kScaled, {0, 1}, 2});
}
template <Code kCode>
bool lower_binary(const LowerArgs& a) {
  return lower_each(a, {kCode, {0, 1}});
}
bool lower_div(const LowerArgs& a) {
  return lower_each(a, {Code::kDiv, {0, 1}, -1, /*is_float=*/true});
}
template <Code kCode>
bool lower_unary(const LowerArgs& a) {
  return lower_each(a, {kCode, {0}, -1, /*is_float=*/true});
}
template <Code kCode>
bool lower_addc(const LowerArgs& a) {
  if (a.args[3].isTensor()) return false;  // a tensor of numbers
  return lower_each(a, {kCode, {0, 1, 2}, 3});
}
bool lower_lerp(const LowerArgs& a) {
  if (a.args[2].isList() && !a.args[2].toListRef().empty() &&
      a.args[2].toListRef()[0].isTensor()) {
    return lower_each(a, {Code::kLerp, {0, 1, 2}});
  }
  return lower_each(a, {Code::kLerp, {0, 1}, 2});
}
bool lower_pow(const LowerArgs& a) {
  return lower_each(a, {Code::kPow, {0, 1}, -1, /*is_float=*/true});
}
bool lower_copy(const LowerArgs& a) { return lower_each(a, {Code::kCopy, {1}}); }

bool lower_zero(const LowerArgs& a) {
  const size_t count = num_elements(a);
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t k = 0; k < count; ++k) {
      const Tensor& out = out_of(a, k);
      if (!out.defined() || !is_neuron(out)) return false;
      if (out.numel() == 0) continue;
      PointwiseCall call;
      call.input(at::Scalar(0));
      if (pass == 0 && !call.can_record(Code::kCopy, out.scalar_type(), out))
        return false;
      if (pass == 1) call.record(a.op, Code::kCopy, out.scalar_type(), out);
    }
  }
  return true;
}

}  // namespace

const LowerTable& foreach_lowerings() {
  static const auto* made = new LowerTable{
      {"aten::_foreach_add", &lower_scaled<Code::kAdd, Code::kAddScaled>},
      {"aten::_foreach_sub", &lower_scaled<Code::kSub, Code::kSubScaled>},
      {"aten::_foreach_mul", &lower_binary<Code::kMul>},
      {"aten::_foreach_div", &lower_div},
      {"aten::_foreach_maximum", &lower_binary<Code::kMaximum>},
      {"aten::_foreach_minimum", &lower_binary<Code::kMinimum>},
      {"aten::_foreach_clamp_min", &lower_binary<Code::kMaximum>},
      {"aten::_foreach_clamp_max", &lower_binary<Code::kMinimum>},
      {"aten::_foreach_addcmul", &lower_addc<Code::kAddcmul>},
      {"aten::_foreach_addcdiv", &lower_addc<Code::kAddcdiv>},
      {"aten::_foreach_lerp", &lower_lerp},
      {"aten::_foreach_pow", &lower_pow},
      {"aten::_foreach_sqrt", &lower_unary<Code::kSqrt>},
      {"aten::_foreach_rsqrt", &lower_unary<Code::kRsqrt>},
      {"aten::_foreach_reciprocal", &lower_unary<Code::kReciprocal>},
      {"aten::_foreach_neg", &lower_unary<Code::kNeg>},
      {"aten::_foreach_abs", &lower_unary<Code::kAbs>},
      {"aten::_foreach_exp", &lower_unary<Code::kExp>},
      {"aten::_foreach_log", &lower_unary<Code::kLog>},
      {"aten::_foreach_sign", &lower_unary<Code::kSign>},
      {"aten::_foreach_zero", &lower_zero},
      {"aten::_foreach_copy", &lower_copy},
  };
  return *made;
}

}  // namespace neuron::lazy
