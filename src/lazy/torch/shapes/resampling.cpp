// Padding, grid sampling, sliding windows.
#include "lazy/torch/shapes/arguments.h"
#include "lazy/torch/shapes/table.h"

#include <ATen/native/GridSamplerUtils.h>
#include <ATen/native/im2col_shape_check.h>
#include <c10/core/Contiguity.h>

#include <algorithm>

namespace neuron::lazy::shapes {
namespace {

void constant_pad(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const at::DimVector pad = ints(args[1]);
  const int64_t n = self.dim();
  TORCH_CHECK(pad.size() % 2 == 0, "Length of pad must be even but instead it equals ",
              pad.size());
  TORCH_CHECK(n >= static_cast<int64_t>(pad.size() / 2),
              "Length of pad should be no more than "
              "twice the number of dimensions of the input. Pad length is ",
              pad.size(), "while the input has ", n, " dimensions.");
  at::DimVector sizes(self.sizes());
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    int64_t& size = sizes[n - 1 - i];
    const int64_t padded = size + pad[2 * i] + pad[2 * i + 1];
    TORCH_CHECK(padded >= 0, "The input size ", size, ", plus negative padding ",
                pad[2 * i], " and ", pad[2 * i + 1],
                " resulted in a negative output size, which is invalid. "
                "Check dimension ",
                n - 1 - i, " of your input.");
    size = padded;
  }
  // Pure cropping is a copy of a view, which keeps the layout of the view.
  if (std::ranges::all_of(pad, [](int64_t p) { return p <= 0; })) {
    const bool is_empty = std::ranges::find(sizes, 0) != sizes.end();
    if (is_empty ||
        c10::_compute_non_overlapping_and_dense<int64_t>(sizes, self.strides())) {
      return out.set(0, sizes, self.strides(), self.scalar_type());
    }
    const auto strides = at::infer_dense_strides(sizes, self.strides());
    return out.set(0, sizes, strides, self.scalar_type());
  }
  set_format(out, 0, sizes, self.suggest_memory_format(), self.scalar_type());
}

void reflection_pad2d(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const at::DimVector pad = ints(args[1]);
  TORCH_CHECK(pad.size() == 4, "padding size is expected to be 4, but got: ", pad.size());
  const int64_t n = self.dim();
  bool is_valid = n == 3 || n == 4;
  for (int64_t i = 1; i < n && is_valid; ++i) {
    is_valid = self.size(i) != 0 || (n == 3 && i == 0);
  }
  if (n == 3) is_valid = is_valid && self.size(0) != 0;
  TORCH_CHECK(is_valid,
              "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and "
              "other non-zero dimensions for input, but got: ",
              self.sizes());
  const int64_t height = self.size(n - 2), width = self.size(n - 1);
  TORCH_CHECK(pad[0] < width && pad[1] < width,
              "Argument #4: Padding size should be less than "
              "the corresponding input dimension, but got: padding (",
              pad[0], ", ", pad[1], ") at dimension ", n - 1, " of input ", self.sizes());
  TORCH_CHECK(pad[2] < height && pad[3] < height,
              "Argument #6: Padding size should be less than "
              "the corresponding input dimension, but got: padding (",
              pad[2], ", ", pad[3], ") at dimension ", n - 2, " of input ", self.sizes());
  at::DimVector sizes(self.sizes());
  sizes[n - 2] += pad[2] + pad[3];
  sizes[n - 1] += pad[0] + pad[1];
  TORCH_CHECK(sizes[n - 1] >= 1 || sizes[n - 2] >= 1, "input (H: ", height,
              ", W: ", width, ") is too small. Calculated output H: ", sizes[n - 2],
              " W: ", sizes[n - 1]);
  const auto format =
      n == 4 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
  set_format(out, 0, sizes, format, self.scalar_type());
}

template <int N>
void pad_backward(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& grad = tensor(args[0]);
  const at::Tensor& self = tensor(args[1]);
  const at::DimVector pad = ints(args[2]);
  TORCH_CHECK(pad.size() == 2 * N, "padding size is expected to be ", 2 * N,
              ", but got: ", pad.size());
  const int64_t n = self.dim();
  constexpr std::array<const char*, 3> kNames = {"width", "height", "depth"};
  for (int i = 0; i < N; ++i) {
    const int64_t expected = self.size(n - 1 - i) + pad[2 * i] + pad[2 * i + 1];
    TORCH_CHECK(expected == grad.size(n - 1 - i), "grad_output ", kNames[i],
                " unexpected. Expected: ", expected, ", Got: ", grad.size(n - 1 - i));
  }
  set_format(out, 0, self.sizes(), self.suggest_memory_format(), self.scalar_type());
}

template <int N>
void grid_sampler(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& input = tensor(args[0]);
  const at::Tensor& grid = tensor(args[1]);
  at::native::check_grid_sampler_common(input, grid);
  if constexpr (N == 2) {
    at::native::check_grid_sampler_2d(input, grid);
  } else {
    at::native::check_grid_sampler_3d(input, grid, args[2].toInt());
  }
  at::DimVector sizes = {input.size(0), input.size(1)};
  for (int i = 0; i < N; ++i) sizes.push_back(grid.size(1 + i));
  out.set(0, sizes, input.scalar_type());
}

template <int N>
void grid_sampler_backward(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& input = tensor(args[1]);
  const at::Tensor& grid = tensor(args[2]);
  if (args[6].toListRef()[0].toBool()) {
    out.set(0, input.sizes(), input.scalar_type());
  } else {
    out.set_undefined(0);
  }
  set_contiguous_like(out, 1, grid);
}

void im2col(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const at::DimVector kernel = ints(args[1]), dilation = ints(args[2]),
                      padding = ints(args[3]), stride = ints(args[4]);
  TORCH_CHECK(kernel.size() == 2, "It is expected kernel_size equals to 2, but got size ",
              kernel.size());
  TORCH_CHECK(dilation.size() == 2, "It is expected dilation equals to 2, but got size ",
              dilation.size());
  TORCH_CHECK(padding.size() == 2, "It is expected padding equals to 2, but got size ",
              padding.size());
  TORCH_CHECK(stride.size() == 2, "It is expected stride equals to 2, but got size ",
              stride.size());
  at::native::im2col_shape_check(self, at::Tensor(), kernel[0], kernel[1], dilation[0],
                                 dilation[1], padding[0], padding[1], stride[0],
                                 stride[1]);
  const int64_t n = self.dim();
  int64_t length = 1;
  for (int i = 0; i < 2; ++i) {
    length *=
        (self.size(n - 2 + i) + 2 * padding[i] - (dilation[i] * (kernel[i] - 1) + 1)) /
            stride[i] +
        1;
  }
  const int64_t planes = self.size(n - 3) * kernel[0] * kernel[1];
  if (n == 4) {
    out.set(0, {self.size(0), planes, length}, self.scalar_type());
  } else {
    out.set(0, {planes, length}, self.scalar_type());
  }
}

void col2im(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const at::DimVector output = ints(args[1]), kernel = ints(args[2]),
                      dilation = ints(args[3]), padding = ints(args[4]),
                      stride = ints(args[5]);
  TORCH_CHECK(output.size() == 2, "It is expected output_size equals to 2, but got size ",
              output.size());
  TORCH_CHECK(kernel.size() == 2, "It is expected kernel_size equals to 2, but got size ",
              kernel.size());
  TORCH_CHECK(dilation.size() == 2, "It is expected dilation equals to 2, but got size ",
              dilation.size());
  TORCH_CHECK(padding.size() == 2, "It is expected padding equals to 2, but got size ",
              padding.size());
  TORCH_CHECK(stride.size() == 2, "It is expected stride equals to 2, but got size ",
              stride.size());
  at::native::col2im_shape_check(self, at::Tensor(), output[0], output[1], kernel[0],
                                 kernel[1], dilation[0], dilation[1], padding[0],
                                 padding[1], stride[0], stride[1]);
  const int64_t channels = self.size(self.dim() - 2) / (kernel[0] * kernel[1]);
  if (self.dim() == 3) {
    out.set(0, {self.size(0), channels, output[0], output[1]}, self.scalar_type());
  } else {
    out.set(0, {channels, output[0], output[1]}, self.scalar_type());
  }
}

}  // namespace

Rows resampling_rows() {
  static constexpr Row rows[] = {
      {"aten::constant_pad_nd", &constant_pad},
      {"aten::reflection_pad2d", &reflection_pad2d},
      {"aten::reflection_pad2d.out", &reflection_pad2d},
      {"aten::reflection_pad2d_backward", &pad_backward<2>},
      {"aten::reflection_pad2d_backward.grad_input", &pad_backward<2>},
      {"aten::replication_pad2d_backward", &pad_backward<2>},
      {"aten::replication_pad2d_backward.grad_input", &pad_backward<2>},
      {"aten::replication_pad3d_backward", &pad_backward<3>},
      {"aten::replication_pad3d_backward.grad_input", &pad_backward<3>},
      {"aten::grid_sampler_2d", &grid_sampler<2>},
      {"aten::grid_sampler_3d", &grid_sampler<3>},
      {"aten::grid_sampler_2d_backward", &grid_sampler_backward<2>},
      {"aten::grid_sampler_3d_backward", &grid_sampler_backward<3>},
      {"aten::im2col", &im2col},
      {"aten::im2col.out", &im2col},
      {"aten::col2im", &col2im},
      {"aten::col2im.out", &col2im},
  };
  return rows;
}

}  // namespace neuron::lazy::shapes
