#include "lazy/torch/runtime.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>

#include "base/knobs.h"
#include "base/notices.h"
#include "base/thread_slot.h"
#include "device/target.h"
#include "lazy/torch/execute.h"
#include "lazy/torch/warn.h"

namespace neuron::lazy {
namespace {

constexpr int kMaxDevices = device::Memory::kMaxDevices;

std::array<std::atomic<Core*>, kMaxDevices> cores{};
std::mutex start_mutex;
std::atomic<bool> started{false};
std::atomic<bool> forked{false};
std::atomic<Compiler*> the_compiler{nullptr};  // never deleted, like the cores
NEURON_THREAD_SLOT int this_device = 0;
// nullptr while the thread uses the default streams.
NEURON_THREAD_SLOT std::array<uint32_t, kMaxDevices>* this_stream = nullptr;

// "0,2-3" names three cores.
int count_visible(const std::string& text) {
  int count = 0;
  size_t at = 0;
  while (at < text.size()) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    const size_t dash = part.find('-');
    const int first = std::atoi(part.c_str());
    const int last =
        dash == std::string::npos ? first : std::atoi(part.c_str() + dash + 1);
    if (last >= first) count += last - first + 1;
    at = comma + 1;
  }
  return std::clamp(count, 1, kMaxDevices);
}

std::unique_ptr<cache::DiskCache> new_disk_cache() {
  if (knobs().disable_disk_cache || knobs().disable_disk_cache_too) return nullptr;
  std::filesystem::path directory = knobs().cache_directory;
  if (directory.empty()) directory = user_cache_directory() / "torch_neuronx";
  return std::make_unique<cache::DiskCache>(directory,
                                            static_cast<uint64_t>(knobs().cache_bytes));
}

void start_compiler() {
  if (!knobs().compile) return;
  the_compiler.store(
      new Compiler(&fusion::open_codegen, knobs().compile_after, new_disk_cache()));
}

Core& start_core(int index) {
  TORCH_CHECK(!in_bad_fork(),
              "[fork] Cannot re-initialize neuron in a forked subprocess: the device was "
              "used before the fork; start the process with the 'spawn' start method");
  TORCH_CHECK(index >= 0 && index < device_count(),
              "[device] no such device: got neuron:", index, ", expected an index below ",
              device_count(), "; set NEURON_RT_NUM_CORES to simulate more cores");
  std::lock_guard lock(start_mutex);
  for (const std::string& error : knob_report().errors) TORCH_CHECK_VALUE(false, error);
  if (Core* core = cores[index].load()) return *core;
  if (!started.exchange(true)) {
    pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
    modes().adaptive = knobs().adaptive_eager;
    modes().blocking = knobs().launch_blocking;
    start_compiler();
  }
  // Never deleted: tensors may outlive every exit handler.
  const device::LogicalCore model = logical_core();
  const auto given = static_cast<uint64_t>(knobs().hbm_bytes);
  auto* core = new Core(static_cast<uint16_t>(index),
                        given != 0 ? given : model.hbm_bytes(), &find_executable);
  core->set_logical_core(model);
  if (knobs().dry) core->set_dry(true);
  core->set_compiler(the_compiler.load());
  core->queue().set_thread_scope(&run_in_lazy_executor_scope);
  cores[index].store(core);
  return *core;
}

void give_notices() {
  for (std::string& text : take_notices()) {
    warn_at(capture_site(), std::move(text));
  }
}

}  // namespace

int device_count() noexcept {
  const std::string& visible = knobs().visible_cores;
  return visible.empty() ? static_cast<int>(knobs().num_cores) : count_visible(visible);
}

device::LogicalCore logical_core() {
  return {&device::target_of(knobs().chip), static_cast<int>(knobs().cores_per_device)};
}

bool is_started() noexcept { return started.load(); }
bool in_bad_fork() noexcept { return forked.load(); }
Compiler* compiler() noexcept { return the_compiler.load(); }

Core& core_at(int index) {
  if (index < 0) index = this_device;
  Core* core =
      index < kMaxDevices ? cores[index].load(std::memory_order_acquire) : nullptr;
  if (C10_LIKELY(core != nullptr && !forked.load(std::memory_order_relaxed)))
    return *core;
  return start_core(index);
}

void shut_down() {
  if (in_bad_fork()) return;
  for (auto& core : cores) {
    if (core.load() != nullptr) core.load()->shut_down();
  }
  if (the_compiler.load() != nullptr) the_compiler.load()->shut_down();
}

void synchronize_all() {
  ErrorPtr first;
  for (auto& core : cores) {
    if (core.load() == nullptr) continue;
    ErrorPtr error = core.load()->synchronize();
    if (first == nullptr) first = error;
  }
  raise_error(first);
}

int current_device() noexcept { return this_device; }

void set_current_device(int index) {
  TORCH_CHECK(index >= 0 && index < device_count(),
              "[device] no such device: got neuron:", index, ", expected an index below ",
              device_count());
  this_device = index;
}

uint32_t current_stream(int index) noexcept {
  return this_stream == nullptr ? 0 : (*this_stream)[index < 0 ? this_device : index];
}

void set_current_stream(int index, uint32_t stream) {
  // One small array a thread, kept as long as the process.
  if (this_stream == nullptr) {
    if (stream == 0) return;
    this_stream = new std::array<uint32_t, kMaxDevices>{};
  }
  (*this_stream)[index < 0 ? this_device : index] = stream;
}

c10::Device resolve_device(c10::Device device) {
  TORCH_CHECK(device.is_privateuseone(), "[device] expected a neuron device, got ",
              device);
  const int index = device.has_index() ? device.index() : this_device;
  TORCH_CHECK(index < device_count(), "[device] no such device: got neuron:", index,
              ", expected an index below ", device_count(),
              "; set NEURON_RT_NUM_CORES to simulate more cores");
  return {c10::kPrivateUse1, static_cast<c10::DeviceIndex>(index)};
}

void raise_error(const ErrorPtr& error) {
  if (C10_UNLIKELY(has_notices())) give_notices();
  if (error == nullptr) return;
  const std::string text = error->context.empty()
                               ? error->message
                               : error->message + "\n  [late error] " + error->context;
  switch (error->kind) {
    case ErrorKind::kIndex:
      TORCH_CHECK_INDEX(false, text);
    case ErrorKind::kValue:
      TORCH_CHECK_VALUE(false, text);
    case ErrorKind::kType:
      TORCH_CHECK_TYPE(false, text);
    case ErrorKind::kNotImplemented:
      TORCH_CHECK_NOT_IMPLEMENTED(false, text);
    case ErrorKind::kLinalg:
      TORCH_CHECK_LINALG(false, text);
    case ErrorKind::kOutOfMemory:
      TORCH_CHECK_WITH(OutOfMemoryError, false, text);
    case ErrorKind::kRuntime:
      break;
  }
  TORCH_CHECK(false, text);
}

void raise_if_failed(const Status& status) {
  if (C10_UNLIKELY(!status.is_ok())) raise_error(status.error());
}

}  // namespace neuron::lazy
