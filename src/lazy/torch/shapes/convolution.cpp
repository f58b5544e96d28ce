// Convolutions as one op: the layout that at::convolution gives on the CPU.
#include "lazy/torch/shapes/arguments.h"
#include "lazy/torch/shapes/table.h"

#include <ATen/native/ConvUtils.h>

#include <algorithm>

namespace neuron::lazy::shapes {
namespace {

// Channels last when the input or the weight suggests it.
at::MemoryFormat conv_format(const at::Tensor& input, const at::Tensor& weight,
                             bool transposed, int64_t groups, at::IntArrayRef dilation) {
  if (input.dim() != 4 && input.dim() != 5) return at::MemoryFormat::Contiguous;
  if (input.dim() == 5 && transposed) {
    // Small and dilated ones run on the plain kernel, which knows no other layout.
    const bool is_dilated =
        std::ranges::any_of(dilation, [](int64_t d) { return d != 1; });
    const bool is_large = input.size(0) > 1 || groups > 1 || weight.size(-1) > 3 ||
                          weight.size(-2) > 3 || input.numel() > 20480;
    if (!is_large || is_dilated) return at::MemoryFormat::Contiguous;
  }
  const auto last = input.dim() == 4 ? at::MemoryFormat::ChannelsLast
                                     : at::MemoryFormat::ChannelsLast3d;
  const bool is_last =
      input.suggest_memory_format() == last ||
      (weight.dim() == input.dim() && weight.suggest_memory_format() == last);
  return is_last ? last : at::MemoryFormat::Contiguous;
}

at::DimVector spread_all(const IValue& v, size_t n) {
  const at::DimVector list = ints(v);
  if (list.size() != 1) return list;
  return at::DimVector(n, list[0]);
}

struct ConvArguments {
  const at::Tensor& input;
  const at::Tensor& weight;
  at::DimVector stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
};

ConvArguments read(const at::Tensor& input, const at::Tensor& weight,
                   const IValue* args) {
  const size_t n = input.dim() - 2;
  return {input,
          weight,
          spread_all(args[0], n),
          spread_all(args[1], n),
          spread_all(args[2], n),
          spread_all(args[4], n),
          args[3].toBool(),
          args[5].toInt()};
}

void check(const ConvArguments& c) {
  const int64_t n = c.weight.dim();
  TORCH_CHECK(c.groups > 0,
              "expected groups to be greater than 0, but got groups=", c.groups);
  TORCH_CHECK(n == c.input.dim(), "Expected ", n, "-dimensional input for ", n,
              "-dimensional weight ", c.weight.sizes(), ", but got ", c.input.dim(),
              "-dimensional input of size ", c.input.sizes(), " instead");
  TORCH_CHECK(c.weight.size(0) >= c.groups, "Given groups=", c.groups,
              ", expected weight to be "
              "at least ",
              c.groups, " at dimension 0, but got weight of size ", c.weight.sizes(),
              " instead");
  TORCH_CHECK(c.weight.size(0) % c.groups == 0, "Given groups=", c.groups,
              ", expected weight to "
              "be divisible by ",
              c.groups, " at dimension 0, but got weight of size [", c.weight.sizes(),
              "] instead");
  if (!c.transposed) {
    TORCH_CHECK(c.input.size(1) == c.weight.size(1) * c.groups, "Given groups=", c.groups,
                ", weight of size ", c.weight.sizes(), ", expected input",
                c.input.sizes(), " to have ", c.weight.size(1) * c.groups,
                " channels, but got ", c.input.size(1), " channels instead");
    for (int64_t i = 2; i < n; ++i) {
      const int64_t padded = c.input.size(i) + 2 * c.padding[i - 2];
      const int64_t kernel = c.dilation[i - 2] * (c.weight.size(i) - 1) + 1;
      TORCH_CHECK(padded >= kernel, "Calculated padded input size per channel: (", padded,
                  "). Kernel size: (", kernel,
                  "). Kernel size can't be greater than actual input size");
    }
  } else {
    TORCH_CHECK(c.input.size(1) == c.weight.size(0), "Given transposed=", c.transposed,
                ", weight of size ", c.weight.sizes(), ", expected input",
                c.input.sizes(), " to have ", c.weight.size(0), " channels, but got ",
                c.input.size(1), " channels instead");
  }
}

void convolution(const IValue* args, ShapeOutputs& out) {
  const ConvArguments c = read(tensor(args[0]), tensor(args[1]), args + 3);
  check(c);
  const auto bias = maybe_tensor(args[2]);
  const int64_t channels = c.transposed ? c.weight.size(1) * c.groups : c.weight.size(0);
  TORCH_CHECK(
      !bias.has_value() || (bias->dim() == 1 && bias->size(0) == channels), "Given ",
      c.transposed ? "transposed=1" : "groups=", c.transposed ? "" : c10::str(c.groups),
      ", weight of size ", c.weight.sizes(), ", expected bias to be 1-dimensional with ",
      channels, " elements, but got bias of size ", bias->sizes(), " instead");
  at::DimVector sizes;
  if (c.transposed) {
    sizes = at::DimVector(at::native::conv_input_size(c.input.sizes(), c.weight.sizes(),
                                                      c.padding, c.output_padding,
                                                      c.stride, c.dilation, c.groups));
  } else {
    sizes = at::DimVector(at::native::conv_output_size(c.input.sizes(), c.weight.sizes(),
                                                       c.padding, c.stride, c.dilation));
  }
  set_format(out, 0, sizes,
             conv_format(c.input, c.weight, c.transposed, c.groups, c.dilation),
             c.input.scalar_type());
}

// grad_output, input, weight, then for `convolution_backward` the sizes of the bias.
template <int First, int Mask>
void convolution_backward(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& grad = tensor(args[0]);
  const ConvArguments c = read(tensor(args[1]), tensor(args[2]), args + First);
  const auto mask = mask3(args[Mask]);
  const auto format = conv_format(c.input, c.weight, c.transposed, c.groups, c.dilation);
  if (mask[0]) {
    set_format(out, 0, c.input.sizes(), format, c.input.scalar_type());
  } else {
    out.set_undefined(0);
  }
  if (mask[1]) {
    set_format(out, 1, c.weight.sizes(), format, c.weight.scalar_type());
  } else {
    out.set_undefined(1);
  }
  if (mask[2]) {
    out.set(2, {grad.size(1)}, c.weight.scalar_type());
  } else {
    out.set_undefined(2);
  }
}

}  // namespace

Rows convolution_rows() {
  static constexpr Row rows[] = {
      {"aten::convolution", &convolution},
      {"aten::convolution_overrideable", &convolution},
      {"aten::convolution_backward", &convolution_backward<4, 10>},
      {"aten::convolution_backward_overrideable", &convolution_backward<3, 9>},
  };
  return rows;
}

}  // namespace neuron::lazy::shapes
