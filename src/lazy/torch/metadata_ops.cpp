// Kernels that touch no bytes: making tensors, views, resizing, sharing storages.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorShape.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>

#include "lazy/torch/record.h"
#include "lazy/torch/register.h"
#include "lazy/torch/runtime.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {

/// Grows (or makes) the storage to `nbytes` and keeps what it holds, as a recorded copy.
void resize_storage(c10::StorageImpl* storage, size_t nbytes);

namespace {

int device_index(std::optional<c10::Device> device) {
  return resolve_device(device.value_or(c10::Device(c10::kPrivateUse1))).index();
}

void check_options(std::optional<at::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(c10::kStrided) == c10::kStrided,
                              "[empty] neuron supports dense tensors: got layout ",
                              *layout);
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

// Uninitialised memory is filled where the user asked for reproducible mistakes.
at::Tensor finish_empty(at::Tensor tensor) {
  if (C10_UNLIKELY(at::globalContext().deterministicAlgorithms() &&
                   at::globalContext().deterministicFillUninitializedMemory())) {
    at::native::fill_empty_deterministic_(tensor);
  }
  return tensor;
}

at::Tensor empty_memory_format(c10::SymIntArrayRef sizes,
                               std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout> layout,
                               std::optional<c10::Device> device,
                               std::optional<bool> pin_memory,
                               std::optional<at::MemoryFormat> format) {
  check_options(layout, pin_memory);
  const at::IntArrayRef plain = C10_AS_INTARRAYREF_SLOW(sizes);
  for (const int64_t size : plain) {
    TORCH_CHECK(size >= 0, "Trying to create tensor with negative dimension ", size, ": ",
                plain);
  }
  at::Tensor tensor =
      make_tensor(plain, {}, c10::dtype_or_default(dtype), device_index(device));
  if (format.has_value() && *format != at::MemoryFormat::Contiguous) {
    tensor.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  return finish_empty(std::move(tensor));
}

at::Tensor empty_strided(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                         std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout,
                         std::optional<c10::Device> device,
                         std::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  const at::IntArrayRef plain = C10_AS_INTARRAYREF_SLOW(sizes);
  const at::IntArrayRef plain_strides = C10_AS_INTARRAYREF_SLOW(strides);
  TORCH_CHECK(plain.size() == plain_strides.size(), "dimensionality of sizes (",
              plain.size(), ") must match dimensionality of strides (",
              plain_strides.size(), ")");
  for (size_t i = 0; i < plain.size(); ++i) {
    TORCH_CHECK(plain[i] >= 0, "Trying to create tensor with negative dimension ",
                plain[i], ": ", plain);
    TORCH_CHECK(
        plain_strides[i] >= 0,
        "as_strided: Negative strides are not supported at the moment, got strides: ",
        plain_strides);
  }
  return finish_empty(make_tensor(plain, plain_strides, c10::dtype_or_default(dtype),
                                  device_index(device)));
}

at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef sizes,
                      at::IntArrayRef strides, std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, sizes, strides, offset);
}

at::Tensor& set_storage(at::Tensor& self, at::Storage storage, int64_t offset,
                        at::IntArrayRef sizes, at::IntArrayRef strides) {
  TORCH_CHECK(storage.device_type() == c10::kPrivateUse1 || storage.nbytes() == 0,
              "Attempted to set the storage of a tensor on device \"", self.device(),
              "\" to a storage on different device \"", storage.device(),
              "\".  This is no longer allowed; the devices must match.");
  return at::native::set_storage_cpu_(self, std::move(storage), offset, sizes, strides);
}

at::Tensor& set_source_storage(at::Tensor& self, at::Storage storage) {
  const int64_t size = static_cast<int64_t>(storage.nbytes() / self.itemsize());
  return set_storage(self, std::move(storage), 0, {size}, {});
}

at::Tensor& set_source_tensor(at::Tensor& self, const at::Tensor& source) {
  return at::native::set_tensor_(self, source);
}

at::Tensor& set_nothing(at::Tensor& self) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0,
                       allocate_data(0, self.device().index()), neuron_allocator(), true);
  return set_storage(self, std::move(storage), 0, {0}, {});
}

const at::Tensor& resize(const at::Tensor& self, c10::SymIntArrayRef sizes,
                         std::optional<at::MemoryFormat> format) {
  const at::IntArrayRef plain = C10_AS_INTARRAYREF_SLOW(sizes);
  for (const int64_t size : plain) {
    TORCH_CHECK(size >= 0, "Trying to create tensor with negative dimension ", size, ": ",
                plain);
  }
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  if (impl->sizes() != plain) {
    impl->set_sizes_contiguous(plain);
    const size_t needed = at::detail::computeStorageNbytesContiguous(
        plain, impl->itemsize(), static_cast<size_t>(impl->storage_offset()));
    if (impl->numel() > 0 && needed > storage_of(self)->nbytes()) {
      resize_storage(storage_of(self), needed);
    }
  }
  if (format.has_value()) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format ",
                *format);
    impl->empty_tensor_restride(*format);
  }
  return self;
}

bool is_set_to(const at::Tensor& self, const at::Tensor& other) {
  return storage_of(self) == storage_of(other) &&
         self.storage_offset() == other.storage_offset() &&
         self.sizes() == other.sizes() && self.strides() == other.strides();
}

at::Tensor unfold(const at::Tensor& self, int64_t dim, int64_t size, int64_t step) {
  return at::native::unfold(self, dim, size, step);
}

// `module.to("neuron")` keeps its Parameter objects (tied weights, optimizers made
// before) only where host and device tensors may take each other's place.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto is_plain = [](const at::Tensor& tensor) {
    return tensor.layout() == c10::kStrided && !tensor.is_quantized() &&
           (tensor.is_privateuseone() || tensor.is_cpu());
  };
  return self.key_set() == from.key_set() || (is_plain(self) && is_plain(from));
}

// Recorded work holds its own references, so a tensor may die early on any stream.
void record_stream(at::Tensor&, c10::Stream) {}

}  // namespace

void resize_storage(c10::StorageImpl* storage, size_t nbytes) {
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  const int index = storage->device().index();
  c10::DataPtr fresh = allocate_data(nbytes, index);
  const size_t kept = std::min(nbytes, storage->nbytes());
  const BufferView old = buffer_of(storage);
  if (kept > 0 && old.buffer != nullptr) {
    auto* target = static_cast<device::Buffer*>(fresh.get_context());
    const int64_t size = static_cast<int64_t>(kept);
    OperandSpec operands[2];
    for (OperandSpec& operand : operands) {
      operand.sizes = &size;
      operand.rank = 1;
      operand.dtype = ir::DType::kUInt8;
    }
    operands[0].buffer = old.buffer;
    operands[0].offset = old.offset;
    operands[0].flags = ir::Operand::kReads;
    operands[1].buffer = target;
    operands[1].flags = ir::Operand::kWrites;
    OpSpec op;
    op.op = ir::Op::kInternalCopyFrom;
    op.operands = operands;
    op.call = std::make_unique<NativeCall>(
        "aten::resize_", [](StepTensors& t) { t.tensor(1).copy_(t.tensor(0)); });
    op.site = capture_site();
    record_op(index, std::move(op));
  }
  storage->set_data_ptr_noswap(std::move(fresh));
  storage->set_nbytes(nbytes);
}

void register_metadata_ops(Registrar& m) {
  m.impl("empty.memory_format", TORCH_FN(empty_memory_format));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("as_strided", TORCH_FN(as_strided));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("resize_", TORCH_FN(resize));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  m.impl("set_.source_Storage", TORCH_FN(set_source_storage));
  m.impl("set_.source_Tensor", TORCH_FN(set_source_tensor));
  m.impl("set_", TORCH_FN(set_nothing));
  m.impl("is_set_to", TORCH_FN(is_set_to));
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
  m.impl("record_stream", TORCH_FN(record_stream));
}

}  // namespace neuron::lazy
