#include "lazy/torch/matmul_ops.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/mm_ops.h>

#include <span>

#include "ir/native.h"
#include "lazy/torch/autograd_node.h"
#include "lazy/torch/lower.h"
#include "lazy/torch/record.h"
#include "lazy/torch/register.h"
#include "lazy/torch/runtime.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {
namespace {

using at::Tensor;
using ir::Operand;
namespace nodes = torch::autograd::generated;

bool is_one(const at::Scalar& number) {
  return !number.isComplex() && number.toDouble() == 1.0;
}

template <class... Args>
Tensor record_slow(const char* name, const Args&... args) {
  torch::jit::Stack stack;
  (stack.emplace_back(args), ...);
  record_boxed(c10::Dispatcher::singleton().findSchemaOrThrow(name, ""), {}, &stack);
  return std::move(stack[0]).toTensor();
}

bool fits(const Tensor& a, const Tensor& b, int64_t rank) {
  return is_matrix_operand(a) && is_matrix_operand(b) && a.dim() == rank &&
         b.dim() == rank && a.sizes()[rank - 1] == b.sizes()[rank - 2] &&
         (rank == 2 || a.sizes()[0] == b.sizes()[0]) && a.dtype() == b.dtype() &&
         a.device() == b.device();
}

Tensor new_product(const Tensor& a, const Tensor& b) {
  int64_t sizes[3];
  const auto rank = static_cast<size_t>(a.dim());
  for (size_t d = 0; d + 1 < rank; ++d) sizes[d] = a.sizes()[d];
  sizes[rank - 1] = b.sizes()[rank - 1];
  return make_tensor({sizes, rank}, {}, a.scalar_type(), a.device().index());
}

Tensor mm_entry(const Tensor& a, const Tensor& b) {
  static OpTrack& track = track_op("aten::mm");
  if (C10_LIKELY(fits(a, b, 2))) {
    Tensor out = new_product(a, b);
    if (record_matmul(ir::Op::kMm, a, b, {}, out)) {
      track.calls.fetch_add(1, std::memory_order_relaxed);
      return out;
    }
  }
  return record_slow("aten::mm", a, b);
}

Tensor bmm_entry(const Tensor& a, const Tensor& b) {
  static OpTrack& track = track_op("aten::bmm");
  if (C10_LIKELY(fits(a, b, 3))) {
    Tensor out = new_product(a, b);
    if (record_matmul(ir::Op::kBmm, a, b, {}, out)) {
      track.calls.fetch_add(1, std::memory_order_relaxed);
      return out;
    }
  }
  return record_slow("aten::bmm", a, b);
}

// One row that is added to each row of the product, or a matrix of its size.
bool is_addend(const Tensor& added, const Tensor& a, const Tensor& b) {
  if (!is_matrix_operand(added) || added.dtype() != b.dtype() ||
      added.device() != b.device()) {
    return false;
  }
  const int64_t rank = added.dim();
  if (rank != 1 && (rank != 2 || added.sizes()[0] != a.sizes()[0])) return false;
  const int64_t columns = added.sizes()[rank - 1];
  return columns == b.sizes()[1] && (columns == 1 || added.strides()[rank - 1] == 1);
}

Tensor addmm_entry(const Tensor& bias, const Tensor& a, const Tensor& b,
                   const at::Scalar& beta, const at::Scalar& alpha) {
  static OpTrack& track = track_op("aten::addmm");
  if (C10_LIKELY(fits(a, b, 2) && is_addend(bias, a, b) && is_one(beta) &&
                 is_one(alpha))) {
    Tensor out = new_product(a, b);
    if (record_matmul(ir::Op::kAddmm, a, b, bias, out)) {
      track.calls.fetch_add(1, std::memory_order_relaxed);
      return out;
    }
  }
  return record_slow("aten::addmm", bias, a, b, beta, alpha);
}

// What the gradient of one factor needs: the other, and its own layout.
void save_factors(nodes::MmBackward0& node, const Tensor& a, const Tensor& b) {
  if (node.should_compute_output(0)) {
    node.mat2_ = saved_input(b);
    node.self_layout = a.layout();
    node.self_sym_sizes = a.sym_sizes().vec();
    node.self_sym_strides = a.sym_strides().vec();
  }
  if (node.should_compute_output(1)) {
    node.self_ = saved_input(a);
    node.mat2_layout = b.layout();
    node.mat2_sym_sizes = b.sym_sizes().vec();
    node.mat2_sym_strides = b.sym_strides().vec();
  }
}
void save_factors(nodes::BmmBackward0& node, const Tensor& a, const Tensor& b) {
  if (node.should_compute_output(0)) node.mat2_ = saved_input(b);
  if (node.should_compute_output(1)) node.self_ = saved_input(a);
}

Tensor mm_autograd(c10::DispatchKeySet keys, const Tensor& a, const Tensor& b) {
  if (can_skip_autograd(keys, a, b)) return mm_entry(a, b);
  if (!can_make_node(keys, a, b)) {
    return at::_ops::mm::redispatch(generated_kernel(keys), a, b);
  }
  return with_node<nodes::MmBackward0>([&] { return mm_entry(a, b); },
                                       [&](auto& node) { save_factors(node, a, b); }, a,
                                       b);
}
Tensor bmm_autograd(c10::DispatchKeySet keys, const Tensor& a, const Tensor& b) {
  if (can_skip_autograd(keys, a, b)) return bmm_entry(a, b);
  if (!can_make_node(keys, a, b)) {
    return at::_ops::bmm::redispatch(generated_kernel(keys), a, b);
  }
  return with_node<nodes::BmmBackward0>([&] { return bmm_entry(a, b); },
                                        [&](auto& node) { save_factors(node, a, b); }, a,
                                        b);
}
Tensor addmm_autograd(c10::DispatchKeySet keys, const Tensor& bias, const Tensor& a,
                      const Tensor& b, const at::Scalar& beta, const at::Scalar& alpha) {
  if (can_skip_autograd(keys, bias, a, b)) return addmm_entry(bias, a, b, beta, alpha);
  return at::_ops::addmm::redispatch(generated_kernel(keys), bias, a, b, beta, alpha);
}

bool lower_product(const LowerArgs& call) {
  return record_matmul(call.op, call.args[0].toTensor(), call.args[1].toTensor(), {},
                       call.outputs.get(0));
}

// addmm(self, mat1, mat2, beta, alpha)
bool lower_addmm(const LowerArgs& call) {
  const Tensor& added = call.args[0].toTensor();
  const Tensor& a = call.args[1].toTensor();
  const Tensor& b = call.args[2].toTensor();
  if (!is_one(call.args[3].toScalar()) || !is_one(call.args[4].toScalar()) ||
      !is_addend(added, a, b)) {
    return false;
  }
  return record_matmul(call.op, a, b, added, call.outputs.get(0));
}

// mv(self, vec): the product with a matrix of one column.
bool lower_mv(const LowerArgs& call) {
  const Tensor& vector = call.args[1].toTensor();
  const Tensor& out = call.outputs.get(0);
  if (vector.dim() != 1 || !is_matrix_operand(vector) || !is_neuron(out) ||
      !out.is_contiguous()) {
    return false;
  }
  return record_matmul(call.op, call.args[0].toTensor(), vector, {}, out);
}

void record_operands(ir::Op op, std::span<const OperandSpec> operands, bool has_bias,
                     const Tensor& out) {
  OpSpec spec;
  spec.op = op;
  spec.variant = static_cast<uint16_t>(ir::Native::kMatmul);
  spec.number_kinds = 1;
  spec.numbers[0].integer = has_bias ? 1 : 0;
  spec.operands = operands;
  spec.site = capture_site();
  record_op(out.device().index(), std::move(spec));
  arm(out);
}

OperandSpec matrix_operand(const MatrixRef& matrix, uint8_t flags) {
  OperandSpec spec = operand_of(matrix.tensor, flags);
  spec.rank = 2;
  spec.sizes = matrix.sizes.data();
  spec.strides = matrix.strides.data();
  return spec;
}

}  // namespace

bool is_matrix_operand(const Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return impl->is_privateuseone() && impl->numel() > 0 &&
         (impl->dtype() == caffe2::TypeMeta::Make<float>() ||
          impl->dtype() == caffe2::TypeMeta::Make<double>()) &&
         !tensor.is_neg();
}

void record_product(ir::Op op, const MatrixRef& a, const MatrixRef& b, const Tensor& bias,
                    const MatrixRef& out) {
  OperandSpec operands[4];
  size_t count = 0;
  operands[count++] = matrix_operand(a, Operand::kReads);
  operands[count++] = matrix_operand(b, Operand::kReads);
  if (bias.defined()) operands[count++] = operand_of(bias, Operand::kReads);
  operands[count] = matrix_operand(out, Operand::kWrites);
  operands[count++].strides = nullptr;
  record_operands(op, {operands, count}, bias.defined(), out.tensor);
}

bool record_matmul(ir::Op op, const Tensor& a, const Tensor& b, const Tensor& added,
                   const Tensor& out) {
  if (!is_matrix_operand(a) || !is_matrix_operand(b) || a.dtype() != b.dtype() ||
      !is_neuron(out) || out.dtype() != a.dtype() || !out.is_contiguous() ||
      (a.dim() != 2 && a.dim() != 3) || storage_of(a) == storage_of(out) ||
      storage_of(b) == storage_of(out) ||
      (added.defined() && storage_of(added) == storage_of(out))) {
    return false;
  }
  OperandSpec operands[4];
  size_t count = 0;
  operands[count++] = operand_of(a, Operand::kReads);
  operands[count++] = operand_of(b, Operand::kReads);
  if (added.defined()) operands[count++] = operand_of(added, Operand::kReads);
  operands[count++] = operand_of(out, Operand::kWrites);
  record_operands(op, {operands, count}, added.defined(), out);
  return true;
}

template <class Library>
void register_products(Library& m) {
  m.impl("mm", TORCH_FN(mm_entry));
  m.impl("bmm", TORCH_FN(bmm_entry));
  m.impl("addmm", TORCH_FN(addmm_entry));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse3, m) { register_products(m); }

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("mm", TORCH_FN(mm_autograd));
  m.impl("bmm", TORCH_FN(bmm_autograd));
  m.impl("addmm", TORCH_FN(addmm_autograd));
}

void register_matmul_ops(Registrar& m) { register_products(m); }

const LowerTable& matmul_lowerings() {
  static const auto* made = new LowerTable{
      {"aten::mm", &lower_product},
      {"aten::bmm", &lower_product},
      {"aten::addmm", &lower_addmm},
      {"aten::mv", &lower_mv},
  };
  return *made;
}

}  // namespace neuron::lazy
