// Random numbers in bulk, from the Philox stream of base/philox.h.
#pragma once

#include <cstdint>

namespace neuron::fusion {

/// out[i] = 1 where the uniform number of element first + i of the draw (seed, offset),
/// `uniform_double` of its two words, is at least `p` (0 to 1), else 0. `first` is even.
void random_mask(uint64_t seed, uint64_t offset, int64_t first, int64_t count, double p,
                 uint8_t* out);

/// words[2 k] and words[2 k + 1]: the two words of element first + k. `first` is even.
void random_words(uint64_t seed, uint64_t offset, int64_t first, int64_t count,
                  uint32_t* words);

/// Normal numbers with mean 0 and deviation 1: elements 2 k and 2 k + 1 are the cosine
/// and the sine branch of one pair (Box and Muller, "A note on the generation of random
/// normal deviates", 1958). `first` is even. In float, the logarithm is still of a
/// double, so that the tails reach as far.
void random_normal(uint64_t seed, uint64_t offset, int64_t first, int64_t count,
                   float* out);
void random_normal(uint64_t seed, uint64_t offset, int64_t first, int64_t count,
                   double* out);

}  // namespace neuron::fusion
