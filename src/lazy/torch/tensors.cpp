#include "lazy/torch/tensors.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/TensorImpl.h>

#include "base/thread_slot.h"
#include "lazy/torch/runtime.h"
#include "lazy/torch/sync_debug.h"

namespace neuron::lazy {
namespace {

NEURON_THREAD_SLOT int inferring = 0;

void delete_nothing(void*) {}

// Somebody wants to write through a pointer: everything recorded on the buffer runs
// first.
void materialize(c10::StorageImpl* storage) {
  if (inferring > 0 || in_bad_fork()) return;
  const BufferView view = buffer_of(storage);
  if (view.buffer == nullptr) return;
  note_sync(*view.buffer, WindowEnd::kPointerTaken);
  core_at(view.buffer->device_index).wait_for_use(*view.buffer, WindowEnd::kPointerTaken);
}

// A tensor over new storage of `nbytes`, its sizes still to be set.
at::Tensor make_unsized(size_t nbytes, caffe2::TypeMeta dtype, int device_index) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), c10::SymInt(static_cast<int64_t>(nbytes)),
      allocate_data(nbytes, device_index), neuron_allocator(), /*resizable=*/true);
  return at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype);
}

}  // namespace

InferenceScope::InferenceScope() { ++inferring; }
InferenceScope::~InferenceScope() { --inferring; }

void delete_storage(void* context) {
  if (context == nullptr || in_bad_fork()) return;
  auto* buffer = static_cast<device::Buffer*>(context);
  buffer->memory->release_storage(buffer);
}

c10::DataPtr allocate_data(uint64_t nbytes, int index) {
  const c10::Device device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(index));
  if (nbytes == 0) return {nullptr, nullptr, &delete_nothing, device};
  device::Buffer* buffer = nullptr;
  raise_if_failed(core_at(index).allocate(nbytes, buffer));
  return {reinterpret_cast<void*>(buffer->address), buffer, &delete_storage, device};
}

at::Tensor make_tensor(at::IntArrayRef sizes, at::IntArrayRef strides,
                       at::ScalarType dtype, int device_index) {
  const caffe2::TypeMeta meta = c10::scalarTypeToTypeMeta(dtype);
  size_t nbytes = 0;
  if (strides.empty()) {
    nbytes = at::detail::computeStorageNbytesContiguous(sizes, meta.itemsize());
  } else {
    nbytes = at::detail::computeStorageNbytes(sizes, strides, meta.itemsize());
  }
  at::Tensor tensor = make_unsized(nbytes, meta, device_index);
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!strides.empty()) {
    impl->set_sizes_and_strides(sizes, strides);
  } else if (sizes.size() != 1 || sizes[0] != 0) {
    impl->set_sizes_contiguous(sizes);
  }
  return tensor;
}

at::Tensor make_tensor_like(const at::Tensor& like) {
  const c10::TensorImpl* shape = like.unsafeGetTensorImpl();
  const size_t nbytes = static_cast<size_t>(shape->numel()) * shape->itemsize();
  at::Tensor tensor = make_unsized(nbytes, shape->dtype(), shape->device().index());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(shape->sizes());
  return tensor;
}

BufferView find_buffer(const c10::StorageImpl* storage) {
  const c10::DataPtr& data =
      const_cast<c10::StorageImpl*>(storage)->_mutable_data_ptr_no_checks();
  if (data.get() == nullptr) return {};
  const auto address = reinterpret_cast<uint64_t>(data.get());
  device::Buffer* buffer = core_at(data.device().index()).memory().find(address);
  TORCH_CHECK(buffer != nullptr,
              "[storage] a tensor points at freed device memory: got address ",
              data.get(), "; the tensor whose memory it shared is gone");
  return {buffer, static_cast<int64_t>(address - buffer->address)};
}

OperandSpec operand_of(const at::Tensor& tensor, uint8_t flags) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const BufferView view = buffer_of(storage_of(tensor));
  OperandSpec spec;
  spec.buffer = view.buffer;
  const size_t itemsize = impl->itemsize();
  spec.offset = view.offset + impl->storage_offset() * static_cast<int64_t>(itemsize);
  spec.sizes = impl->sizes().data();
  spec.rank = static_cast<uint8_t>(impl->dim());
  spec.dtype = static_cast<ir::DType>(impl->dtype().toScalarType());
  spec.strides = impl->is_contiguous() ? nullptr : impl->strides().data();
  spec.flags = flags;
  if (tensor.is_conj()) spec.flags |= ir::Operand::kConjugate;
  if (tensor.is_neg()) spec.flags |= ir::Operand::kNegative;
  return spec;
}

void arm(const at::Tensor& tensor) {
  c10::StorageImpl* storage = storage_of(tensor);
  if (!storage->has_materializer()) storage->set_materializer(&materialize);
}

}  // namespace neuron::lazy
