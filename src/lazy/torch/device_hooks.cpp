// Guard, hooks and events: how PyTorch drives devices, streams and generators.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <chrono>
#include <memory>

#include "device/timeline.h"
#include "lazy/torch/allocators.h"
#include "lazy/torch/execute.h"
#include "lazy/torch/generator.h"
#include "lazy/torch/record.h"
#include "lazy/torch/runtime.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {

void resize_storage(c10::StorageImpl* storage, size_t nbytes);

namespace {

// The moment when the device passed an event, on the simulated clock and here.
struct EventTimes {
  std::atomic<double> simulated{0.0};
  std::atomic<double> wall{0.0};
};

// A point in a stream; with timing also its times.
struct Event {
  int device = -1;
  StreamPoint point;
  std::shared_ptr<EventTimes> times;
};

double now_milliseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

void record_time(Event& event, uint32_t stream) {
  event.times = std::make_shared<EventTimes>();
  Core& core = core_at(event.device);
  core.start_clock();
  OpSpec op;
  op.op = ir::Op::kRecordEvent;
  op.call = std::make_unique<NativeCall>(
      "record_event", [times = event.times, &core](StepTensors&) {
        times->simulated.store(core.queue().timeline().now() * 1e-6);
        times->wall.store(now_milliseconds());
      });
  op.site = capture_site();
  core.record(stream, std::move(op));
}

// The times of both events, once the device has passed them.
std::pair<const EventTimes&, const EventTimes&> times_of(void* first, void* second) {
  TORCH_CHECK(first != nullptr && second != nullptr,
              "Both events must be recorded before calculating elapsed time.");
  const auto& start = *static_cast<Event*>(first);
  const auto& end = *static_cast<Event*>(second);
  TORCH_CHECK_VALUE(start.times != nullptr && end.times != nullptr,
                    "Both events must be created with argument 'enable_timing=True'.");
  core_at(start.device).wait(start.point, WindowEnd::kEventWaited);
  core_at(end.device).wait(end.point, WindowEnd::kEventWaited);
  return {*start.times, *end.times};
}

uint32_t id_of(const c10::Stream& stream) { return static_cast<uint32_t>(stream.id()); }

class NeuronGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kPrivateUse1; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    if (device.has_index()) set_current_device(device.index());
    return before;
  }
  c10::Device getDevice() const override {
    return {c10::kPrivateUse1, static_cast<c10::DeviceIndex>(current_device())};
  }
  void setDevice(c10::Device device) const override {
    if (device.has_index()) set_current_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index() && device.index() < device_count()) {
      set_current_device(device.index());
    }
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(device_count());
  }

  c10::Stream getStream(c10::Device device) const override {
    const c10::Device full = resolve_device(device);
    return c10::Stream(c10::Stream::UNSAFE, full,
                       static_cast<c10::StreamId>(current_stream(full.index())));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, resolve_device(device));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    const c10::Device full = resolve_device(device);
    return c10::Stream(
        c10::Stream::UNSAFE, full,
        static_cast<c10::StreamId>(core_at(full.index()).next_pool_stream()));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    TORCH_CHECK(stream.id() >= 0 && stream.id() < Core::kNumStreams,
                "[stream] no such stream: got id ", stream.id());
    set_current_stream(stream.device_index(), id_of(stream));
    return before;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(stream.id());
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex index,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(index == -1 || index == stream.device_index(), "Event device index ",
                static_cast<int>(index),
                " does not match recording stream's device index ",
                static_cast<int>(stream.device_index()), ".");
    if (*event == nullptr) *event = new Event;
    auto& record = *static_cast<Event*>(*event);
    record.device = stream.device_index();
    if (flag == c10::EventFlag::BACKEND_DEFAULT) record_time(record, id_of(stream));
    record.point = core_at(record.device).mark(id_of(stream));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    const auto& record = *static_cast<Event*>(event);
    if (record.device == stream.device_index()) {
      core_at(record.device).order_after(id_of(stream), record.point);
    } else {
      core_at(record.device).wait(record.point, WindowEnd::kEventWaited);
    }
  }
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    const auto& record = *static_cast<Event*>(event);
    return core_at(record.device).has_reached(record.point, WindowEnd::kEventWaited);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    const auto& record = *static_cast<Event*>(event);
    core_at(record.device).wait(record.point, WindowEnd::kEventWaited);
    raise_error(core_at(record.device).take_error(record.point.stream));
  }
  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const override {
    const auto [start, end] = times_of(first, second);
    return end.simulated.load() - start.simulated.load();
  }

  bool queryStream(const c10::Stream& stream) const override {
    Core& core = core_at(stream.device_index());
    return core.has_reached(core.mark(id_of(stream)), WindowEnd::kSynchronize);
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    raise_error(core_at(stream.device_index()).synchronize_stream(id_of(stream)));
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    if (!is_started()) return;
    raise_error(core_at(index).synchronize());
  }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, NeuronGuard)

class NeuronHooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return is_started(); }
  void init() const override { core_at(-1); }
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(device_count());
  }
  void setCurrentDevice(c10::DeviceIndex index) const override {
    set_current_device(index);
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(current_device());
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const auto before = getCurrentDevice();
    if (index >= 0) set_current_device(index);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return exchangeDevice(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    const c10::Device device = resolve_device({c10::kPrivateUse1, index});
    return at::make_generator<NeuronGenerator>(device.index());
  }
  c10::Device getDeviceFromPtr(void* address) const override {
    for (int i = 0; is_started() && i < device_count(); ++i) {
      if (core_at(i).memory().contains(reinterpret_cast<uint64_t>(address))) {
        return {c10::kPrivateUse1, static_cast<c10::DeviceIndex>(i)};
      }
    }
    TORCH_CHECK(false, "[device] not a device address: got ", address);
  }
  bool isPinnedPtr(const void* address) const override {
    return is_pinned_address(address);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t nbytes) const override {
    resize_storage(storage.unsafeGetStorageImpl(), nbytes);
  }
};

const bool registered = [] {
  c10::register_privateuse1_backend("neuron");
  register_allocators();
  make_libraries_reproducible();
  at::RegisterPrivateUse1HooksInterface(new NeuronHooks);
  return true;
}();

}  // namespace

double elapsed_wall_time(void* first, void* second) {
  const auto [start, end] = times_of(first, second);
  return end.wall.load() - start.wall.load();
}

}  // namespace neuron::lazy
