#include "base/hash.h"

#include <gtest/gtest.h>

#include <string>

namespace neuron {
namespace {

TEST(Hash, IsXxh3OfTheEmptyRange) { EXPECT_EQ(hash_bytes("", 0), 0x2D06800538D394C2u); }

TEST(Hash, EveryByteCounts) {
  std::string text(100, 'a');
  const uint64_t before = hash_bytes(text.data(), text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = 'b';
    EXPECT_NE(hash_bytes(changed.data(), changed.size()), before) << i;
  }
}

TEST(Hash, TheSeedCounts) { EXPECT_NE(hash_bytes("abc", 3, 1), hash_bytes("abc", 3, 2)); }

TEST(Hash, TheLengthCounts) { EXPECT_NE(hash_bytes("\0\0", 1), hash_bytes("\0\0", 2)); }

}  // namespace
}  // namespace neuron
