// Shape inference by TensorIterator, for pointwise ops that are not structured.
//
// The iterator knows broadcasting, type promotion, the layout of the result, and the
// checks of a given output; ATen's kernels for these ops build the same one.
#pragma once

#include "lazy/torch/shapes/arguments.h"
#include "lazy/torch/shapes/structured.h"

#include <ATen/native/TypeProperties.h>

#include <optional>

namespace neuron::lazy::shapes {

using IteratorShape = StructuredShape<at::TensorIteratorBase>;

/// Whether fresh output `i` of a pointwise op over `self` alone is simply contiguous.
inline bool is_plain(const ShapeOutputs& out, int64_t i, const at::Tensor& self) {
  return !out.is_provided(i) && self.is_contiguous();
}

/// The dtype of `self` op `scalar`.
inline at::ScalarType with_scalar(const at::Tensor& self, const at::Scalar& scalar) {
  at::native::ResultTypeState state = {};
  state = at::native::update_result_type_state(self, state);
  state = at::native::update_result_type_state(scalar, state);
  return at::native::result_type(state);
}

inline void unary(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  if (is_plain(out, 0, self)) return out.set(0, self.sizes(), self.scalar_type());
  IteratorShape(out).build_borrowing_unary_op(out.slot(0), self);
}

inline void unary_float(const IValue* args, ShapeOutputs& out) {
  IteratorShape(out).build_borrowing_unary_float_op(out.slot(0), tensor(args[0]));
}

template <int A = 0, int B = 1>
void binary(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& a = tensor(args[A]);
  const at::Tensor& b = tensor(args[B]);
  if (is_plain(out, 0, a) && b.is_contiguous() && a.scalar_type() == b.scalar_type() &&
      a.sizes() == b.sizes() && a.device() == b.device()) {
    return out.set(0, a.sizes(), a.scalar_type());
  }
  IteratorShape(out).build_borrowing_binary_op(out.slot(0), a, b);
}

inline void comparison(const IValue* args, ShapeOutputs& out) {
  IteratorShape(out).build_borrowing_comparison_op(out.slot(0), tensor(args[0]),
                                                   tensor(args[1]));
}

/// Inputs of any dtypes, broadcast; a fresh output has `dtype`.
template <class... Inputs>
void broadcast(ShapeOutputs& out, at::ScalarType dtype, const Inputs&... inputs) {
  auto config = at::TensorIteratorConfig();
  config.check_all_same_dtype(false).declare_static_dtype(dtype);
  config.add_borrowed_output(out.slot(0));
  (config.add_borrowed_const_input(inputs), ...);
  IteratorShape(out).build(config);
}

}  // namespace neuron::lazy::shapes
