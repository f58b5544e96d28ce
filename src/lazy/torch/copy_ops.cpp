// Copies between host and device, and reads of values.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/equal_native.h>

#include "lazy/torch/pointwise_call.h"
#include "lazy/torch/record.h"
#include "lazy/torch/register.h"
#include "lazy/torch/runtime.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {
namespace {

OpTrack& copy_track() {
  static OpTrack& track = track_op("aten::copy_");
  return track;
}

Core& core_of(const at::Tensor& tensor) { return core_at(tensor.device().index()); }

bool is_whole_buffer(const at::Tensor& tensor) {
  const BufferView view = buffer_of(storage_of(tensor));
  return view.buffer != nullptr && view.offset == 0 && tensor.storage_offset() == 0 &&
         tensor.is_non_overlapping_and_dense() &&
         static_cast<uint64_t>(tensor.numel()) * tensor.itemsize() == view.buffer->nbytes;
}

// Device to device on one core: an op in the window.
void copy_on_device(const at::Tensor& source, const at::Tensor& target) {
  PointwiseCall call;
  call.input(source);
  if (call.record(ir::Op::kInternalCopyFrom, ir::Code::kCopy, target.scalar_type(),
                  target)) {
    copy_track().calls.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const auto body = [](StepTensors& t) { t.tensor(1).copy_(t.tensor(0)); };
  if (is_whole_buffer(target) && !target.is_conj() && !target.is_neg() &&
      storage_of(source) != storage_of(target)) {
    record_native(copy_track(), ir::Op::kInternalCopyFrom, {source}, {}, {target}, body);
  } else {
    record_native(copy_track(), ir::Op::kInternalCopyFrom, {source}, {target}, {}, body);
  }
}

// Tells the clock what an upload costs, whichever way it goes here: pageable memory keeps
// the host; pinned memory is read by the device if the caller does not wait.
void count_upload(const at::Tensor& source, const at::Tensor& target,
                  const device::Buffer& buffer, bool non_blocking) {
  const int device = target.device().index();
  if (non_blocking && source.is_pinned()) {
    core_at(device).count_late_upload(buffer, target.nbytes(), current_stream(device));
  } else {
    core_at(device).count_upload(buffer, target.nbytes());
  }
}

// Host to device. The source may change as soon as the call returns, so its bytes are
// taken now: straight into the target when nothing recorded uses it, else into a staging
// copy that is part of the window.
void upload(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  const BufferView view = buffer_of(storage_of(target));
  count_upload(source, target, *view.buffer, non_blocking);
  if (core_of(target).is_idle(*view.buffer) && view.buffer->error == nullptr) {
    copy_track().calls.fetch_add(1, std::memory_order_relaxed);
    write_tensor(target, WindowEnd::kValueRead).copy_(source);
    return;
  }
  at::Tensor staged = at::empty_like(source);
  staged.copy_(source);
  const auto body = [staged](StepTensors& t) { t.tensor(0).copy_(staged); };
  if (is_whole_buffer(target)) {
    record_native(copy_track(), ir::Op::kUpload, {}, {}, {target}, body);
  } else {
    record_native(copy_track(), ir::Op::kUpload, {}, {target}, {}, body);
  }
}

// Device to host. Into pinned memory it may be part of the window.
void download(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  if (non_blocking && target.is_pinned() && target.is_contiguous() && !target.is_conj() &&
      !target.is_neg()) {
    const at::Tensor kept = target.detach();
    record_native(copy_track(), ir::Op::kDownload, {source}, {}, {},
                  [kept](StepTensors& t) { kept.copy_(t.tensor(0)); });
    return;
  }
  copy_track().calls.fetch_add(1, std::memory_order_relaxed);
  target.copy_(read_tensor(source, WindowEnd::kValueRead));
  core_of(source).count_download(source.nbytes());
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target,
                     bool non_blocking) {
  if (target.numel() == 0) return target;
  if (!is_neuron(target)) {
    download(source, target, non_blocking);
    return target;
  }
  at::assert_no_internal_overlap(target);
  const at::Tensor expanded =
      source.sizes() == target.sizes() ? source : source.expand(target.sizes());
  if (!is_neuron(source)) {
    TORCH_CHECK(source.device().is_cpu(), "[copy_] cannot copy from ", source.device(),
                " to ", target.device(), "; copy to the CPU first");
    upload(expanded, target, non_blocking);
  } else if (source.device() == target.device()) {
    copy_on_device(expanded, target);
  } else {
    const at::Tensor on_host = read_tensor(expanded, WindowEnd::kValueRead);
    core_of(source).count_download(source.nbytes());
    upload(on_host, target, /*non_blocking=*/false);
  }
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& target) {
  at::native::resize_output(target, source.sizes());
  return copy_from(source, target, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  static OpTrack& track = track_op("aten::_local_scalar_dense");
  track.calls.fetch_add(1, std::memory_order_relaxed);
  const at::Tensor on_host = read_tensor(self, WindowEnd::kValueRead);
  core_of(self).count_download(self.nbytes());
  return at::native::_local_scalar_dense_cpu(on_host.resolve_conj().resolve_neg());
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  static OpTrack& track = track_op("aten::equal");
  TORCH_CHECK(
      self.device() == other.device(),
      "Expected all tensors to be on the same device, but found at least two devices, ",
      self.device(), " and ", other.device(), "!");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(),
              "Expected all tensors to have the same dtype, but got ", self.scalar_type(),
              " and ", other.scalar_type());
  track.calls.fetch_add(1, std::memory_order_relaxed);
  if (self.sizes() != other.sizes()) return false;
  if (self.numel() == 0) return true;
  const at::Tensor mine = read_tensor(self, WindowEnd::kValueRead);
  const at::Tensor theirs = read_tensor(other, WindowEnd::kValueRead);
  return at::equal(mine, theirs);
}

}  // namespace

void register_copy_ops(Registrar& m) {
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  m.impl("equal", TORCH_FN(equal));
}

}  // namespace neuron::lazy
