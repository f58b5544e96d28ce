// Target: the figures of a simulated chip, by the table targets.def.
#pragma once

#include <cstdint>
#include <vector>

#include "base/knobs.h"

namespace neuron::device {

/// One member per row of the table; times in ns and cycles, rates in bytes per ns.
struct Target {
  const char* name;  // "trn2"
#define NEURON_FIGURE(member, trn2, trn3, unit, source) double member;
#include "device/targets.def"
#undef NEURON_FIGURE
};

/// The figures of a chip; lives as long as the process.
const Target& target_of(Chip chip);

/// One row of the table for one chip, for reports.
struct TargetFigure {
  const char* name;
  double value;
  const char* unit;
  const char* source;
};
std::vector<TargetFigure> figures_of(const Target& target);

/// A logical core: what one device is.
struct LogicalCore {
  const Target* target = &target_of(Chip::kTrn2);
  int cores = 2;  // physical ones

  uint64_t hbm_bytes() const;
  uint64_t sbuf_bytes() const;
};

}  // namespace neuron::device
