#include "cache/executable_cache.h"

#include <gtest/gtest.h>

namespace neuron::cache {
namespace {

Key key_of(uint64_t hash, int byte) {
  Key key;
  key.hash = hash;
  key.bytes = {static_cast<std::byte>(byte)};
  return key;
}

TEST(ExecutableCache, FindsWhatWasInserted) {
  ExecutableCache cache;
  const device::Executable one, two;
  cache.insert(key_of(1, 1), &one);
  cache.insert(key_of(2, 2), &two);
  EXPECT_EQ(cache.find(key_of(1, 1)), &one);
  EXPECT_EQ(cache.find(key_of(2, 2)), &two);
  EXPECT_EQ(cache.size(), 2u);
}

TEST(ExecutableCache, AKeyThatIsNotThereGivesNull) {
  ExecutableCache cache;
  EXPECT_EQ(cache.find(key_of(1, 1)), nullptr);
}

TEST(ExecutableCache, TheBytesDecideWhereHashesAreEqual) {
  ExecutableCache cache;
  const device::Executable one, two;
  cache.insert(key_of(1, 1), &one);
  EXPECT_EQ(cache.find(key_of(1, 2)), nullptr);
  cache.insert(key_of(1, 2), &two);
  EXPECT_EQ(cache.find(key_of(1, 1)), &one);
  EXPECT_EQ(cache.find(key_of(1, 2)), &two);
}

TEST(ExecutableCache, HitsAndMissesAreCounted) {
  ExecutableCache cache;
  const device::Executable one;
  EXPECT_EQ(cache.find(key_of(1, 1)), nullptr);
  cache.insert(key_of(1, 1), &one);
  EXPECT_EQ(cache.find(key_of(1, 1)), &one);
  EXPECT_EQ(cache.find(key_of(1, 1)), &one);
  EXPECT_EQ(cache.misses(), 1u);
  EXPECT_EQ(cache.hits(), 2u);
}

TEST(ExecutableCache, TheCallersKeyMayChangeAfterwards) {
  ExecutableCache cache;
  const device::Executable one;
  Key key = key_of(1, 1);
  cache.insert(key, &one);
  key = key_of(2, 2);
  EXPECT_EQ(cache.find(key_of(1, 1)), &one);
}

}  // namespace
}  // namespace neuron::cache
