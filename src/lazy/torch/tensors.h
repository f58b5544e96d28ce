// Between PyTorch tensors and buffers: making neuron tensors, finding a tensor's buffer,
// describing a tensor as an operand.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>

#include "device/buffer.h"
#include "lazy/core.h"

namespace neuron::lazy {

/// The allocator registered for the device; `allocate` makes a buffer.
c10::Allocator* neuron_allocator();

/// A DataPtr over a new buffer of `nbytes` on device `index`; a null one for 0 bytes.
c10::DataPtr allocate_data(uint64_t nbytes, int index);

/// A fresh uninitialised tensor. Empty `strides`: contiguous.
at::Tensor make_tensor(at::IntArrayRef sizes, at::IntArrayRef strides,
                       at::ScalarType dtype, int device_index);

/// The same for a contiguous tensor with the sizes, dtype and device of `like`; the
/// record path of the commonest ops uses it.
at::Tensor make_tensor_like(const at::Tensor& like);

/// Deleter of the DataPtrs that own a buffer.
void delete_storage(void* buffer);

struct BufferView {
  device::Buffer* buffer = nullptr;  // nullptr for storages of 0 bytes
  int64_t offset = 0;                // bytes between the buffer's start and the storage's
};

/// The buffer behind a storage. Storages made by others on a device address (pickle,
/// DLPack) carry no context of ours: their buffer is found by address. Raises when there
/// is none.
BufferView find_buffer(const c10::StorageImpl* storage);

inline BufferView buffer_of(const c10::StorageImpl* storage) {
  const c10::DataPtr& data =
      const_cast<c10::StorageImpl*>(storage)->_mutable_data_ptr_no_checks();
  if (C10_LIKELY(data.get_deleter() == &delete_storage)) {
    return {static_cast<device::Buffer*>(data.get_context()), 0};
  }
  return find_buffer(storage);
}

inline c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

/// The tensor as an operand with `flags` (ir::Operand::kReads, kWrites). A tensor without
/// bytes has a null buffer and must not be recorded. The spec points into the tensor.
OperandSpec operand_of(const at::Tensor& tensor, uint8_t flags);

/// Asks for a flush when somebody takes a pointer to write (`data_ptr()`); to be called
/// after a write to the tensor was recorded.
void arm(const at::Tensor& tensor);

/// While one of these lives, taking a pointer on this thread flushes nothing: shape
/// inference asks for pointers of outputs without using them.
class InferenceScope {
 public:
  InferenceScope();
  ~InferenceScope();
};

inline bool is_neuron(const at::Tensor& tensor) { return tensor.is_privateuseone(); }

}  // namespace neuron::lazy
