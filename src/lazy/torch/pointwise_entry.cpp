#include "lazy/torch/pointwise_entry.h"

#include "lazy/torch/runtime.h"

namespace neuron::lazy {
namespace {

bool is_expanded_element(const at::Tensor& tensor) {
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.sizes()[d] != 1 && tensor.strides()[d] != 0) return false;
  }
  return true;
}

}  // namespace

PointwiseEntry::PointwiseEntry(ir::Op op, const char* aten_name, const char* overload)
    : op(op),
      track(&track_op(aten_name)),
      handle(c10::Dispatcher::singleton().findSchemaOrThrow(aten_name, overload)) {}

void PlainNode::record(const PointwiseEntry& entry, ir::Code code, at::ScalarType dtype,
                       const at::Tensor& out) {
  operands_[count_++] = operand_of(out, ir::Operand::kWrites);
  spec_.op = entry.op;
  spec_.code = code;
  spec_.dtype = static_cast<ir::DType>(dtype);
  spec_.operands = {operands_, count_};
  spec_.site = capture_site();
  entry.track->calls.fetch_add(1, std::memory_order_relaxed);
  record_op(out.device().index(), std::move(spec_));
  arm(out);
}

bool BroadcastSizes::add(const at::Tensor& tensor, at::ScalarType dtype) {
  if (!tensor.is_privateuseone() || tensor.numel() == 0 ||
      tensor.scalar_type() != dtype ||
      !(tensor.is_contiguous() || is_expanded_element(tensor))) {
    return false;
  }
  const int device = tensor.device().index();
  const auto rank = static_cast<size_t>(tensor.dim());
  if (rank > kMaxRank || (count_ > 0 && device != device_)) return false;
  device_ = device;
  dtype_ = dtype;
  ++count_;
  const int64_t* from = tensor.sizes().data() + rank;
  int64_t* to = sizes_ + kMaxRank;
  for (size_t k = 1; k <= rank; ++k) {
    int64_t& size = to[-static_cast<int64_t>(k)];
    const int64_t own = from[-static_cast<int64_t>(k)];
    if (k > rank_ || size == 1) {
      size = own;
    } else if (own != 1 && own != size) {
      return false;
    }
  }
  rank_ = std::max(rank_, rank);
  return true;
}

}  // namespace neuron::lazy
