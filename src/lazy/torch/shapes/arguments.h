// Short readers of boxed arguments and the layouts that ATen gives to fresh results.
#pragma once

#include "lazy/torch/shape.h"

#include <ATen/DimVector.h>
#include <ATen/ExpandUtils.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/WrapDimMinimal.h>
#include <c10/util/strides.h>

#include <array>
#include <cstdint>

namespace neuron::lazy::shapes {

using c10::IValue;

inline const at::Tensor& tensor(const IValue& v) { return v.toTensor(); }
inline at::OptionalTensorRef maybe_tensor(const IValue& v) {
  return v.isTensor() && v.toTensor().defined() ? at::OptionalTensorRef(v.toTensor())
                                                : at::OptionalTensorRef();
}
inline at::DimVector ints(const IValue& v) { return v.toDimVector(); }
inline int64_t wrap(int64_t dim, const at::Tensor& t) {
  return c10::maybe_wrap_dim(dim, t.dim());
}

/// Element `i` of an int list that may have one element for all dimensions.
inline int64_t spread(const at::DimVector& list, size_t i) {
  return list.size() == 1 ? list[0] : list[i];
}

/// Flags of a `bool[3] output_mask` argument.
inline std::array<bool, 3> mask3(const IValue& v) {
  const auto list = v.toListRef();
  return {list[0].toBool(), list[1].toBool(), list[2].toBool()};
}

inline at::DimVector format_strides(at::IntArrayRef sizes, at::MemoryFormat format) {
  if (format == at::MemoryFormat::ChannelsLast && sizes.size() == 4) {
    return at::DimVector(c10::get_channels_last_strides_2d(sizes));
  }
  if (format == at::MemoryFormat::ChannelsLast3d && sizes.size() == 5) {
    return at::DimVector(c10::get_channels_last_strides_3d(sizes));
  }
  return at::DimVector(c10::contiguous_strides(sizes));
}

/// Output `i` has the sizes of `like` and its layout made dense, as `empty_like` does.
inline void set_like(ShapeOutputs& out, int64_t i, const at::Tensor& like,
                     at::ScalarType dtype) {
  if (like.is_non_overlapping_and_dense()) {
    out.set(i, like.sizes(), like.strides(), dtype);
  } else {
    out.set(i, like.sizes(), at::infer_dense_strides(like.sizes(), like.strides()),
            dtype);
  }
}
inline void set_like(ShapeOutputs& out, int64_t i, const at::Tensor& like) {
  set_like(out, i, like, like.scalar_type());
}
/// Output `i` has the sizes and dtype of `like` and is contiguous.
inline void set_contiguous_like(ShapeOutputs& out, int64_t i, const at::Tensor& like) {
  out.set(i, like.sizes(), like.scalar_type());
}
inline void set_format(ShapeOutputs& out, int64_t i, at::IntArrayRef sizes,
                       at::MemoryFormat format, at::ScalarType dtype) {
  out.set(i, sizes, format_strides(sizes, format), dtype);
}

/// The shape function of ops whose every output is like argument `A`.
template <int A = 0>
void like(const IValue* args, ShapeOutputs& out) {
  set_like(out, 0, tensor(args[A]));
}
template <int A = 0>
void contiguous_like(const IValue* args, ShapeOutputs& out) {
  set_contiguous_like(out, 0, tensor(args[A]));
}

}  // namespace neuron::lazy::shapes
