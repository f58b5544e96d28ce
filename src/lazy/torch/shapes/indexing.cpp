// Gathering, scattering and moving elements, where the op is not structured.
#include "lazy/torch/shapes/iterator.h"
#include "lazy/torch/shapes/table.h"

#include <ATen/WrapDimUtilsMulti.h>

namespace neuron::lazy::shapes {
namespace {

bool is_index(const at::Tensor& t) {
  return t.scalar_type() == at::kLong || t.scalar_type() == at::kInt;
}

void index_select(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const at::Tensor& index = tensor(args[2]);
  const int64_t dim = wrap(args[1].toInt(), self);
  TORCH_CHECK_INDEX(index.dim() <= 1,
                    "index_select(): Index is supposed to be a vector, but "
                    "got dim: ",
                    index.dim(), " with type: ", index.scalar_type(),
                    " and size: ", index.sizes());
  TORCH_CHECK(is_index(index),
              "index_select(): Expected dtype int32 or int64 for index but got: ",
              index.scalar_type());
  if (out.is_provided(0)) {
    TORCH_CHECK(self.scalar_type() == out.get(0).scalar_type(),
                "index_select(): self and result must have the same scalar type");
  }
  at::DimVector sizes(self.sizes());
  if (sizes.empty()) {
    TORCH_CHECK(index.numel() == 1,
                "index_select(): Index to scalar can have only 1 value, got ",
                index.numel(), " value(s)");
  } else {
    sizes[dim] = index.numel();
  }
  out.set(0, sizes, self.scalar_type());
}

void take(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const at::Tensor& index = tensor(args[1]);
  TORCH_CHECK(index.scalar_type() == at::kLong,
              "take(): Expected a long tensor for index, but "
              "got ",
              index.scalar_type());
  if (out.is_provided(0)) {
    TORCH_CHECK(
        self.scalar_type() == out.get(0).scalar_type(),
        "take(): self and out expected to have the same dtype, but got self.dtype = ",
        self.scalar_type(), " and out.dtype = ", out.get(0).scalar_type());
  }
  TORCH_CHECK_INDEX(!(self.numel() == 0 && index.numel() != 0),
                    "take(): tried to take from an empty tensor");
  out.set(0, index.sizes(), self.scalar_type());
}

void put(const IValue* args, ShapeOutputs&) {
  const at::Tensor& self = tensor(args[0]);
  const at::Tensor& index = tensor(args[1]);
  const at::Tensor& source = tensor(args[2]);
  TORCH_CHECK(index.scalar_type() == at::kLong,
              "put_(): Expected a long tensor for index, but got ", index.scalar_type());
  TORCH_CHECK(
      self.scalar_type() == source.scalar_type(),
      "put_(): self and source expected to have the same dtype, but got self.dtype = ",
      self.scalar_type(), " and source.dtype = ", source.scalar_type());
  TORCH_CHECK(
      source.numel() == index.numel(),
      "put_(): Expected source and index to have the same number of elements, but got "
      "source.numel() = ",
      source.numel(), ", index.numel() = ", index.numel());
  TORCH_CHECK_INDEX(!(self.numel() == 0 && index.numel() != 0),
                    "put_(): Tried to put elements into an empty tensor");
}

void index_fill(const IValue* args, ShapeOutputs&) {
  const at::Tensor& self = tensor(args[0]);
  const at::Tensor& index = tensor(args[2]);
  TORCH_CHECK_INDEX(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
                    "index_fill_(): Expected dtype int32/int64 for index.");
  wrap(args[1].toInt(), self);
  TORCH_CHECK(index.dim() <= 1, "Index has to be a vector/scalar");
  if (args[3].isTensor()) {
    TORCH_CHECK(
        tensor(args[3]).dim() == 0,
        "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
        tensor(args[3]).dim(), " dimension(s).");
  } else {
    TORCH_CHECK(
        self.is_complex() || !args[3].toScalar().isComplex(),
        "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  }
}

void check_expands_to(const at::Tensor& self, const at::Tensor& mask) {
  if (mask.sizes() == self.sizes()) return;
  at::inferExpandGeometry_dimvector(mask.sizes(), mask.strides(), self.sizes());
}

void masked_fill(const IValue* args, ShapeOutputs&) {
  const at::Tensor& self = tensor(args[0]);
  const at::Tensor& mask = tensor(args[1]);
  if (args[2].isTensor()) {
    TORCH_CHECK(tensor(args[2]).dim() == 0,
                "masked_fill_ only supports a 0-dimensional value "
                "tensor, but got tensor with ",
                tensor(args[2]).dim(), " dimension(s).");
  }
  check_expands_to(self, mask);
  TORCH_CHECK(mask.scalar_type() == at::kBool,
              "masked_fill_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  const bool is_complex =
      args[2].isTensor() ? tensor(args[2]).is_complex() : args[2].toScalar().isComplex();
  TORCH_CHECK(self.is_complex() || !is_complex, "value cannot be converted to type ",
              self.dtype().name(), " without overflow");
}

void masked_scatter(const IValue* args, ShapeOutputs&) {
  const at::Tensor& self = tensor(args[0]);
  const at::Tensor& mask = tensor(args[1]);
  const at::Tensor& source = tensor(args[2]);
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter_: expected self and "
              "source to have same dtypes but got ",
              self.scalar_type(), " and ", source.scalar_type());
  check_expands_to(self, mask);
  TORCH_CHECK(mask.scalar_type() == at::kBool,
              "masked_scatter_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
}

void index_put(const IValue* args, ShapeOutputs&) {
  const at::Tensor& self = tensor(args[0]);
  const auto indices = args[1].toListRef();
  const at::Tensor& values = tensor(args[2]);
  TORCH_CHECK_INDEX(indices.size() <= static_cast<size_t>(self.dim()),
                    "too many indices for tensor of dimension ", self.dim(), " (got ",
                    indices.size(), ")");
  TORCH_CHECK(self.scalar_type() == values.scalar_type(),
              "Index put requires the source and "
              "destination dtypes match, got ",
              self.scalar_type(), " for the destination and ", values.scalar_type(),
              " for the source.");
  for (const IValue& index : indices) {
    if (!index.isTensor() || !index.toTensor().defined()) continue;
    const at::ScalarType dtype = index.toTensor().scalar_type();
    TORCH_CHECK_INDEX(dtype == at::kLong || dtype == at::kInt || dtype == at::kByte ||
                          dtype == at::kBool,
                      "tensors used as indices must be long, int, byte or bool tensors");
  }
}

void flip(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  at::dim_list_to_bitset(ints(args[1]), self.dim());
  set_like(out, 0, self);
}

void roll(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const at::DimVector shifts = ints(args[1]);
  const at::DimVector dims = ints(args[2]);
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  // The dimensions of an empty tensor are not looked at.
  if (self.numel() == 0) {
    return dims.empty() ? set_contiguous_like(out, 0, self) : set_like(out, 0, self);
  }
  if (dims.empty() && shifts.size() == 1) {
    return out.set(0, self.sizes(), self.scalar_type());
  }
  TORCH_CHECK(shifts.size() == dims.size(),
              "shifts and dimensions must align. shifts: ", shifts.size(),
              ", dims:", dims.size());
  for (const int64_t dim : dims)
    c10::maybe_wrap_dim(dim, self.dim(), /*wrap_scalar=*/false);
  out.set(0, self.sizes(), self.scalar_type());
}

void channel_shuffle(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const int64_t groups = args[1].toInt();
  TORCH_CHECK(self.dim() > 2,
              "channel_shuffle expects input with > 2 dims, but got input with "
              "sizes ",
              self.sizes());
  TORCH_CHECK(groups > 0,
              "Number of groups to divide channels in must be positive. Value of "
              "groups:",
              groups);
  TORCH_CHECK(self.size(1) % groups == 0,
              "Number of channels must be divisible by groups. Got ", self.size(1),
              " channels and ", groups, " groups.");
  set_format(out, 0, self.sizes(), self.suggest_memory_format(), self.scalar_type());
}

void narrow_copy(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  TORCH_CHECK(self.dim() > 0, "narrow() cannot be applied to a 0-dim tensor.");
  const int64_t dim = wrap(args[1].toInt(), self);
  int64_t start = args[2].toInt();
  const int64_t length = args[3].toInt();
  TORCH_CHECK(length >= 0, "narrow(): length must be non-negative.");
  const int64_t size = self.size(dim);
  if (start < 0) start += size;
  TORCH_CHECK(start >= 0 && start <= size - length, "start (", start, ") + length (",
              length, ") exceeds dimension size (", size, ").");
  at::DimVector sizes(self.sizes());
  sizes[dim] = length;
  out.set(0, sizes, self.scalar_type());
}

void nonzero_static(const IValue* args, ShapeOutputs& out) {
  const int64_t size = args[1].toInt();
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  out.set(0, {size, tensor(args[0]).dim()}, at::kLong);
}

void unfold_backward(const IValue* args, ShapeOutputs& out) {
  out.set(0, ints(args[1]), tensor(args[0]).scalar_type());
}

void repeat(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  at::DimVector sizes = ints(args[1]);
  TORCH_CHECK(sizes.size() >= static_cast<size_t>(self.dim()),
              "Number of dimensions of repeat "
              "dims can not be smaller than number of dimensions of tensor");
  const size_t lead = sizes.size() - self.dim();
  for (int64_t i = 0; i < self.dim(); ++i) sizes[lead + i] *= self.size(i);
  out.set(0, sizes, self.scalar_type());
}

}  // namespace

Rows indexing_rows() {
  static constexpr Row rows[] = {
      {"aten::index_select", &index_select},
      {"aten::index_select.out", &index_select},
      {"aten::take", &take},
      {"aten::take.out", &take},
      {"aten::put_", &put},
      {"aten::index_fill_.int_Scalar", &index_fill},
      {"aten::index_fill_.int_Tensor", &index_fill},
      {"aten::masked_fill_.Scalar", &masked_fill},
      {"aten::masked_fill_.Tensor", &masked_fill},
      {"aten::masked_scatter_", &masked_scatter},
      {"aten::_index_put_impl_", &index_put},
      {"aten::flip", &flip},
      {"aten::roll", &roll},
      {"aten::channel_shuffle", &channel_shuffle},
      {"aten::narrow_copy", &narrow_copy},
      {"aten::narrow_copy.out", &narrow_copy},
      {"aten::nonzero_static", &nonzero_static},
      {"aten::nonzero_static.out", &nonzero_static},
      {"aten::unfold_backward", &unfold_backward},
      {"aten::repeat", &repeat},
  };
  return rows;
}

}  // namespace neuron::lazy::shapes
