// Random numbers in bulk, from the Philox stream of base/philox.h.
#pragma once

#include <cstdint>

namespace neuron::fusion {

/// out[i] = 1 where the uniform number of element first + i of the draw (seed, offset),
/// `uniform_double` of its two words, is at least `p` (0 to 1), else 0. `first` is even.
void random_mask(uint64_t seed, uint64_t offset, int64_t first, int64_t count, double p,
                 uint8_t* out);

}  // namespace neuron::fusion
