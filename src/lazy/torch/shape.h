// Shape inference in C++: what an aten op will return, before any byte of it exists.
//
// A shape function reads the boxed arguments of one op and reports, for every output, its
// sizes, strides and dtype. It checks what ATen checks and raises ATen's own errors,
// never touches bytes, never calls the dispatcher on a Meta tensor, and costs well under
// 1 us.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/SmallVector.h>

#include <string_view>
#include <vector>

namespace neuron::lazy {

/// Receives the outputs of one op. Three cases per output: a fresh tensor has to be made
/// (functional ops), the caller gave one that may be resized (`out=`), or the output is
/// the input itself (in-place).
class ShapeOutputs {
 public:
  enum class Kind : uint8_t { kFunctional, kOut, kInplace };
  /// Makes a fresh tensor; empty `strides` means contiguous.
  using MakeFn = at::Tensor (*)(void* ctx, at::IntArrayRef sizes, at::IntArrayRef strides,
                                at::ScalarType dtype);

  ShapeOutputs(MakeFn make, void* ctx) : make_(make), ctx_(ctx) {}

  /// Output `i` is the tensor the caller gave (out= or in-place). Only for arguments that
  /// the op returns; buffers it updates besides its results (running means) are not
  /// outputs.
  void provide(Kind kind, int64_t i, const at::Tensor& given);

  /// Reports output `i`. Fresh: makes it. `out=`: checks dtype, then resizes as PyTorch
  /// does (with its warning). In-place: checks dtype and sizes with PyTorch's wording.
  void set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
           at::ScalarType dtype);
  void set(int64_t i, at::IntArrayRef sizes, at::ScalarType dtype) {
    set(i, sizes, {}, dtype);
  }
  /// The same from a meta class: a memory format stands for strides, and a given output
  /// must be on the device of `options`.
  void set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
           const at::TensorOptions& options);
  /// Given output `i` of a kernel that resizes without asking: no dtype check, no
  /// warning.
  void resize(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides = {});
  /// Output `i` is an undefined tensor (a gradient nobody asked for).
  void set_undefined(int64_t i);

  /// The output's tensor: undefined before `set`, unless the caller gave it.
  const at::Tensor& get(int64_t i) const;
  /// The place where output `i` will be; it stays where it is for the first four outputs.
  const at::Tensor& slot(int64_t i) { return at_index(i).tensor; }
  size_t size() const { return outputs_.size(); }
  bool is_provided(int64_t i) const {
    return static_cast<size_t>(i) < outputs_.size() &&
           outputs_[i].kind != Kind::kFunctional;
  }

 private:
  struct Output {
    at::Tensor tensor;
    Kind kind = Kind::kFunctional;
  };
  Output& at_index(int64_t i);

  MakeFn make_;
  void* ctx_;
  c10::SmallVector<Output, 4> outputs_;
};

/// Reads the arguments in schema order (for `out=` overloads the trailing out arguments
/// are there too, after the others, and may be ignored).
using ShapeFn = void (*)(const c10::IValue* args, ShapeOutputs& out);

/// The shape function of an operator, by full name with overload ("aten::add.Tensor",
/// "aten::add_.Tensor", "aten::add.out"); nullptr where there is none.
ShapeFn find_shape_function(std::string_view name);

/// The full names that have a shape function.
std::vector<std::string_view> shape_function_names();

/// Whether the sizes of the outputs (or the op's result itself) depend on the bytes of
/// the inputs, so that no shape function can exist and the op has to run where it is
/// called.
bool is_data_dependent(std::string_view name);

}  // namespace neuron::lazy
