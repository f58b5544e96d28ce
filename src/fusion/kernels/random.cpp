#include "fusion/kernels/random.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ir/math.h"

namespace neuron::fusion {
namespace {

constexpr int kLanes = 64;  // counters that go through the rounds side by side
using Lanes = std::array<uint32_t, kLanes>;

// The four words of kLanes consecutive counters: base/philox.h, many at a time.
void philox_lanes(uint64_t seed, uint64_t offset, uint64_t index, Lanes& c0, Lanes& c1,
                  Lanes& c2, Lanes& c3) {
  constexpr uint32_t kMul0 = 0xD2511F53, kMul1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int j = 0; j < kLanes; ++j) {
    const uint64_t counter = index + static_cast<uint64_t>(j);
    c0[j] = static_cast<uint32_t>(counter);
    c1[j] = static_cast<uint32_t>(counter >> 32);
    c2[j] = static_cast<uint32_t>(offset);
    c3[j] = static_cast<uint32_t>(offset >> 32);
  }
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int j = 0; j < kLanes; ++j) {
      const uint64_t p0 = static_cast<uint64_t>(kMul0) * c0[j];
      const uint64_t p1 = static_cast<uint64_t>(kMul1) * c2[j];
      c0[j] = static_cast<uint32_t>(p1 >> 32) ^ c1[j] ^ key0;
      c1[j] = static_cast<uint32_t>(p1);
      c2[j] = static_cast<uint32_t>(p0 >> 32) ^ c3[j] ^ key1;
      c3[j] = static_cast<uint32_t>(p0);
    }
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
}

uint64_t bits_of(uint32_t high, uint32_t low) {
  return (static_cast<uint64_t>(high) << 32 | low) >> 11;
}

// uniform_double of base/philox.h without a conversion of 64 bits, for vector code; both
// terms and their sum are exact.
inline double uniform_of(uint32_t high, uint32_t low) {
  return static_cast<double>(high) * 0x1p-32 + static_cast<double>(low >> 11) * 0x1p-53;
}

template <class T>
void normal_of_type(uint64_t seed, uint64_t offset, int64_t first, int64_t count,
                    T* out) {
  constexpr double kTwoPi = 6.283185307179586476925286766559;
  Lanes c0, c1, c2, c3;
  std::array<double, kLanes> square;
  std::array<T, kLanes> angle;
  std::array<T, 2 * kLanes> block;
  for (int64_t done = 0; done < count; done += 2 * kLanes) {
    philox_lanes(seed, offset, static_cast<uint64_t>((first + done) / 2), c0, c1, c2, c3);
    for (int j = 0; j < kLanes; ++j) {
      square[j] = -2.0 * ir::math::log<double>(1.0 - uniform_of(c0[j], c1[j]));
    }
    for (int j = 0; j < kLanes; ++j) {
      angle[j] = static_cast<T>(kTwoPi * uniform_of(c2[j], c3[j]));
    }
    for (int j = 0; j < kLanes; ++j) {
      const T radius = std::sqrt(static_cast<T>(square[j]));
      block[2 * j] = radius * ir::math::cos<T>(angle[j]);
      block[2 * j + 1] = radius * ir::math::sin<T>(angle[j]);
    }
    std::copy_n(block.data(), std::min<int64_t>(2 * kLanes, count - done), out + done);
  }
}

}  // namespace

void random_words(uint64_t seed, uint64_t offset, int64_t first, int64_t count,
                  uint32_t* words) {
  Lanes c0, c1, c2, c3;
  for (int64_t done = 0; done < count; done += 2 * kLanes) {
    philox_lanes(seed, offset, static_cast<uint64_t>((first + done) / 2), c0, c1, c2, c3);
    uint32_t block[4 * kLanes];
    for (int j = 0; j < kLanes; ++j) {
      block[4 * j] = c0[j];
      block[4 * j + 1] = c1[j];
      block[4 * j + 2] = c2[j];
      block[4 * j + 3] = c3[j];
    }
    std::copy_n(block, 2 * std::min<int64_t>(2 * kLanes, count - done), words + 2 * done);
  }
}

void random_normal(uint64_t seed, uint64_t offset, int64_t first, int64_t count,
                   float* out) {
  normal_of_type(seed, offset, first, count, out);
}
void random_normal(uint64_t seed, uint64_t offset, int64_t first, int64_t count,
                   double* out) {
  normal_of_type(seed, offset, first, count, out);
}

void random_mask(uint64_t seed, uint64_t offset, int64_t first, int64_t count, double p,
                 uint8_t* out) {
  // bits * 2^-53 >= p, in integers; the product with 2^53 is exact.
  const auto least = static_cast<uint64_t>(std::ceil(p * 0x1p53));
  Lanes c0, c1, c2, c3;
  for (int64_t done = 0; done < count; done += 2 * kLanes) {
    philox_lanes(seed, offset, static_cast<uint64_t>((first + done) / 2), c0, c1, c2, c3);
    uint8_t block[2 * kLanes];
    for (int j = 0; j < kLanes; ++j) {
      block[2 * j] = bits_of(c0[j], c1[j]) >= least;
      block[2 * j + 1] = bits_of(c2[j], c3[j]) >= least;
    }
    std::copy_n(block, std::min<int64_t>(2 * kLanes, count - done), out + done);
  }
}

}  // namespace neuron::fusion
