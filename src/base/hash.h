// Hashing of byte ranges: XXH3, the one hash of the project.
#pragma once

#include <cstddef>
#include <cstdint>

namespace neuron {

/// 64-bit XXH3 of `size` bytes, continued from `seed`.
uint64_t hash_bytes(const void* data, size_t size, uint64_t seed = 0);

}  // namespace neuron
