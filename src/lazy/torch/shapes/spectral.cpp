// Fourier transforms, with the layout of the CPU library: batch dimensions outermost in
// stride order, transformed dimensions innermost in the order of the transform.
#include "lazy/torch/shapes/arguments.h"
#include "lazy/torch/shapes/table.h"

#include <algorithm>
#include <numeric>

namespace neuron::lazy::shapes {
namespace {

at::DimVector layout(at::IntArrayRef input_strides, at::IntArrayRef sizes,
                     at::IntArrayRef dims) {
  at::DimVector order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  const auto batch_end = std::partition(order.begin(), order.end(), [&](int64_t d) {
    return std::ranges::find(dims, d) == dims.end();
  });
  std::sort(order.begin(), batch_end,
            [&](int64_t a, int64_t b) { return input_strides[a] > input_strides[b]; });
  std::ranges::copy(dims, batch_end);
  at::DimVector strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= std::max<int64_t>(sizes[order[i]], 1);
  }
  return strides;
}

// Dimensions in stride order; `keeps_last` leaves the last one last.
at::DimVector sorted(at::DimVector dims, at::IntArrayRef strides, bool keeps_last) {
  std::sort(dims.begin(), dims.end() - (keeps_last ? 1 : 0),
            [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  return dims;
}

void c2c(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  TORCH_CHECK(self.is_complex(), "Expected self.is_complex() to be true, but got false.");
  const at::DimVector dims = sorted(ints(args[1]), self.strides(), false);
  if (dims.empty()) return set_like(out, 0, self);
  out.set(0, self.sizes(), layout(self.strides(), self.sizes(), dims),
          self.scalar_type());
}

void r2c(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  TORCH_CHECK(self.is_floating_point(),
              "Expected self.is_floating_point() to be true, but got false.");
  const at::DimVector dims = sorted(ints(args[1]), self.strides(), true);
  at::DimVector sizes(self.sizes());
  const at::ScalarType dtype = c10::toComplexType(self.scalar_type());
  if (args[3].toBool()) sizes[dims.back()] = sizes[dims.back()] / 2 + 1;
  out.set(0, sizes, layout(self.strides(), sizes, dims), dtype);
}

void c2r(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  TORCH_CHECK(self.is_complex(), "Expected self.is_complex() to be true, but got false.");
  const at::DimVector dims = ints(args[1]);
  at::DimVector strides(self.strides());
  if (dims.size() > 1) {
    // All but the last dimension go through a complex transform first.
    const at::DimVector first =
        sorted(at::DimVector(dims.begin(), dims.end() - 1), self.strides(), false);
    strides = layout(self.strides(), self.sizes(), first);
  }
  at::DimVector sizes(self.sizes());
  sizes[dims.back()] = args[3].toInt();
  out.set(0, sizes, layout(strides, sizes, {dims.back()}),
          c10::toRealValueType(self.scalar_type()));
}

}  // namespace

Rows spectral_rows() {
  static constexpr Row rows[] = {
      {"aten::_fft_c2c", &c2c}, {"aten::_fft_c2c.out", &c2c},
      {"aten::_fft_r2c", &r2c}, {"aten::_fft_r2c.out", &r2c},
      {"aten::_fft_c2r", &c2r}, {"aten::_fft_c2r.out", &c2r},
  };
  return rows;
}

}  // namespace neuron::lazy::shapes
