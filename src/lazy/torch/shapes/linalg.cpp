// Matrix products, decompositions and distances that are not structured.
#include "lazy/torch/shapes/arguments.h"
#include "lazy/torch/shapes/table.h"

#include <ATen/native/LinearAlgebraUtils.h>

#include <ATen/native/TypeProperties.h>

namespace neuron::lazy::shapes {
namespace {

// LAPACK writes matrices by columns.
void set_column_major(ShapeOutputs& out, int64_t i, at::IntArrayRef sizes,
                      at::ScalarType dtype) {
  const auto strides =
      at::native::batched_matrix_contiguous_strides(sizes, /*f-contig*/ true);
  out.set(i, sizes, strides, dtype);
}

void addbmm(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const at::Tensor& a = tensor(args[1]);
  const at::Tensor& b = tensor(args[2]);
  TORCH_CHECK(a.dim() == 3, "batch1 must be a 3D tensor");
  TORCH_CHECK(b.dim() == 3, "batch2 must be a 3D tensor");
  TORCH_CHECK(a.size(0) == b.size(0),
              "batch1 and batch2 must have same number of batches, got ", a.size(0),
              " and ", b.size(0));
  TORCH_CHECK(a.size(2) == b.size(1), "Incompatible matrix sizes for bmm (", a.size(1),
              "x", a.size(2), " and ", b.size(1), "x", b.size(2), ")");
  out.set(0, {a.size(1), b.size(2)}, self.scalar_type());
}

void int_mm(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& a = tensor(args[0]);
  const at::Tensor& b = tensor(args[1]);
  TORCH_CHECK(a.dim() == 2, "Expected self to be of dimension 2 but got ", a.dim());
  TORCH_CHECK(b.dim() == 2, "Expected mat2 to be of dimension 2 but got ", b.dim());
  TORCH_CHECK(a.size(1) == b.size(0), "self.size(1) needs to match mat2.size(0) but got ",
              a.size(1), " and ", b.size(0));
  TORCH_CHECK(a.dtype() == at::kChar || a.dtype() == at::kByte,
              "Expected self dtype to be of type int8 or uint8 but got ", a.dtype());
  TORCH_CHECK(b.dtype() == at::kChar, "Expected mat2 dtype to be of type int8 but got ",
              b.dtype());
  out.set(0, {a.size(0), b.size(1)}, at::kInt);
}

void cholesky(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  at::native::squareCheckInputs(self, "cholesky");
  if (self.numel() == 0) return set_contiguous_like(out, 0, self);
  set_column_major(out, 0, self.sizes(), self.scalar_type());
}

void cholesky_inverse(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  at::native::squareCheckInputs(self, "cholesky_inverse");
  set_column_major(out, 0, self.sizes(), self.scalar_type());
}

void cholesky_solve(const IValue* args, ShapeOutputs& out) {
  set_column_major(out, 0, tensor(args[0]).sizes(), tensor(args[0]).scalar_type());
}

void solve_triangular(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& a = tensor(args[0]);
  const at::Tensor& b = tensor(args[1]);
  const bool left = args[3].toBool();
  at::native::checkInputsSolver(a, b, left, "linalg.solve_triangular");
  at::DimVector sizes = at::infer_size_dimvector(a.sizes().slice(0, a.dim() - 2),
                                                 b.sizes().slice(0, b.dim() - 2));
  sizes.push_back(b.size(-2));
  sizes.push_back(b.size(-1));
  set_column_major(out, 0, sizes, b.scalar_type());
}

void householder_product(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const at::Tensor& tau = tensor(args[1]);
  TORCH_CHECK(self.dim() >= 2,
              "torch.linalg.householder_product: input must have at least 2 dimensions.");
  TORCH_CHECK(self.size(-2) >= self.size(-1),
              "torch.linalg.householder_product: "
              "input.shape[-2] must be greater than or equal to input.shape[-1]");
  TORCH_CHECK(self.size(-1) >= tau.size(-1),
              "torch.linalg.householder_product: input.shape[-1] "
              "must be greater than or equal to tau.shape[-1]");
  set_column_major(out, 0, self.sizes(), self.scalar_type());
}

void matrix_exp(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  at::native::squareCheckInputs(self, "linalg.matrix_exp");
  at::native::checkFloatingOrComplex(self, "linalg.matrix_exp");
  set_contiguous_like(out, 0, self);
}

void geqrf(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  TORCH_CHECK(self.dim() >= 2, "torch.geqrf: input must have at least 2 dimensions.");
  set_column_major(out, 0, self.sizes(), self.scalar_type());
  at::DimVector tau(self.sizes().slice(0, self.dim() - 2));
  tau.push_back(std::min(self.size(-2), self.size(-1)));
  out.set(1, tau, self.scalar_type());
}

void ormqr(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& other = tensor(args[2]);
  TORCH_CHECK(tensor(args[0]).dim() >= 2,
              "torch.ormqr: input must have at least 2 dimensions.");
  TORCH_CHECK(other.dim() >= 2, "torch.ormqr: other must have at least 2 dimensions.");
  set_column_major(out, 0, other.sizes(), other.scalar_type());
}

void eig(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  at::native::squareCheckInputs(self, "linalg.eig");
  const at::ScalarType dtype = c10::toComplexType(self.scalar_type());
  out.set(0, self.sizes().slice(0, self.dim() - 1), dtype);
  set_column_major(out, 1, self.sizes(), dtype);
}

void eigvals(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  at::native::squareCheckInputs(self, "linalg.eigvals");
  out.set(0, self.sizes().slice(0, self.dim() - 1),
          c10::toComplexType(self.scalar_type()));
}

void cdist(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& a = tensor(args[0]);
  const at::Tensor& b = tensor(args[1]);
  TORCH_CHECK(a.dim() >= 2, "cdist only supports at least 2D tensors, X1 got: ", a.dim(),
              "D");
  TORCH_CHECK(b.dim() >= 2, "cdist only supports at least 2D tensors, X2 got: ", b.dim(),
              "D");
  TORCH_CHECK(a.size(-1) == b.size(-1),
              "X1 and X2 must have the same number of columns. X1: ", a.size(-1),
              " X2: ", b.size(-1));
  at::DimVector sizes = at::infer_size_dimvector(a.sizes().slice(0, a.dim() - 2),
                                                 b.sizes().slice(0, b.dim() - 2));
  sizes.push_back(a.size(-2));
  sizes.push_back(b.size(-2));
  out.set(0, sizes, a.scalar_type());
}

void cdist_backward(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& a = tensor(args[1]);
  if (a.numel() == 0) return set_like(out, 0, a);
  // The batches of both points broadcast.
  const at::Tensor& b = tensor(args[2]);
  at::DimVector sizes = at::infer_size_dimvector(a.sizes().slice(0, a.dim() - 2),
                                                 b.sizes().slice(0, b.dim() - 2));
  sizes.append({a.size(-2), a.size(-1)});
  out.set(0, sizes, a.scalar_type());
}

void addr(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const at::Tensor& a = tensor(args[1]);
  const at::Tensor& b = tensor(args[2]);
  TORCH_CHECK(a.dim() == 1 && b.dim() == 1,
              "addr: Expected 1-D argument vec1 and vec2, but got ", a.dim(), "-D and ",
              b.dim(), "-D");
  const at::DimVector sizes = {a.size(0), b.size(0)};
  const bool expands = self.dim() <= 2 && at::is_expandable_to(self.sizes(), sizes);
  TORCH_CHECK(expands, "size mismatch, input: ", self.sizes(), ", v1: ", a.sizes(),
              ", v2: ", b.sizes());
  at::native::ResultTypeState state = {};
  state = at::native::update_result_type_state(self, state);
  state = at::native::update_result_type_state(a, state);
  state = at::native::update_result_type_state(b, state);
  out.set(0, sizes, at::native::result_type(state));
}

void pdist(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const int64_t n = self.size(0);
  out.set(0, {n <= 1 ? 0 : n * (n - 1) / 2}, self.scalar_type());
}

void linear_combination(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& input = tensor(args[0]);
  at::DimVector sizes(input.sizes());
  sizes[0] = tensor(args[1]).size(0);
  out.set(0, sizes, input.scalar_type());
}

}  // namespace

Rows linalg_rows() {
  static constexpr Row rows[] = {
      {"aten::addbmm", &addbmm},
      {"aten::addbmm.out", &addbmm},
      {"aten::addbmm_", &addbmm},
      {"aten::_int_mm", &int_mm},
      {"aten::_int_mm.out", &int_mm},
      {"aten::cholesky", &cholesky},
      {"aten::cholesky.out", &cholesky},
      {"aten::cholesky_inverse", &cholesky_inverse},
      {"aten::cholesky_inverse.out", &cholesky_inverse},
      {"aten::linalg_householder_product", &householder_product},
      {"aten::linalg_householder_product.out", &householder_product},
      {"aten::linalg_matrix_exp", &matrix_exp},
      {"aten::geqrf", &geqrf},
      {"aten::geqrf.a", &geqrf},
      {"aten::ormqr", &ormqr},
      {"aten::ormqr.out", &ormqr},
      {"aten::linalg_eig", &eig},
      {"aten::linalg_eig.out", &eig},
      {"aten::_linalg_eigvals", &eigvals},
      {"aten::linalg_eigvals.out", &eigvals},
      {"aten::linalg_solve_triangular", &solve_triangular},
      {"aten::linalg_solve_triangular.out", &solve_triangular},
      {"aten::_cholesky_solve_helper", &cholesky_solve},
      {"aten::_cdist_forward", &cdist},
      {"aten::_cdist_backward", &cdist_backward},
      {"aten::addr", &addr},
      {"aten::addr.out", &addr},
      {"aten::_pdist_forward", &pdist},
      {"aten::_pdist_backward", &contiguous_like<1>},
      {"aten::_compute_linear_combination", &linear_combination},
      {"aten::_compute_linear_combination.out", &linear_combination},
  };
  return rows;
}

}  // namespace neuron::lazy::shapes
