// Pooling that is not structured.
#include "lazy/torch/shapes/arguments.h"
#include "lazy/torch/shapes/table.h"

#include <ATen/native/Pool.h>

namespace neuron::lazy::shapes {
namespace {

// Sizes of `self` with its last dimensions replaced.
at::DimVector with_spatial(const at::Tensor& self, const at::DimVector& spatial) {
  at::DimVector sizes(self.sizes());
  const size_t first = sizes.size() - spatial.size();
  for (size_t i = 0; i < spatial.size(); ++i) sizes[first + i] = spatial[i];
  return sizes;
}

template <int N>
void adaptive_avg_pool(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const at::DimVector output = ints(args[1]);
  constexpr const char* name = N == 2 ? "adaptive_avg_pool2d()" : "adaptive_avg_pool3d()";
  TORCH_CHECK(output.size() == N, N == 2 ? "adaptive_avg_pool2d" : "adaptive_avg_pool3d",
              ": output_size must be ", N);
  TORCH_CHECK(self.dim() == N + 1 || self.dim() == N + 2, name, ": Expected ", N + 1,
              "D or ", N + 2, "D tensor, but got ", self.sizes());
  for (int64_t i = self.dim() - N; i < self.dim(); ++i) {
    TORCH_CHECK(self.size(i) > 0, name,
                ": Expected input to have non-zero size for non-batch "
                "dimensions, but input has sizes ",
                self.sizes(), " with dimension ", i, " being empty");
  }
  if (out.is_provided(0)) {
    TORCH_CHECK(self.dtype() == out.get(0).dtype(), "expected dtype ", self.dtype(),
                " for `output` but got dtype ", out.get(0).dtype());
  }
  const at::DimVector sizes = with_spatial(self, output);
  const auto format =
      N == 2 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
  set_format(out, 0, sizes, format, self.scalar_type());
}

template <int N>
void adaptive_avg_pool_backward(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& grad = tensor(args[0]);
  const at::Tensor& self = tensor(args[1]);
  constexpr const char* name =
      N == 2 ? "adaptive_avg_pool2d_backward" : "adaptive_avg_pool3d_backward";
  TORCH_CHECK(grad.dim() == N + 1 || grad.dim() == N + 2, name, "(): Expected ", N + 1,
              "D or ", N + 2, "D tensor, but got ", self.sizes());
  TORCH_CHECK(self.scalar_type() == grad.scalar_type(), "expected dtype ", self.dtype(),
              " for `grad_output` but got dtype ", grad.dtype());
  const auto format =
      N == 2 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
  set_format(out, 0, self.sizes(), format, self.scalar_type());
}

void max_pool3d(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const at::DimVector kernel = ints(args[1]);
  at::DimVector stride = ints(args[2]);
  const at::DimVector padding = ints(args[3]);
  const at::DimVector dilation = ints(args[4]);
  const bool ceil_mode = args[5].toBool();
  const auto is_1_or_3 = [](const at::DimVector& v) {
    return v.size() == 1 || v.size() == 3;
  };
  TORCH_CHECK(
      is_1_or_3(kernel),
      "max_pool3d: kernel_size must either be a single int, or a tuple of three ints");
  TORCH_CHECK(stride.empty() || is_1_or_3(stride),
              "max_pool3d: stride must either be omitted, a "
              "single int, or a tuple of three ints");
  TORCH_CHECK(
      is_1_or_3(padding),
      "max_pool3d: padding must either be a single int, or a tuple of three ints");
  TORCH_CHECK(
      is_1_or_3(dilation),
      "max_pool3d: dilation must be either a single int, or a tuple of three ints");
  if (stride.empty()) stride = kernel;
  const int64_t n = self.dim();
  TORCH_CHECK(
      n == 4 || n == 5,
      "non-empty 4D or 5D (batch mode) tensor expected for input, but got size: ", n);
  std::array<int64_t, 3> output;
  for (size_t i = 0; i < 3; ++i) {
    output[i] = at::native::pooling_output_shape<int64_t>(
        self.size(n - 3 + i), spread(kernel, i), spread(padding, i), spread(stride, i),
        spread(dilation, i), ceil_mode);
  }
  const auto at3 = [](const at::DimVector& v, size_t i) {
    return static_cast<int>(spread(v, i));
  };
  at::native::pool3d_shape_check(
      self, self.size(n - 4), at3(kernel, 0), at3(kernel, 1), at3(kernel, 2),
      at3(stride, 0), at3(stride, 1), at3(stride, 2), at3(padding, 0), at3(padding, 1),
      at3(padding, 2), at3(dilation, 0), at3(dilation, 1), at3(dilation, 2),
      self.size(n - 3), self.size(n - 2), self.size(n - 1), output[0], output[1],
      output[2], "max_pool3d_with_indices()");
  const at::DimVector sizes =
      with_spatial(self, at::DimVector(output.begin(), output.end()));
  const auto format =
      n == 5 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
  set_format(out, 0, sizes, format, self.scalar_type());
  set_format(out, 1, sizes, format, at::kLong);
}

void max_pool3d_backward(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[1]);
  const auto format =
      self.dim() == 5 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
  set_format(out, 0, self.sizes(), format, self.scalar_type());
}

template <int N>
void max_unpool(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const at::Tensor& indices = tensor(args[1]);
  const at::DimVector output = ints(args[2]);
  TORCH_CHECK(
      indices.scalar_type() == at::kLong,
      "elements in indices should be type int64 but got: ", indices.scalar_type());
  TORCH_CHECK(output.size() == N, "There should be exactly ", N == 2 ? "two" : "three",
              " elements (", N == 2 ? "" : "depth, ",
              "height, width) in output_size, but got ", output.size(), " elements.");
  TORCH_CHECK(self.dim() == N + 1 || self.dim() == N + 2, "Input to max_unpooling", N,
              "d should be a ", N + 1, "d or ", N + 2, "d Tensor, but got a tensor with ",
              self.dim(), " dimensions.");
  TORCH_CHECK(self.sizes() == indices.sizes(),
              "Expected shape of indices to be same as that of "
              "the input tensor (",
              self.sizes(), ") but got indices tensor with shape: ", indices.sizes());
  const auto format =
      N == 2 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
  set_format(out, 0, with_spatial(self, output), format, self.scalar_type());
}

}  // namespace

Rows pooling_rows() {
  static constexpr Row rows[] = {
      {"aten::_adaptive_avg_pool2d", &adaptive_avg_pool<2>},
      {"aten::adaptive_avg_pool2d.out", &adaptive_avg_pool<2>},
      {"aten::_adaptive_avg_pool3d", &adaptive_avg_pool<3>},
      {"aten::adaptive_avg_pool3d.out", &adaptive_avg_pool<3>},
      {"aten::_adaptive_avg_pool2d_backward", &adaptive_avg_pool_backward<2>},
      {"aten::_adaptive_avg_pool3d_backward", &adaptive_avg_pool_backward<3>},
      {"aten::adaptive_avg_pool3d_backward.grad_input", &adaptive_avg_pool_backward<3>},
      {"aten::max_pool3d_with_indices", &max_pool3d},
      {"aten::max_pool3d_with_indices.out", &max_pool3d},
      {"aten::max_pool3d_with_indices_backward", &max_pool3d_backward},
      {"aten::max_pool3d_with_indices_backward.grad_input", &max_pool3d_backward},
      {"aten::fractional_max_pool3d_backward", &contiguous_like<1>},
      {"aten::fractional_max_pool3d_backward.grad_input", &contiguous_like<1>},
      {"aten::max_unpool2d", &max_unpool<2>},
      {"aten::max_unpool2d.out", &max_unpool<2>},
      {"aten::max_unpool3d", &max_unpool<3>},
      {"aten::max_unpool3d.out", &max_unpool<3>},
  };
  return rows;
}

}  // namespace neuron::lazy::shapes
