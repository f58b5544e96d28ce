// Ops that fill a given tensor from numbers alone, and index grids.
#include "lazy/torch/shapes/arguments.h"
#include "lazy/torch/shapes/table.h"

#include <ATen/native/RangeUtils.h>
#include <c10/util/Exception.h>

#include <cmath>

namespace neuron::lazy::shapes {
namespace {

// The result keeps the given shape when its number of elements already fits.
void resize_to_count(ShapeOutputs& out, int64_t count, bool warns) {
  const at::Tensor& given = out.get(0);
  if (given.numel() == count) return;
  if (warns && given.numel() > 0) {
    TORCH_WARN(
        "The number of elements in the out tensor of shape ", given.sizes(), " is ",
        given.numel(), " which does not match the computed number of elements ", count,
        ". Note that this may occur as a result of rounding error. The out tensor will "
        "be resized to a tensor of shape (",
        count, ",).");
  }
  out.resize(0, {count});
}

void arange(const IValue* args, ShapeOutputs& out) {
  const at::Scalar start = args[0].toScalar();
  const at::Scalar end = args[1].toScalar();
  const at::Scalar step = args[2].toScalar();
  const bool is_long = out.get(0).scalar_type() == at::kLong;
  const int64_t count = is_long
                            ? at::native::compute_arange_size<int64_t>(start, end, step)
                            : at::native::compute_arange_size<double>(start, end, step);
  resize_to_count(out, count, true);
}

void range(const IValue* args, ShapeOutputs& out) {
  const double start = args[0].toScalar().toDouble();
  const double end = args[1].toScalar().toDouble();
  const double step = args[2].toScalar().toDouble();
  at::native::arange_check_bounds(args[0].toScalar(), args[1].toScalar(),
                                  args[2].toScalar());
  const auto count = static_cast<int64_t>((end - start) / step + 1);
  resize_to_count(out, count, false);
}

void linspace(const IValue* args, ShapeOutputs& out) {
  const int64_t steps = args[2].toInt();
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  resize_to_count(out, steps, false);
}

void eye_sizes(ShapeOutputs& out, int64_t n, int64_t m) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  out.resize(0, {n, m});
}
void eye(const IValue* args, ShapeOutputs& out) {
  eye_sizes(out, args[0].toInt(), args[0].toInt());
}
void eye_m(const IValue* args, ShapeOutputs& out) {
  eye_sizes(out, args[0].toInt(), args[1].toInt());
}

void randperm(const IValue* args, ShapeOutputs& out) {
  const int64_t n = args[0].toInt();
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  out.resize(0, {n});
}

// Cells of a rows x cols matrix on or below diagonal `offset`.
int64_t tril_count(int64_t rows, int64_t cols, int64_t offset) {
  int64_t count = 0;
  const int64_t first = std::max<int64_t>(0, -offset);
  if (first >= rows || cols == 0) return 0;
  // Row r has min(cols, r + offset + 1) cells: a ramp, then full rows.
  const int64_t full_from = std::clamp<int64_t>(cols - offset - 1, first, rows);
  const int64_t ramp = full_from - first;
  count += ramp * (first + offset + 1) + ramp * (ramp - 1) / 2;
  return count + (rows - full_from) * cols;
}

void check_indices(int64_t rows, int64_t cols, const IValue& layout) {
  TORCH_CHECK(rows >= 0, "row must be non-negative, got", rows);
  TORCH_CHECK(cols >= 0, "col must be non-negative, got", cols);
  TORCH_CHECK(layout.isNone() || layout.toLayout() == at::kStrided,
              "only support layout=torch.strided, got", layout.toLayout());
}
at::ScalarType index_dtype(const IValue& v) {
  return v.isNone() ? at::kLong : v.toScalarType();
}

void tril_indices(const IValue* args, ShapeOutputs& out) {
  const int64_t rows = args[0].toInt(), cols = args[1].toInt();
  check_indices(rows, cols, args[4]);
  out.set(0, {2, tril_count(rows, cols, args[2].toInt())}, index_dtype(args[3]));
}
void triu_indices(const IValue* args, ShapeOutputs& out) {
  const int64_t rows = args[0].toInt(), cols = args[1].toInt();
  check_indices(rows, cols, args[4]);
  const int64_t below = tril_count(rows, cols, args[2].toInt() - 1);
  out.set(0, {2, rows * cols - below}, index_dtype(args[3]));
}

}  // namespace

Rows factory_rows() {
  static constexpr Row rows[] = {
      {"aten::arange.start_out", &arange},
      {"aten::range.out", &range},
      {"aten::linspace.out", &linspace},
      {"aten::logspace.out", &linspace},
      {"aten::eye.out", &eye},
      {"aten::eye.m_out", &eye_m},
      {"aten::randperm.generator_out", &randperm},
      {"aten::tril_indices", &tril_indices},
      {"aten::triu_indices", &triu_indices},
  };
  return rows;
}

}  // namespace neuron::lazy::shapes
