// Runs a pointwise kernel on the baseline table: block by block, an instruction at a
// time, with every value of a block in the first-level cache. Needs no compilation.
#pragma once

#include "ir/pointwise.h"

namespace neuron::fusion {

/// Runs `code` over all elements. Elements that are stored may be those that are loaded
/// under the same layout, but must not overlap others. Any thread; uses all cores when
/// there is enough work.
void run_pointwise(const ir::PointwiseCode& code, const ir::PointwiseArgs& args);

}  // namespace neuron::fusion
