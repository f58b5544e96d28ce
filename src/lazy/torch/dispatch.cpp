// What the dispatcher knows of the device: kernels of our own by name, every other op by
// its schema through the boxed recorder.
#include <torch/library.h>

#include "lazy/torch/record.h"
#include "lazy/torch/register.h"
#include "lazy/torch/shape.h"

namespace neuron::lazy {
namespace {

// Ops that are one recorded op although PyTorch would take them apart or run its own
// default kernel: everything with a shape function that has no kernel of its own here.
void register_boxed_ops(Registrar& m) {
  for (const std::string_view name : shape_function_names()) {
    const std::string plain(name.substr(sizeof("aten::") - 1));
    if (m.has(plain)) continue;
    m.impl(plain, torch::CppFunction::makeFromBoxedFunctor<BoxedKernel>(
                      std::make_unique<BoxedKernel>()));
  }
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  Registrar m(library);
  register_metadata_ops(m);
  register_copy_ops(m);
  register_pointwise_ops(m);
  register_unboxed_ops(m);
  register_unboxed_rows(m);
  register_matmul_ops(m);
  register_linear_op(m);
  register_norm_ops(m);
  register_cat_op(m);
  register_encoder_op(m);
  register_random_ops(m);
  register_rnn_ops(m);
  register_library_ops(m);
  register_boxed_ops(m);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&record_boxed>());
}

// A conjugated or negated tensor is copied as it is: `_copy_from` honours the bits.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace
}  // namespace neuron::lazy
