// Runs one of PyTorch's structured meta classes as a shape function.
//
// A meta class is plain C++: it reads its arguments' metadata and reports each output
// through a virtual call. We derive from it, unpack the boxed arguments by the types of
// its `meta` member, and forward the reports. Metas on TensorIterator are told that they
// compute for a meta device: then the iterator neither casts, nor allocates, nor asks any
// operand for its mutable data pointer (which would run pending work).
#pragma once

#include "lazy/torch/shape.h"

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace neuron::lazy::shapes {

/// Holds one unboxed argument alive while `meta` runs; `get` gives it in the parameter's
/// type.
template <class T>
struct Unboxed;

template <>
struct Unboxed<const at::Tensor&> {
  const at::Tensor& value;
  explicit Unboxed(const c10::IValue& v) : value(v.toTensor()) {}
  const at::Tensor& get() const { return value; }
};

template <>
struct Unboxed<at::OptionalTensorRef> {
  at::OptionalTensorRef value;
  explicit Unboxed(const c10::IValue& v) {
    if (v.isTensor() && v.toTensor().defined())
      value = at::OptionalTensorRef(v.toTensor());
  }
  at::OptionalTensorRef get() const { return value; }
};

template <>
struct Unboxed<const at::Scalar&> {
  at::Scalar value;
  explicit Unboxed(const c10::IValue& v) : value(v.toScalar()) {}
  const at::Scalar& get() const { return value; }
};

template <>
struct Unboxed<at::OptionalScalarRef> {
  std::optional<at::Scalar> value;
  explicit Unboxed(const c10::IValue& v) {
    if (!v.isNone()) value = v.toScalar();
  }
  at::OptionalScalarRef get() const {
    return value ? at::OptionalScalarRef(*value) : at::OptionalScalarRef();
  }
};

template <>
struct Unboxed<at::IntArrayRef> {
  at::DimVector value;
  explicit Unboxed(const c10::IValue& v) : value(v.toDimVector()) {}
  at::IntArrayRef get() const { return value; }
};

template <>
struct Unboxed<at::OptionalIntArrayRef> {
  std::optional<at::DimVector> value;
  explicit Unboxed(const c10::IValue& v) {
    if (!v.isNone()) value = v.toDimVector();
  }
  at::OptionalIntArrayRef get() const {
    return value ? at::OptionalIntArrayRef(at::IntArrayRef(*value))
                 : at::OptionalIntArrayRef();
  }
};

template <>
struct Unboxed<const at::ITensorListRef&> {
  c10::List<at::Tensor> list;
  at::ITensorListRef value;
  explicit Unboxed(const c10::IValue& v) : list(v.toTensorList()), value(list) {}
  Unboxed(const Unboxed&) = delete;  // `value` points at `list`
  const at::ITensorListRef& get() const { return value; }
};

template <>
struct Unboxed<at::IOptTensorListRef> {
  c10::List<std::optional<at::Tensor>> list;
  explicit Unboxed(const c10::IValue& v) : list(v.toOptionalTensorList()) {}
  at::IOptTensorListRef get() const { return at::IOptTensorListRef(list); }
};

template <>
struct Unboxed<c10::string_view> {
  c10::string_view value;
  explicit Unboxed(const c10::IValue& v) : value(v.toStringView()) {}
  c10::string_view get() const { return value; }
};

template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
struct Unboxed<T> {
  T value;
  explicit Unboxed(const c10::IValue& v) : value(v.to<T>()) {}
  T get() const { return value; }
};

template <class T>
struct Unboxed<std::optional<T>> {
  std::optional<T> value;
  explicit Unboxed(const c10::IValue& v)
      : value(v.isNone() ? std::optional<T>() : std::optional<T>(Unboxed<T>(v).get())) {}
  std::optional<T> get() const { return value; }
};

template <class Meta>
class StructuredShape final : public Meta {
  static constexpr bool kIsIterator = std::is_base_of_v<at::TensorIteratorBase, Meta>;

 public:
  /// `format` is for the few kernels that lay out their result otherwise than the meta
  /// says. `first` is the number of the output that the meta calls 0.
  explicit StructuredShape(ShapeOutputs& out, std::optional<at::MemoryFormat> format = {},
                           int64_t first = 0)
      : out_(out), format_(format), first_(first) {
    if constexpr (kIsIterator) this->is_meta_ = true;
  }

  const at::Tensor& maybe_get_output(int64_t i) override { return out_.slot(first_ + i); }

  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options) override {
    report(i, sizes, strides, options);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    report(i, sizes, strides, options);
  }

 private:
  void report(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
              at::TensorOptions options) {
    if (format_) options = options.memory_format(*format_);
    out_.set(first_ + i, sizes, strides, options);
    // The iterator now finds the tensor through maybe_get_output and borrows it.
    if constexpr (kIsIterator) Meta::set_output_raw_strided(i, sizes, strides, options);
  }

  ShapeOutputs& out_;
  std::optional<at::MemoryFormat> format_;
  int64_t first_;
};

template <class Meta, class Result, class... Args, size_t... I>
void run_meta(const c10::IValue* args, StructuredShape<Meta>& op,
              Result (Meta::*)(Args...), std::index_sequence<I...>) {
  std::tuple<Unboxed<Args>...> unboxed(args[I]...);
  op.meta(std::get<I>(unboxed).get()...);
}

template <class Result, class Meta, class... Args>
constexpr size_t arity(Result (Meta::*)(Args...)) {
  return sizeof...(Args);
}

template <class Meta>
void structured_shape(const c10::IValue* args, ShapeOutputs& out) {
  StructuredShape<Meta> op(out);
  run_meta(args, op, &Meta::meta, std::make_index_sequence<arity(&Meta::meta)>());
}

/// The same, but the result is laid out as argument `A` suggests.
template <class Meta, int A>
void structured_shape_like_input(const c10::IValue* args, ShapeOutputs& out) {
  const at::Tensor& model = args[A].toTensor();
  // Only batched inputs have a channels-last form.
  StructuredShape<Meta> op(out, model.suggest_memory_format());
  run_meta(args, op, &Meta::meta, std::make_index_sequence<arity(&Meta::meta)>());
}

}  // namespace neuron::lazy::shapes
