// Reductions that are not structured.
#include "lazy/torch/shapes/iterator.h"
#include "lazy/torch/shapes/table.h"

#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/ReduceOpsUtils.h>

namespace neuron::lazy::shapes {
namespace {

std::optional<at::DimVector> maybe_ints(const IValue& v) {
  if (v.isNone()) return std::nullopt;
  return v.toDimVector();
}

at::DimVector reduced_sizes(const at::Tensor& self,
                            const std::optional<at::DimVector>& dims, bool keepdim) {
  const at::OptionalIntArrayRef ref =
      dims ? at::OptionalIntArrayRef(at::IntArrayRef(*dims)) : at::OptionalIntArrayRef();
  const auto mask = at::native::make_dim_mask(ref, self.dim());
  return at::native::shape_from_dim_mask(self, mask, keepdim);
}

at::DimVector without_dim(const at::Tensor& self, int64_t dim, bool keepdim) {
  at::DimVector sizes(self.sizes());
  if (sizes.empty()) return sizes;
  if (keepdim) {
    sizes[dim] = 1;
  } else {
    sizes.erase(sizes.begin() + dim);
  }
  return sizes;
}

at::ScalarType sum_dtype(const at::Tensor& self, const IValue& dtype) {
  if (!dtype.isNone()) return dtype.toScalarType();
  return c10::isIntegralType(self.scalar_type(), true) ? at::kLong : self.scalar_type();
}

void prod(const IValue* args, ShapeOutputs& out) {
  out.set(0, {}, sum_dtype(tensor(args[0]), args[1]));
}

void nansum(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  TORCH_CHECK(!self.is_complex(), "nansum does not support complex inputs");
  out.set(0, reduced_sizes(self, maybe_ints(args[1]), args[2].toBool()),
          sum_dtype(self, args[3]));
}

// min() and max() of everything.
template <bool is_max>
void extremum(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  TORCH_CHECK(
      self.numel() > 0, is_max ? "max()" : "min()",
      ": Expected reduction dim to be specified for input.numel() == 0. Specify the "
      "reduction dim with the 'dim' argument.");
  out.set(0, {}, self.scalar_type());
}

void extremum_out(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  TORCH_CHECK(self.device() == out.get(0).device(),
              "Expected all tensors to be on the same "
              "device, but found at least two devices, ",
              self.device(), " and ", out.get(0).device(), "!");
  TORCH_CHECK(c10::canCast(self.scalar_type(), out.get(0).scalar_type()), "result type ",
              self.scalar_type(), " can't be cast to the desired output type ",
              out.get(0).scalar_type());
  out.set(0, {}, out.get(0).scalar_type());
}

void median_all(const IValue* args, ShapeOutputs& out) {
  out.set(0, {}, tensor(args[0]).scalar_type());
}

void check_not_empty(const at::Tensor& self, int64_t dim, const char* name) {
  at::native::zero_numel_check_dims(self, dim, name);
}

// Values and int64 indices along one dimension.
void values_and_indices(const at::Tensor& self, int64_t dim, bool keepdim,
                        ShapeOutputs& out) {
  const at::DimVector sizes = without_dim(self, dim, keepdim);
  out.set(0, sizes, self.scalar_type());
  out.set(1, sizes, at::kLong);
}

void median_dim(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const int64_t dim = wrap(args[1].toInt(), self);
  check_not_empty(self, dim, "median()");
  values_and_indices(self, dim, args[2].toBool(), out);
}

void mode(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const int64_t dim = wrap(args[1].toInt(), self);
  if (self.numel() == 0) check_not_empty(self, dim, "mode()");
  values_and_indices(self, dim, args[2].toBool(), out);
}

void kthvalue(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const int64_t k = args[1].toInt();
  const int64_t dim = wrap(args[2].toInt(), self);
  const int64_t length = self.dim() > 0 ? self.size(dim) : 1;  // a scalar has one element
  TORCH_CHECK(k >= 1 && k <= length,
              "kthvalue(): selected number k out of range for dimension ", dim);
  check_not_empty(self, dim, "kthvalue()");
  values_and_indices(self, dim, args[3].toBool(), out);
}

void aminmax_all(const IValue* args, ShapeOutputs& out) {
  const at::ScalarType dtype = tensor(args[0]).scalar_type();
  out.set(0, {}, dtype);
  out.set(1, {}, dtype);
}

void aminmax_dim(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const at::DimVector sizes =
      without_dim(self, wrap(args[1].toInt(), self), args[2].toBool());
  out.set(0, sizes, self.scalar_type());
  out.set(1, sizes, self.scalar_type());
}

// std, var: real even for complex inputs.
template <bool is_std>
void std_var(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  TORCH_CHECK(self.is_floating_point() || self.is_complex(),
              "std and var only support floating point and complex dtypes");
  out.set(0, reduced_sizes(self, maybe_ints(args[1]), args[3].toBool()),
          c10::toRealValueType(self.scalar_type()));
}

template <bool is_std>
void std_var_mean(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  TORCH_CHECK(self.is_floating_point() || self.is_complex(),
              is_std ? "std_mean" : "var_mean",
              " only support floating point and complex dtypes");
  const at::DimVector sizes = reduced_sizes(self, maybe_ints(args[1]), args[3].toBool());
  out.set(0, sizes, c10::toRealValueType(self.scalar_type()));
  out.set(1, sizes, self.scalar_type());
}

void count_nonzero_dims(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  out.set(0, reduced_sizes(self, ints(args[1]), false), at::kLong);
}

void count_nonzero(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  if (args[1].isNone()) return out.set(0, {}, at::kLong);
  const int64_t dim = wrap(args[1].toInt(), self);
  out.set(0, without_dim(self, dim, false), at::kLong);
}

void trace(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ",
              self.dim());
  out.set(0, {}, sum_dtype(self, {}));
}

void dot(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& a = tensor(args[0]);
  const at::Tensor& b = tensor(args[1]);
  TORCH_CHECK(a.dim() == 1 && b.dim() == 1, "1D tensors expected, but got ", a.dim(),
              "D and ", b.dim(), "D tensors");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(),
              "dot : expected both vectors to have same "
              "dtype, but found ",
              a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(a.numel() == b.numel(), "inconsistent tensor size, expected tensor [",
              a.numel(), "] and src [", b.numel(),
              "] to have the same number of elements, but got ", a.numel(), " and ",
              b.numel(), " elements respectively");
  out.set(0, {}, a.scalar_type());
}

void histc(const IValue* args, ShapeOutputs& out) {
  const int64_t bins = args[1].toInt();
  TORCH_CHECK(bins > 0, "torch.histc: bins must be > 0, but got ", bins);
  out.set(0, {bins}, tensor(args[0]).scalar_type());
}

void histogram_bins(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& bins = tensor(args[1]);
  out.set(0, {bins.numel() - 1}, tensor(args[0]).scalar_type());
  out.set(1, bins.sizes(), bins.scalar_type());
}

void segment_reduce(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& data = tensor(args[0]);
  const int64_t axis = wrap(args[5].toInt(), data);
  const auto lengths = maybe_tensor(args[2]);
  const auto offsets = maybe_tensor(args[4]);
  TORCH_CHECK(data.numel() >= 0 && (lengths.has_value() || offsets.has_value()),
              "segment_reduce(): Either lengths or offsets must be defined.");
  at::DimVector sizes(data.sizes());
  sizes[axis] = lengths.has_value() ? lengths->size(axis) : offsets->size(axis) - 1;
  out.set(0, sizes, data.scalar_type());
}

// cummax and cummin write into the tensors that the caller made.
void no_outputs(const IValue*, ShapeOutputs&) {}

}  // namespace

Rows reduction_rows() {
  static constexpr Row rows[] = {
      {"aten::prod", &prod},
      {"aten::nansum", &nansum},
      {"aten::nansum.out", &nansum},
      {"aten::min", &extremum<false>},
      {"aten::max", &extremum<true>},
      {"aten::min.unary_out", &extremum_out},
      {"aten::max.unary_out", &extremum_out},
      {"aten::median", &median_all},
      {"aten::nanmedian", &median_all},
      {"aten::median.dim", &median_dim},
      {"aten::median.dim_values", &median_dim},
      {"aten::nanmedian.dim", &median_dim},
      {"aten::nanmedian.dim_values", &median_dim},
      {"aten::mode", &mode},
      {"aten::mode.values", &mode},
      {"aten::kthvalue", &kthvalue},
      {"aten::kthvalue.values", &kthvalue},
      {"aten::_aminmax", &aminmax_all},
      {"aten::_aminmax.dim", &aminmax_dim},
      {"aten::std.correction", &std_var<true>},
      {"aten::std.correction_out", &std_var<true>},
      {"aten::var.correction", &std_var<false>},
      {"aten::var.correction_out", &std_var<false>},
      {"aten::std_mean.correction", &std_var_mean<true>},
      {"aten::var_mean.correction", &std_var_mean<false>},
      {"aten::count_nonzero", &count_nonzero},
      {"aten::count_nonzero.dim_IntList", &count_nonzero_dims},
      {"aten::trace", &trace},
      {"aten::dot", &dot},
      {"aten::vdot", &dot},
      {"aten::histc", &histc},
      {"aten::histc.out", &histc},
      {"aten::histogram.bins_tensor", &histogram_bins},
      {"aten::histogram.bins_tensor_out", &histogram_bins},
      {"aten::segment_reduce", &segment_reduce},
      {"aten::_segment_reduce_backward", &contiguous_like<2>},
      {"aten::_cummax_helper", &no_outputs},
      {"aten::_cummin_helper", &no_outputs},
  };
  return rows;
}

}  // namespace neuron::lazy::shapes
