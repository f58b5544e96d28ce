#include "lazy/torch/execute.h"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/core/TensorBase.h>
#include <ATen/ops/copy.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/thread_slot.h"
#include "device/memory.h"
#include "lazy/observe.h"

extern "C" int mkl_serv_cbwr_set(int) __attribute__((weak));
extern "C" int MKL_Set_Num_Threads_Local(int) __attribute__((weak));

namespace neuron::lazy {
namespace {

// Intel's conditional numerical reproducibility: AUTO | STRICT.
constexpr int kCbwrAutoStrict = 2 | 0x10000;

void delete_nothing(void*) {}

c10::Storage storage_over(device::Buffer& buffer) {
  std::byte* host = device::Memory::materialize(&buffer);
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(),
      c10::SymInt(static_cast<int64_t>(buffer.host_bytes)),
      c10::DataPtr(host, host, &delete_nothing, c10::Device(c10::kCPU)),
      /*allocator=*/nullptr, /*resizable=*/false));
}

at::Tensor tensor_over(c10::Storage storage, int64_t byte_offset, at::IntArrayRef sizes,
                       at::IntArrayRef strides, at::ScalarType dtype) {
  const caffe2::TypeMeta meta = c10::scalarTypeToTypeMeta(dtype);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), meta);
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (strides.empty()) {
    impl->set_sizes_contiguous(sizes);
  } else {
    impl->set_sizes_and_strides(sizes, strides);
  }
  if (byte_offset != 0) {
    impl->set_storage_offset(byte_offset / static_cast<int64_t>(meta.itemsize()));
  }
  return tensor;
}

bool same_layout(const at::Tensor& tensor, at::IntArrayRef sizes,
                 at::IntArrayRef strides) {
  if (strides.empty()) return tensor.is_contiguous();
  const auto have = tensor.strides();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 1 && have[i] != strides[i]) return false;
  }
  return true;
}

void free_adopted(void* context) { delete static_cast<c10::DataPtr*>(context); }

// Takes the bytes of `result` over if it alone holds them.
bool adopt_storage(device::Buffer& buffer, const at::Tensor& result) {
  const c10::Storage& held = result.unsafeGetTensorImpl()->unsafe_storage();
  c10::StorageImpl* storage = held.unsafeGetStorageImpl();
  if (result.use_count() != 1 || held.use_count() != 1 || result.storage_offset() != 0 ||
      !storage->resizable() || storage->nbytes() < buffer.nbytes) {
    return false;
  }
  const uint64_t nbytes = storage->nbytes();
  auto* data = new c10::DataPtr(
      storage->set_data_ptr(c10::DataPtr(nullptr, c10::Device(c10::kCPU))));
  storage->set_nbytes(0);
  device::Memory::adopt(&buffer, static_cast<std::byte*>(data->get()), nbytes,
                        &free_adopted, data);
  return true;
}

using OmpSet = void (*)(int);
using OmpGet = int (*)();

struct OpenMp {
  OmpSet set = reinterpret_cast<OmpSet>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  OmpGet get = reinterpret_cast<OmpGet>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
};

const OpenMp& openmp() {
  static const OpenMp openmp;
  return openmp;
}

// Library calls of this thread use one thread while it lives.
class OneLibraryThread {
 public:
  OneLibraryThread() {
    at::get_num_threads();  // ATen's own initialisation of the thread comes first
    if (openmp().get != nullptr) before_ = openmp().get();
    if (openmp().set != nullptr && before_ != 1) openmp().set(1);
    if (MKL_Set_Num_Threads_Local != nullptr) mkl_before_ = MKL_Set_Num_Threads_Local(1);
  }
  ~OneLibraryThread() {
    if (openmp().set != nullptr && before_ != 1) openmp().set(before_);
    if (MKL_Set_Num_Threads_Local != nullptr) MKL_Set_Num_Threads_Local(mkl_before_);
  }

 private:
  int before_ = 1;
  int mkl_before_ = 0;
};

// The thread-local state of a thread that nobody has touched.
const at::ThreadLocalState& neutral_state() {
  static const at::ThreadLocalState* state = [] {
    const at::ThreadLocalState* made = nullptr;
    std::thread([&] { made = new at::ThreadLocalState(); }).join();
    return made;
  }();
  return *state;
}

struct ExecutorScope {
  at::ThreadLocalStateGuard state{neutral_state()};
  c10::InferenceMode inference;
  OneLibraryThread one;
};

// Where the thread's scope will be; see run_in_lazy_executor_scope.
NEURON_THREAD_SLOT std::optional<ExecutorScope>* lazy_scope = nullptr;

void enter_lazy_scope() {
  if (lazy_scope != nullptr && !lazy_scope->has_value()) lazy_scope->emplace();
}

Status run_call(const device::Executable&, device::Program& program,
                const device::Step& step) {
  auto& window = static_cast<WindowProgram&>(program);
  const ir::Node& node = window.graph.nodes[step.node];
  const bool is_observed = journal_wants(Topic::kFallback);
  const auto start = is_observed ? std::chrono::steady_clock::now()
                                 : std::chrono::steady_clock::time_point();
  try {
    enter_lazy_scope();
    StepTensors tensors(window, node);
    static_cast<TorchCall*>(window.graph.calls[node.call - 1].get())->execute(tensors);
  } catch (...) {
    return status_of_current_exception();
  }
  if (is_observed) {
    observe_call(window, node, std::chrono::steady_clock::now() - start);
  }
  return {};
}

}  // namespace

StepTensors::StepTensors(WindowProgram& program, const ir::Node& node)
    : program_(program), operands_(program.graph.operands_of(node)) {}

at::Tensor StepTensors::tensor(size_t i) {
  const ir::Operand& operand = operands_[i];
  const c10::Storage* storage = nullptr;
  for (const auto& [index, known] : storages_) {
    if (index == operand.buffer) storage = &known;
  }
  if (storage == nullptr) {
    device::Buffer& buffer = *program_.buffers[operand.buffer];
    storages_.emplace_back(operand.buffer, storage_over(buffer));
    storage = &storages_.back().second;
  }
  const auto sizes = program_.graph.sizes_of(operand);
  const auto strides = program_.graph.strides_of(operand);
  at::Tensor tensor = tensor_over(*storage, operand.offset, {sizes.data(), sizes.size()},
                                  {strides.data(), strides.size()},
                                  static_cast<at::ScalarType>(operand.dtype));
  if ((operand.flags & ir::Operand::kConjugate) != 0) tensor._set_conj(true);
  if ((operand.flags & ir::Operand::kNegative) != 0) tensor._set_neg(true);
  return tensor;
}

void StepTensors::store(size_t i, at::Tensor result, const char* op_name) {
  const ir::Operand& operand = operands_[i];
  const auto sizes = program_.graph.sizes_of(operand);
  const auto strides = program_.graph.strides_of(operand);
  const at::IntArrayRef want(sizes.data(), sizes.size());
  TORCH_CHECK(result.sizes() == want && static_cast<int>(result.scalar_type()) ==
                                            static_cast<int>(operand.dtype),
              "[", op_name, "] shape inference and kernel disagree: got ",
              result.scalar_type(), result.sizes(), ", expected ",
              static_cast<at::ScalarType>(operand.dtype), want, "; please report this");
  device::Buffer& buffer = *program_.buffers[operand.buffer];
  if (operand.offset == 0 && !result.is_conj() && !result.is_neg() &&
      same_layout(result, want, {strides.data(), strides.size()}) &&
      adopt_storage(buffer, result)) {
    return;
  }
  tensor(i).copy_(result);
}

at::Tensor alias_buffer(device::Buffer& buffer, int64_t byte_offset,
                        at::IntArrayRef sizes, at::IntArrayRef strides,
                        at::ScalarType dtype) {
  return tensor_over(storage_over(buffer), byte_offset, sizes, strides, dtype);
}

const device::Executable* find_executable(const ir::Graph&, const ir::Node& node) {
  static const device::Executable call_executable{&run_call, nullptr};
  NEURON_CHECK(node.call != 0, "an op was recorded without a call and has no kernel");
  return &call_executable;
}

void run_in_executor_scope(const std::function<void()>& body) {
  ExecutorScope scope;
  body();
}

void run_in_lazy_executor_scope(const std::function<void()>& body) {
  std::optional<ExecutorScope> scope;
  std::optional<ExecutorScope>* outer = std::exchange(lazy_scope, &scope);
  body();
  lazy_scope = outer;
}

void make_libraries_reproducible() {
  if (mkl_serv_cbwr_set != nullptr && mkl_serv_cbwr_set(kCbwrAutoStrict) != 0) {
    TORCH_WARN_ONCE(
        "[neuron] MKL was used before the device was loaded: its reproducible mode "
        "cannot be set, "
        "so the last bits of a matrix product may depend on alignment; set "
        "MKL_CBWR=AUTO,STRICT");
  }
}

Status status_of_current_exception() {
  try {
    throw;
  } catch (const c10::IndexError& e) {
    return {ErrorKind::kIndex, e.what_without_backtrace()};
  } catch (const c10::ValueError& e) {
    return {ErrorKind::kValue, e.what_without_backtrace()};
  } catch (const c10::TypeError& e) {
    return {ErrorKind::kType, e.what_without_backtrace()};
  } catch (const c10::NotImplementedError& e) {
    return {ErrorKind::kNotImplemented, e.what_without_backtrace()};
  } catch (const c10::LinAlgError& e) {
    return {ErrorKind::kLinalg, e.what_without_backtrace()};
  } catch (const c10::OutOfMemoryError& e) {
    return {ErrorKind::kOutOfMemory, e.what_without_backtrace()};
  } catch (const c10::Error& e) {
    return {ErrorKind::kRuntime, e.what_without_backtrace()};
  } catch (const std::bad_alloc&) {
    return {ErrorKind::kOutOfMemory,
            "[execute] the host has no memory for the simulated device"};
  } catch (const std::exception& e) {
    return {ErrorKind::kRuntime, e.what()};
  } catch (...) {
    return {ErrorKind::kRuntime, "[execute] an unknown exception was raised"};
  }
}

}  // namespace neuron::lazy
