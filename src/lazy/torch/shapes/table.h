// The rows that map full operator names to shape functions; one list per topic file.
#pragma once

#include "lazy/torch/shape.h"

#include <span>
#include <string_view>

namespace neuron::lazy::shapes {

struct Row {
  std::string_view name;  // with overload: "aten::add.Tensor"
  ShapeFn fn;
};
using Rows = std::span<const Row>;

/// Written by gen_shapes.py: every structured group of native_functions.yaml.
Rows structured_rows();

Rows factory_rows();
Rows pointwise_rows();
Rows foreach_rows();
Rows reduction_rows();
Rows indexing_rows();
Rows search_rows();
Rows pooling_rows();
Rows resampling_rows();
Rows normalization_rows();
Rows loss_rows();
Rows linalg_rows();
Rows spectral_rows();
Rows random_rows();
Rows attention_rows();
Rows convolution_rows();
Rows embedding_rows();
Rows optimizer_rows();

}  // namespace neuron::lazy::shapes
