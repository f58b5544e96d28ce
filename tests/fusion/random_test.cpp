// Random numbers in bulk against one at a time.
#include "fusion/kernels/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/philox.h"

namespace neuron::fusion {
namespace {

double uniform_at(uint64_t seed, uint64_t offset, uint64_t i) {
  const auto block = philox(seed, offset, i / 2);
  return i % 2 == 0 ? uniform_double(block[0], block[1])
                    : uniform_double(block[2], block[3]);
}

TEST(RandomMask, IsTheStreamElementByElement) {
  const uint64_t seed = 0x123456789abcdef0, offset = 77;
  for (const double p : {0.0, 0.1, 0.5, 0.999999, 1.0}) {
    for (const int64_t first : {int64_t{0}, int64_t{8192}, (int64_t{1} << 33) - 40}) {
      std::vector<uint8_t> mask(1001);
      random_mask(seed, offset, first, 1001, p, mask.data());
      for (int64_t i = 0; i < 1001; ++i) {
        const double u = uniform_at(seed, offset, static_cast<uint64_t>(first + i));
        ASSERT_EQ(mask[i], u >= p ? 1 : 0) << p << ' ' << first << ' ' << i;
      }
    }
  }
}

TEST(RandomMask, WritesNothingBeyondTheCount) {
  std::vector<uint8_t> mask(130, 9);
  random_mask(1, 0, 0, 129, 0.5, mask.data());
  EXPECT_LE(mask[128], 1);
  EXPECT_EQ(mask[129], 9);
  random_mask(1, 0, 0, 0, 0.5, mask.data());
}

TEST(RandomMask, SharesAreRight) {
  std::vector<uint8_t> mask(100000);
  random_mask(5, 3, 0, 100000, 0.25, mask.data());
  int64_t kept = 0;
  for (const uint8_t bit : mask) kept += bit;
  EXPECT_NEAR(static_cast<double>(kept) / 100000, 0.75, 0.01);
}

TEST(RandomWords, AreTheStreamElementByElement) {
  const uint64_t seed = 0x123456789abcdef0, offset = 77;
  for (const int64_t first : {int64_t{0}, int64_t{8192}, (int64_t{1} << 33) - 40}) {
    std::vector<uint32_t> words(2 * 1001 + 1, 9);
    random_words(seed, offset, first, 1001, words.data());
    for (int64_t i = 0; i < 1001; ++i) {
      const auto block = philox(seed, offset, static_cast<uint64_t>(first + i) / 2);
      ASSERT_EQ(words[2 * i], block[i % 2 * 2]);
      ASSERT_EQ(words[2 * i + 1], block[i % 2 * 2 + 1]);
    }
    EXPECT_EQ(words.back(), 9u);
  }
}

template <class T>
void expect_normal(double tolerance) {
  const uint64_t seed = 11, offset = 5;
  const int64_t count = 1001;
  for (const int64_t first : {int64_t{0}, int64_t{4096}}) {
    std::vector<T> out(count + 1, T{9});
    random_normal(seed, offset, first, count, out.data());
    for (int64_t i = 0; i < count; ++i) {
      const auto block = philox(seed, offset, static_cast<uint64_t>(first + i) / 2);
      const double radius =
          std::sqrt(-2.0 * std::log(1.0 - uniform_double(block[0], block[1])));
      const double angle = 6.283185307179586 * uniform_double(block[2], block[3]);
      const double want = radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
      ASSERT_NEAR(out[i], want, tolerance) << first << ' ' << i;
    }
    EXPECT_EQ(out[count], T{9});
  }
}

TEST(RandomNormal, IsBoxAndMullersPair) {
  expect_normal<float>(4e-6);
  expect_normal<double>(1e-14);
}

TEST(RandomNormal, HasTheMomentsOfANormalNumber) {
  const int64_t count = 200000;
  std::vector<float> out(count);
  random_normal(3, 1, 0, count, out.data());
  double sum = 0, squares = 0, fourth = 0;
  for (const double x : out) {
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / count, 0, 0.01);
  EXPECT_NEAR(squares / count, 1, 0.01);
  EXPECT_NEAR(fourth / count, 3, 0.1);
}

}  // namespace
}  // namespace neuron::fusion
