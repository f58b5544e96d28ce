#include "lazy/torch/pointwise_call.h"

#include <ATen/native/TypeProperties.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lazy/torch/runtime.h"
#include "lazy/torch/scalars.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {
namespace {

// The value of a CPU tensor without dimensions.
at::Scalar value_of(const at::Tensor& tensor) {
  const void* data = tensor.unsafeGetTensorImpl()->data();
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return *static_cast<const double*>(data);
    case at::kLong:
      return *static_cast<const int64_t*>(data);
    default:
      return tensor.item();
  }
}

bool is_row_major(const int64_t* sizes, const int64_t* strides, int rank) {
  int64_t expected = 1;
  for (int d = rank; d-- > 0;) {
    if (sizes[d] != 1 && strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

struct Extent {
  int64_t begin = 0;
  int64_t end = 0;
};

// Bytes of its storage that a tensor may touch.
Extent extent_of(const at::Tensor& tensor) {
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    last += (tensor.sizes()[d] - 1) * tensor.strides()[d];
  }
  const auto itemsize = static_cast<int64_t>(tensor.itemsize());
  const int64_t begin = tensor.storage_offset() * itemsize;
  return {begin, begin + (last + 1) * itemsize};
}

bool overlaps_in_part(const at::Tensor& input, const at::Tensor& out) {
  if (storage_of(input) != storage_of(out)) return false;
  const Extent a = extent_of(input);
  const Extent b = extent_of(out);
  if (a.end <= b.begin || b.end <= a.begin) return false;
  return a.begin != b.begin || input.dtype() != out.dtype() ||
         input.sizes() != out.sizes() || input.strides() != out.strides();
}

template <class Int>
bool fits_integer(const at::Scalar& number) {
  if (number.isIntegral(/*includeBool=*/true)) {
    return std::in_range<Int>(number.toLong());
  }
  const double value = std::trunc(number.toDouble());  // NaN compares false
  return value >= static_cast<double>(std::numeric_limits<Int>::min()) &&
         value < std::ldexp(1.0, std::numeric_limits<Int>::digits);
}

// Whether `dtype` holds the number. PyTorch complains of others, or wraps them, by rules
// that differ from op to op.
bool fits(const at::Scalar& number, at::ScalarType dtype) {
  if (number.isComplex()) return false;
  switch (dtype) {
    case at::kBool:
      return number.isIntegral(/*includeBool=*/true);
    case at::kByte:
      return fits_integer<uint8_t>(number);
    case at::kChar:
      return fits_integer<int8_t>(number);
    case at::kShort:
      return fits_integer<int16_t>(number);
    case at::kInt:
      return fits_integer<int32_t>(number);
    case at::kLong:
      return fits_integer<int64_t>(number);
    case at::kDouble:
      return true;
    default: {
      const double value = number.toDouble();
      return !(std::abs(value) > std::numeric_limits<float>::max()) || std::isinf(value);
    }
  }
}

// True unless the strides alone show that every element has a place of its own.
bool overlaps_itself(const at::Tensor& tensor) {
  if (tensor.is_non_overlapping_and_dense()) return false;
  c10::SmallVector<std::pair<int64_t, int64_t>, 8> dims;  // stride, size
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.sizes()[d] > 1) dims.emplace_back(tensor.strides()[d], tensor.sizes()[d]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t last = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= last) return true;
    last += stride * (size - 1);
  }
  return false;
}

bool has_view_bits(const at::Tensor& tensor) {
  return tensor.is_conj() || tensor.is_neg();
}

}  // namespace

// Strides of all operands over the dimensions of the output, those of size 1 left out and
// the output's largest stride first.
struct PointwiseCall::Layouts {
  int64_t sizes[kMaxRank];
  int64_t strides[kMaxInputs + 1][kMaxRank];
};

void PointwiseCall::input(const at::Tensor& tensor) {
  const int i = num_inputs_++;
  if (is_neuron(tensor)) {
    tensors_[i] = &tensor;
    return;
  }
  numbers_[i] = value_of(tensor);
  // A Python number takes part in promotion as a number, any other as a tensor.
  const bool is_weak = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  tensors_[i] = is_weak ? nullptr : &tensor;
  ++num_numbers_;
}

void PointwiseCall::input(const at::Scalar& number) {
  numbers_[num_inputs_++] = number;
  ++num_numbers_;
}

at::ScalarType PointwiseCall::common_dtype() const {
  at::native::ResultTypeState state;
  for (int i = 0; i < num_inputs_; ++i) {
    state = tensors_[i] != nullptr
                ? at::native::update_result_type_state(*tensors_[i], state)
                : at::native::update_result_type_state(numbers_[i], state);
  }
  return at::native::result_type(state);
}

bool PointwiseCall::can_record(ir::Code code, at::ScalarType dtype,
                               const at::Tensor& out) const {
  ir::ValueType type = ir::ValueType::kF32;
  if (num_numbers_ > 2 || !ir::value_type_of(static_cast<ir::DType>(dtype), type) ||
      !ir::has_body(code, type) ||
      !ir::value_type_of(static_cast<ir::DType>(out.scalar_type()), type) ||
      has_view_bits(out) || out.dim() > kMaxRank) {
    return false;
  }
  if (overlaps_itself(out)) return false;
  for (int i = 0; i < num_inputs_; ++i) {
    if (tensors_[i] == nullptr || !is_neuron(*tensors_[i])) {
      if (!fits(numbers_[i], dtype)) return false;
      continue;
    }
    const at::Tensor& input = *tensors_[i];
    if (!ir::value_type_of(static_cast<ir::DType>(input.scalar_type()), type) ||
        has_view_bits(input) || overlaps_in_part(input, out)) {
      return false;
    }
  }
  return true;
}

// Every input has one element or is laid out as the output, which is row-major.
bool PointwiseCall::is_dense_like(const at::Tensor& out) const {
  if (!out.is_contiguous()) return false;
  for (int i = 0; i < num_inputs_; ++i) {
    if (tensors_[i] == nullptr || !is_neuron(*tensors_[i])) continue;
    const at::Tensor& input = *tensors_[i];
    if (input.numel() == 1) continue;
    if (input.sizes() != out.sizes() || !input.is_contiguous()) return false;
  }
  return true;
}

bool PointwiseCall::describe_strided(const at::Tensor& out, OperandSpec* operands,
                                     Layouts& layouts, int count) const {
  int order[kMaxRank];
  int rank = 0;
  const auto out_strides = out.strides();
  for (int64_t d = 0; d < out.dim(); ++d) {
    if (out.sizes()[d] == 1) continue;
    int at = rank++;
    for (; at > 0 && out_strides[order[at - 1]] < out_strides[d]; --at) {
      order[at] = order[at - 1];
    }
    order[at] = static_cast<int>(d);
  }
  for (int k = 0; k < rank; ++k) layouts.sizes[k] = out.sizes()[order[k]];
  const auto describe = [&](const at::Tensor& tensor, OperandSpec& spec,
                            int64_t* strides) {
    const int64_t missing = out.dim() - tensor.dim();
    for (int k = 0; k < rank; ++k) {
      const int64_t d = order[k] - missing;
      if (d < 0) {
        strides[k] = 0;
        continue;
      }
      if (tensor.sizes()[d] != 1 && tensor.sizes()[d] != layouts.sizes[k]) return false;
      strides[k] = tensor.sizes()[d] == 1 ? 0 : tensor.strides()[d];
    }
    spec.sizes = layouts.sizes;
    spec.rank = static_cast<uint8_t>(rank);
    spec.strides = is_row_major(layouts.sizes, strides, rank) ? nullptr : strides;
    return true;
  };
  int next = 0;
  for (int i = 0; i < num_inputs_; ++i) {
    if (tensors_[i] == nullptr || !is_neuron(*tensors_[i])) continue;
    OperandSpec& spec = operands[next];
    if (tensors_[i]->numel() == 1 && out.numel() != 1) {
      spec.rank = 0;
      spec.strides = nullptr;
    } else if (!describe(*tensors_[i], spec, layouts.strides[next])) {
      return false;
    }
    ++next;
  }
  return describe(out, operands[count - 1], layouts.strides[count - 1]);
}

bool PointwiseCall::record(ir::Op op, ir::Code code, at::ScalarType dtype,
                           const at::Tensor& out) {
  if (!can_record(code, dtype, out)) return false;
  OperandSpec operands[kMaxInputs + 1];
  Layouts layouts;
  OpSpec spec;
  int count = 0;
  int number = 0;
  for (int i = 0; i < num_inputs_; ++i) {
    if (tensors_[i] != nullptr && is_neuron(*tensors_[i])) {
      operands[count++] = operand_of(*tensors_[i], ir::Operand::kReads);
      if (operands[count - 1].buffer == nullptr) return false;
    } else {
      set_number(spec, number++, numbers_[i]);
      spec.number_slots |= static_cast<uint8_t>(1 << i);
    }
  }
  operands[count++] = operand_of(out, ir::Operand::kWrites);
  if (is_dense_like(out)) {
    int next = 0;
    for (int i = 0; i < num_inputs_; ++i) {
      if (tensors_[i] == nullptr || !is_neuron(*tensors_[i])) continue;
      operands[next].strides = nullptr;
      if (tensors_[i]->numel() == 1 && out.numel() != 1) operands[next].rank = 0;
      ++next;
    }
  } else if (!describe_strided(out, operands, layouts, count)) {
    return false;
  }
  spec.op = op;
  spec.code = code;
  spec.dtype = static_cast<ir::DType>(dtype);
  spec.operands = {operands, static_cast<size_t>(count)};
  spec.site = capture_site();
  record_op(out.device().index(), std::move(spec));
  arm(out);
  return true;
}

}  // namespace neuron::lazy
