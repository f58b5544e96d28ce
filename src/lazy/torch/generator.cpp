#include "lazy/torch/generator.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <array>
#include <cstring>

#include "device/memory.h"
#include "lazy/torch/runtime.h"

namespace neuron::lazy {
namespace {
constexpr int64_t kStateBytes = 16;
}  // namespace

NeuronGenerator::NeuronGenerator(c10::DeviceIndex index)
    : c10::GeneratorImpl(c10::Device(c10::kPrivateUse1, index),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void NeuronGenerator::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

uint64_t NeuronGenerator::current_seed() const { return seed_; }

uint64_t NeuronGenerator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}

void NeuronGenerator::set_offset(uint64_t offset) { offset_ = offset; }
uint64_t NeuronGenerator::get_offset() const { return offset_; }

void NeuronGenerator::set_state(const c10::TensorImpl& state) {
  TORCH_CHECK(state.dtype() == caffe2::TypeMeta::Make<uint8_t>() &&
                  state.device().is_cpu() && state.is_contiguous(),
              "[rng] a generator state must be a contiguous CPU ByteTensor");
  TORCH_CHECK(state.numel() == kStateBytes,
              "[rng] a generator state has 16 bytes (seed and "
              "offset): got ",
              state.numel());
  std::memcpy(&seed_, state.data(), 8);
  std::memcpy(&offset_, static_cast<const char*>(state.data()) + 8, 8);
}

c10::intrusive_ptr<c10::TensorImpl> NeuronGenerator::get_state() const {
  at::Tensor state = at::empty({kStateBytes}, at::TensorOptions().dtype(at::kByte));
  auto* bytes = static_cast<char*>(state.mutable_data_ptr());
  std::memcpy(bytes, &seed_, 8);
  std::memcpy(bytes + 8, &offset_, 8);
  return state.getIntrusivePtr();
}

NeuronGenerator* NeuronGenerator::clone_impl() const {
  auto* copy = new NeuronGenerator(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

NeuronGenerator::Draw NeuronGenerator::draw(uint64_t count) {
  const Draw place{seed_, offset_};
  offset_ += (count + 3) / 4 * 4;
  return place;
}

const at::Generator& default_generator(int index) {
  static auto* generators = [] {
    auto* made = new std::array<at::Generator, device::Memory::kMaxDevices>;
    for (int i = 0; i < device_count(); ++i) {
      (*made)[i] = at::make_generator<NeuronGenerator>(static_cast<c10::DeviceIndex>(i));
    }
    return made;
  }();
  const int at = index < 0 ? current_device() : index;
  TORCH_CHECK(at < device_count(), "[rng] no such device: got neuron:", at);
  return (*generators)[at];
}

NeuronGenerator::Draw draw_from(const std::optional<at::Generator>& generator, int device,
                                uint64_t count) {
  const bool given = generator.has_value() && generator->defined();
  const at::Generator& chosen = given ? *generator : default_generator(device);
  TORCH_CHECK(chosen.device().is_privateuseone(), "Expected a '",
              c10::Device(c10::kPrivateUse1), "' device type for generator but found '",
              chosen.device().type(), "'");
  auto* impl = chosen.get<NeuronGenerator>();
  std::lock_guard<std::mutex> lock(impl->mutex_);
  return impl->draw(count);
}

}  // namespace neuron::lazy
