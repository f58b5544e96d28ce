#include "lazy/torch/shape.h"

#include "lazy/torch/shapes/table.h"

#include <ATen/core/TensorBase.h>
#include <ATen/native/Resize.h>
#include <c10/core/MemoryFormat.h>
#include <c10/util/strides.h>

#include <algorithm>
#include <array>
#include <unordered_map>

namespace neuron::lazy {
namespace {

void check_out(const at::Tensor& out, at::ScalarType dtype) {
  TORCH_CHECK(out.scalar_type() == dtype, "Expected out tensor to have dtype ",
              c10::scalarTypeToTypeMeta(dtype), ", but got ", out.dtype(), " instead");
}

void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, at::ScalarType dtype) {
  TORCH_CHECK(self.scalar_type() == dtype, "Bad in-place call: input tensor dtype ",
              self.dtype(), " and output tensor dtype ", c10::scalarTypeToTypeMeta(dtype),
              " should match");
  TORCH_CHECK(sizes == self.sizes(), "Bad in-place call: input tensor size ",
              self.sizes(), " and output tensor size ", sizes, " should match");
}

using Table = std::unordered_map<std::string_view, ShapeFn>;

Table build_table() {
  Table table;
  // Later lists win, so hand-written functions may replace structured ones.
  for (shapes::Rows rows : {
           shapes::structured_rows(),
#define NEURON_TOPIC(topic) shapes::topic##_rows(),
#include "lazy/torch/shapes/topics.def"
#undef NEURON_TOPIC
       }) {
    for (const shapes::Row& row : rows) table.insert_or_assign(row.name, row.fn);
  }
  return table;
}

const Table& shape_table() {
  static const Table table = build_table();
  return table;
}

// Sorted. Outputs sized by values, results read by the host, or checks of values.
constexpr auto kDataDependent = std::to_array<std::string_view>({
    "aten::_assert_async",
    "aten::_assert_async.msg",
    "aten::_functional_assert_async.msg",
    "aten::_histogramdd_bin_edges",
    "aten::_histogramdd_from_bin_cts",
    "aten::_local_scalar_dense",
    "aten::_unique",
    "aten::_unique2",
    "aten::bincount",
    "aten::equal",
    "aten::histogram.bin_ct",
    "aten::histogram.bin_ct_out",
    "aten::is_nonzero",
    "aten::item",
    "aten::masked_select",
    "aten::masked_select.out",
    "aten::nonzero",
    "aten::nonzero.out",
    "aten::repeat_interleave.Tensor",
    "aten::unique_consecutive",
    "aten::unique_dim",
    "aten::unique_dim_consecutive",
});
static_assert(std::ranges::is_sorted(kDataDependent));

}  // namespace

ShapeOutputs::Output& ShapeOutputs::at_index(int64_t i) {
  const auto index = static_cast<size_t>(i);
  if (index >= outputs_.size()) outputs_.resize(index + 1);
  return outputs_[index];
}

void ShapeOutputs::provide(Kind kind, int64_t i, const at::Tensor& given) {
  Output& output = at_index(i);
  output.tensor = given;
  output.kind = kind;
}

void ShapeOutputs::set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                       at::ScalarType dtype) {
  Output& output = at_index(i);
  switch (output.kind) {
    case Kind::kFunctional:
      output.tensor = make_(ctx_, sizes, strides, dtype);
      return;
    case Kind::kInplace:
      check_inplace(output.tensor, sizes, dtype);
      return;
    case Kind::kOut:
      check_out(output.tensor, dtype);
      if (at::native::resize_output(output.tensor, sizes) && !strides.empty()) {
        output.tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
      }
      return;
  }
}

void ShapeOutputs::set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                       const at::TensorOptions& options) {
  const at::ScalarType dtype = c10::typeMetaToScalarType(options.dtype());
  if (is_provided(i)) {
    const Output& output = outputs_[i];
    if (output.kind == Kind::kOut) {
      TORCH_CHECK(options.device() == output.tensor.device(),
                  "Expected out tensor to have device ", options.device(), ", but got ",
                  output.tensor.device(), " instead");
    } else {
      TORCH_CHECK(options.device() == output.tensor.device(),
                  "Bad in-place call: input tensor device ", output.tensor.device(),
                  " and output tensor device ", options.device(), " should match");
    }
  }
  const auto format = options.memory_format_opt();
  if (strides.empty() && format && *format != at::MemoryFormat::Contiguous) {
    const bool is_2d = *format == at::MemoryFormat::ChannelsLast;
    const auto format_strides = is_2d ? c10::get_channels_last_strides_2d(sizes)
                                      : c10::get_channels_last_strides_3d(sizes);
    set(i, sizes, format_strides, dtype);
  } else {
    set(i, sizes, strides, dtype);
  }
}

void ShapeOutputs::resize(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides) {
  const at::Tensor& given = at_index(i).tensor;
  if (given.sizes() == sizes) return;
  given.resize_(sizes);
  if (!strides.empty())
    given.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
}

void ShapeOutputs::set_undefined(int64_t i) { at_index(i).tensor = at::Tensor(); }

const at::Tensor& ShapeOutputs::get(int64_t i) const {
  static const at::Tensor undefined;
  const auto index = static_cast<size_t>(i);
  return index < outputs_.size() ? outputs_[index].tensor : undefined;
}

ShapeFn find_shape_function(std::string_view name) {
  const auto found = shape_table().find(name);
  return found == shape_table().end() ? nullptr : found->second;
}

std::vector<std::string_view> shape_function_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, function] : shape_table()) names.push_back(name);
  return names;
}

bool is_data_dependent(std::string_view name) {
  return std::ranges::binary_search(kDataDependent, name);
}

}  // namespace neuron::lazy
