#include "device/target.h"

namespace neuron::device {
namespace {

constexpr Target kTrn2 = {
    "trn2",
#define NEURON_FIGURE(member, trn2, trn3, unit, source) trn2,
#include "device/targets.def"
#undef NEURON_FIGURE
};

constexpr Target kTrn3 = {
    "trn3",
#define NEURON_FIGURE(member, trn2, trn3, unit, source) trn3,
#include "device/targets.def"
#undef NEURON_FIGURE
};

}  // namespace

const Target& target_of(Chip chip) { return chip == Chip::kTrn3 ? kTrn3 : kTrn2; }

std::vector<TargetFigure> figures_of(const Target& target) {
  return {
#define NEURON_FIGURE(member, trn2, trn3, unit, source) \
  TargetFigure{#member, target.member, unit, source},
#include "device/targets.def"
#undef NEURON_FIGURE
  };
}

uint64_t LogicalCore::hbm_bytes() const {
  return static_cast<uint64_t>(target->hbm_gib * cores) << 30;
}

uint64_t LogicalCore::sbuf_bytes() const {
  return static_cast<uint64_t>(target->sbuf_mib * cores) << 20;
}

}  // namespace neuron::device
