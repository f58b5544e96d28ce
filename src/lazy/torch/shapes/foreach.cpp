// Ops on lists of tensors: output `i` is what the single op gives for element `i`.
#include "lazy/torch/shapes/iterator.h"
#include "lazy/torch/shapes/table.h"

#include <c10/core/DefaultDtype.h>

namespace neuron::lazy::shapes {
namespace {

using List = c10::ArrayRef<IValue>;

at::ScalarType floating_dtype(at::ScalarType dtype) {
  return c10::isIntegralType(dtype, true)
             ? c10::typeMetaToScalarType(c10::get_default_dtype())
             : dtype;
}

List first_list(const IValue* args, ShapeOutputs& out) {
  const List list = args[0].toListRef();
  TORCH_CHECK(!list.empty(), "Tensor list must have at least one tensor.");
  out.slot(static_cast<int64_t>(list.size()) -
           1);  // the iterator's outputs must not move
  return list;
}

void check_same_length(List a, List b) {
  TORCH_CHECK(a.size() == b.size(),
              "Tensor lists must have the same number of tensors, got ", a.size(),
              " and ", b.size());
}

// One list updated in place, with `N` lists among the first arguments.
template <int N>
void in_place(const IValue* args, ShapeOutputs&) {
  const List list = args[0].toListRef();
  TORCH_CHECK(!list.empty(), "Tensor list must have at least one tensor.");
  for (int i = 1; i < N; ++i) check_same_length(list, args[i].toListRef());
}

void same(const IValue* args, ShapeOutputs& out) {
  int64_t i = 0;
  for (const IValue& v : first_list(args, out)) set_like(out, i++, v.toTensor());
}

void absolute(const IValue* args, ShapeOutputs& out) {
  int64_t i = 0;
  for (const IValue& v : first_list(args, out)) {
    set_like(out, i++, v.toTensor(), c10::toRealValueType(v.toTensor().scalar_type()));
  }
}

void floating(const IValue* args, ShapeOutputs& out) {
  int64_t i = 0;
  for (const IValue& v : first_list(args, out)) {
    set_like(out, i++, v.toTensor(), floating_dtype(v.toTensor().scalar_type()));
  }
}

void element(ShapeOutputs& out, int64_t i, const at::Tensor& a, const at::Tensor& b,
             bool divides) {
  const bool is_plain = a.is_contiguous() && b.is_contiguous() &&
                        a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
  if (is_plain) {
    const at::ScalarType dtype = a.scalar_type();
    return out.set(i, a.sizes(), divides ? floating_dtype(dtype) : dtype);
  }
  IteratorShape iterator(out, {}, i);
  if (divides) {
    iterator.build_borrowing_binary_float_op(out.slot(i), a, b);
  } else {
    iterator.build_borrowing_binary_op(out.slot(i), a, b);
  }
}

template <bool divides>
void with_list(const IValue* args, ShapeOutputs& out) {
  const List list = first_list(args, out);
  const List other = args[1].toListRef();
  check_same_length(list, other);
  for (size_t i = 0; i < list.size(); ++i) {
    element(out, static_cast<int64_t>(i), list[i].toTensor(), other[i].toTensor(),
            divides);
  }
}

template <bool divides>
void with_tensor(const IValue* args, ShapeOutputs& out) {
  const List list = first_list(args, out);
  const at::Tensor& other = tensor(args[1]);
  TORCH_CHECK(other.dim() == 0 && other.numel() == 1,
              "scalar tensor expected to be 0 dim but it has ", other.dim(),
              " dimensions and ", other.numel(), " elements.");
  for (size_t i = 0; i < list.size(); ++i) {
    element(out, static_cast<int64_t>(i), list[i].toTensor(), other, divides);
  }
}

template <bool divides>
void with_scalars(const IValue* args, ShapeOutputs& out) {
  const List list = first_list(args, out);
  const bool is_list = args[1].isList();
  const List scalars = is_list ? args[1].toListRef() : List();
  TORCH_CHECK(!is_list || scalars.size() == list.size(),
              "Tensor list must have same number of "
              "elements as scalar list, got ",
              list.size(), " and ", scalars.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const at::Tensor& self = list[i].toTensor();
    const at::Scalar scalar = is_list ? scalars[i].toScalar() : args[1].toScalar();
    const at::ScalarType dtype = with_scalar(self, scalar);
    set_like(out, static_cast<int64_t>(i), self, divides ? floating_dtype(dtype) : dtype);
  }
}

void scalar_and_list(const IValue* args, ShapeOutputs& out) {
  const List list = args[1].toListRef();
  TORCH_CHECK(!list.empty(), "Tensor list must have at least one tensor.");
  for (size_t i = 0; i < list.size(); ++i) {
    const at::Tensor& exponent = list[i].toTensor();
    set_like(out, static_cast<int64_t>(i), exponent,
             with_scalar(exponent, args[0].toScalar()));
  }
}

void ternary(const IValue* args, ShapeOutputs& out) {
  const List list = first_list(args, out);
  const List a = args[1].toListRef();
  const List b = args[2].toListRef();
  check_same_length(list, a);
  check_same_length(list, b);
  for (size_t i = 0; i < list.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    auto config = at::TensorIteratorConfig();
    config.promote_inputs_to_common_dtype(true);
    config.add_borrowed_output(out.slot(index));
    config.add_borrowed_const_input(list[i].toTensor());
    config.add_borrowed_const_input(a[i].toTensor());
    config.add_borrowed_const_input(b[i].toTensor());
    IteratorShape(out, {}, index).build(config);
  }
}

void norm(const IValue* args, ShapeOutputs& out) {
  int64_t i = 0;
  for (const IValue& v : first_list(args, out)) {
    const at::ScalarType dtype =
        args[2].isNone() ? v.toTensor().scalar_type() : args[2].toScalarType();
    out.set(i++, {}, c10::toRealValueType(dtype));
  }
}

void maximum_of_all(const IValue* args, ShapeOutputs& out) {
  int64_t i = 0;
  for (const IValue& v : first_list(args, out)) {
    out.set(i++, {}, v.toTensor().scalar_type());
  }
}

constexpr Row kRows[] = {
    {"aten::_foreach_acos", &floating},
    {"aten::_foreach_abs", &absolute},
    {"aten::_foreach_clamp_min_.Scalar", &in_place<1>},
    {"aten::_foreach_clamp_min_.List", &in_place<2>},
    {"aten::_foreach_clamp_min_.ScalarList", &in_place<1>},
    {"aten::_foreach_clamp_max_.Scalar", &in_place<1>},
    {"aten::_foreach_clamp_max_.List", &in_place<2>},
    {"aten::_foreach_clamp_max_.ScalarList", &in_place<1>},
    {"aten::_foreach_round_", &in_place<1>},
    {"aten::_foreach_rsqrt", &floating},
    {"aten::_foreach_ceil_", &in_place<1>},
    {"aten::_foreach_trunc_", &in_place<1>},
    {"aten::_foreach_sigmoid_", &in_place<1>},
    {"aten::_foreach_addcdiv_.Scalar", &in_place<3>},
    {"aten::_foreach_addcdiv_.ScalarList", &in_place<3>},
    {"aten::_foreach_addcdiv_.Tensor", &in_place<3>},
    {"aten::_foreach_log2_", &in_place<1>},
    {"aten::_foreach_trunc", &same},
    {"aten::_foreach_clamp_min.Scalar", &with_scalars<false>},
    {"aten::_foreach_clamp_min.List", &with_list<false>},
    {"aten::_foreach_clamp_min.ScalarList", &with_scalars<false>},
    {"aten::_foreach_zero_", &in_place<1>},
    {"aten::_foreach_tanh", &floating},
    {"aten::_foreach_add_.Scalar", &in_place<1>},
    {"aten::_foreach_add_.List", &in_place<2>},
    {"aten::_foreach_add_.ScalarList", &in_place<1>},
    {"aten::_foreach_add_.Tensor", &in_place<1>},
    {"aten::_foreach_cos", &floating},
    {"aten::_foreach_tan", &floating},
    {"aten::_foreach_sign", &same},
    {"aten::_foreach_zero", &same},
    {"aten::_foreach_clamp_max.Scalar", &with_scalars<false>},
    {"aten::_foreach_clamp_max.List", &with_list<false>},
    {"aten::_foreach_clamp_max.ScalarList", &with_scalars<false>},
    {"aten::_foreach_asin_", &in_place<1>},
    {"aten::_foreach_atan_", &in_place<1>},
    {"aten::_foreach_log_", &in_place<1>},
    {"aten::_foreach_max", &maximum_of_all},
    {"aten::_foreach_pow_.List", &in_place<2>},
    {"aten::_foreach_pow_.Scalar", &in_place<1>},
    {"aten::_foreach_pow_.ScalarList", &in_place<1>},
    {"aten::_foreach_reciprocal", &floating},
    {"aten::_foreach_rsqrt_", &in_place<1>},
    {"aten::_foreach_lgamma", &floating},
    {"aten::_foreach_log", &floating},
    {"aten::_foreach_log10", &floating},
    {"aten::_foreach_log1p", &floating},
    {"aten::_foreach_log1p_", &in_place<1>},
    {"aten::_foreach_log2", &floating},
    {"aten::_foreach_maximum.Scalar", &with_scalars<false>},
    {"aten::_foreach_maximum.List", &with_list<false>},
    {"aten::_foreach_maximum.ScalarList", &with_scalars<false>},
    {"aten::_foreach_minimum_.Scalar", &in_place<1>},
    {"aten::_foreach_minimum_.List", &in_place<2>},
    {"aten::_foreach_minimum_.ScalarList", &in_place<1>},
    {"aten::_foreach_norm.Scalar", &norm},
    {"aten::_foreach_sigmoid", &floating},
    {"aten::_foreach_sign_", &in_place<1>},
    {"aten::_foreach_sin", &floating},
    {"aten::_foreach_sub_.Scalar", &in_place<1>},
    {"aten::_foreach_sub_.List", &in_place<2>},
    {"aten::_foreach_sub_.ScalarList", &in_place<1>},
    {"aten::_foreach_tanh_", &in_place<1>},
    {"aten::_foreach_acos_", &in_place<1>},
    {"aten::_foreach_clone", &same},
    {"aten::_foreach_sub.Scalar", &with_scalars<false>},
    {"aten::_foreach_sub.List", &with_list<false>},
    {"aten::_foreach_sub.ScalarList", &with_scalars<false>},
    {"aten::_foreach_sqrt_", &in_place<1>},
    {"aten::_foreach_abs_", &in_place<1>},
    {"aten::_foreach_lgamma_", &in_place<1>},
    {"aten::_foreach_log10_", &in_place<1>},
    {"aten::_foreach_mul.Scalar", &with_scalars<false>},
    {"aten::_foreach_mul.List", &with_list<false>},
    {"aten::_foreach_mul.ScalarList", &with_scalars<false>},
    {"aten::_foreach_mul.Tensor", &with_tensor<false>},
    {"aten::_foreach_mul_.Scalar", &in_place<1>},
    {"aten::_foreach_mul_.List", &in_place<2>},
    {"aten::_foreach_mul_.ScalarList", &in_place<1>},
    {"aten::_foreach_mul_.Tensor", &in_place<1>},
    {"aten::_foreach_expm1", &floating},
    {"aten::_foreach_tan_", &in_place<1>},
    {"aten::_foreach_expm1_", &in_place<1>},
    {"aten::_foreach_reciprocal_", &in_place<1>},
    {"aten::_foreach_round", &same},
    {"aten::_foreach_sin_", &in_place<1>},
    {"aten::_foreach_sinh", &floating},
    {"aten::_foreach_floor", &same},
    {"aten::_foreach_floor_", &in_place<1>},
    {"aten::_foreach_add.Scalar", &with_scalars<false>},
    {"aten::_foreach_add.List", &with_list<false>},
    {"aten::_foreach_add.ScalarList", &with_scalars<false>},
    {"aten::_foreach_add.Tensor", &with_tensor<false>},
    {"aten::_foreach_addcdiv.Scalar", &ternary},
    {"aten::_foreach_addcdiv.ScalarList", &ternary},
    {"aten::_foreach_addcdiv.Tensor", &ternary},
    {"aten::_foreach_addcmul.Scalar", &ternary},
    {"aten::_foreach_addcmul.ScalarList", &ternary},
    {"aten::_foreach_addcmul.Tensor", &ternary},
    {"aten::_foreach_addcmul_.Scalar", &in_place<3>},
    {"aten::_foreach_addcmul_.ScalarList", &in_place<3>},
    {"aten::_foreach_addcmul_.Tensor", &in_place<3>},
    {"aten::_foreach_asin", &floating},
    {"aten::_foreach_atan", &floating},
    {"aten::_foreach_ceil", &same},
    {"aten::_foreach_copy_", &in_place<2>},
    {"aten::_foreach_cos_", &in_place<1>},
    {"aten::_foreach_cosh", &floating},
    {"aten::_foreach_cosh_", &in_place<1>},
    {"aten::_foreach_div.Scalar", &with_scalars<true>},
    {"aten::_foreach_div.List", &with_list<true>},
    {"aten::_foreach_div.ScalarList", &with_scalars<true>},
    {"aten::_foreach_div.Tensor", &with_tensor<true>},
    {"aten::_foreach_div_.Scalar", &in_place<1>},
    {"aten::_foreach_div_.List", &in_place<2>},
    {"aten::_foreach_div_.ScalarList", &in_place<1>},
    {"aten::_foreach_div_.Tensor", &in_place<1>},
    {"aten::_foreach_erf", &floating},
    {"aten::_foreach_erf_", &in_place<1>},
    {"aten::_foreach_erfc", &floating},
    {"aten::_foreach_erfc_", &in_place<1>},
    {"aten::_foreach_exp", &floating},
    {"aten::_foreach_exp_", &in_place<1>},
    {"aten::_foreach_frac", &same},
    {"aten::_foreach_frac_", &in_place<1>},
    {"aten::_foreach_lerp.List", &same},
    {"aten::_foreach_lerp.Scalar", &same},
    {"aten::_foreach_lerp.ScalarList", &same},
    {"aten::_foreach_lerp_.List", &in_place<3>},
    {"aten::_foreach_lerp_.Scalar", &in_place<2>},
    {"aten::_foreach_lerp_.ScalarList", &in_place<2>},
    {"aten::_foreach_maximum_.Scalar", &in_place<1>},
    {"aten::_foreach_maximum_.List", &in_place<2>},
    {"aten::_foreach_maximum_.ScalarList", &in_place<1>},
    {"aten::_foreach_minimum.Scalar", &with_scalars<false>},
    {"aten::_foreach_minimum.List", &with_list<false>},
    {"aten::_foreach_minimum.ScalarList", &with_scalars<false>},
    {"aten::_foreach_neg", &same},
    {"aten::_foreach_neg_", &in_place<1>},
    {"aten::_foreach_pow.List", &with_list<false>},
    {"aten::_foreach_pow.Scalar", &with_scalars<false>},
    {"aten::_foreach_pow.ScalarList", &with_scalars<false>},
    {"aten::_foreach_pow.ScalarAndTensor", &scalar_and_list},
    {"aten::_foreach_sinh_", &in_place<1>},
    {"aten::_foreach_sqrt", &floating},
};

}  // namespace

Rows foreach_rows() { return kRows; }

}  // namespace neuron::lazy::shapes
