// The device's random generator: a Philox stream named by a seed and an offset.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <mutex>
#include <optional>

namespace neuron::lazy {

/// State: 16 bytes, the 64-bit seed and the 64-bit offset. Ops draw (seed, offset) when
/// they are recorded and move the offset on, so results do not depend on when they run.
class NeuronGenerator final : public c10::GeneratorImpl {
 public:
  explicit NeuronGenerator(c10::DeviceIndex index);

  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  static c10::DeviceType device_type() { return c10::kPrivateUse1; }

  struct Draw {
    uint64_t seed, offset;
  };
  /// The place of the next draw; moves on by `count` numbers, rounded up to a multiple
  /// of 4.
  Draw draw(uint64_t count);

 private:
  NeuronGenerator* clone_impl() const override;

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

/// The default generator of a device (-1: the current one).
const at::Generator& default_generator(int index);

/// Draws from `generator`, or from the device's default one.
NeuronGenerator::Draw draw_from(const std::optional<at::Generator>& generator, int device,
                                uint64_t count);

}  // namespace neuron::lazy
