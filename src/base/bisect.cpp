#include "base/bisect.h"

#include "base/knobs.h"

namespace neuron {

BisectSwitches& bisect_switches() {
  static BisectSwitches switches{knobs().flush_every, knobs().max_fused_ops};
  return switches;
}

}  // namespace neuron
