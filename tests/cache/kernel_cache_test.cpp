#include "cache/kernel_cache.h"

#include <gtest/gtest.h>

namespace neuron::cache {
namespace {

Key key_of(uint32_t number) {
  ir::PointwiseCode code;
  code.instrs.resize(2);
  code.instrs[0].in[0] = static_cast<uint16_t>(number);
  code.instrs[0].in[1] = static_cast<uint16_t>(number >> 16);
  Key key;
  make_key(code, key);
  return key;
}

TEST(KernelCache, TheSameKeyHasTheSameEntry) {
  KernelCache cache;
  const KernelEntry* first = cache.find_or_add(key_of(1)).get();
  EXPECT_EQ(cache.find_or_add(key_of(1)).get(), first);
  EXPECT_NE(cache.find_or_add(key_of(2)).get(), first);
  EXPECT_EQ(cache.hits(), 1u);
  EXPECT_EQ(cache.misses(), 2u);
}

TEST(KernelCache, TheBytesDecideWhereHashesAreTheSame) {
  KernelCache cache;
  Key a = key_of(1);
  Key b = key_of(2);
  b.hash = a.hash;
  EXPECT_NE(cache.find_or_add(a).get(), cache.find_or_add(b).get());
}

TEST(KernelCache, TrimmingKeepsAllWhileThereAreFew) {
  KernelCache cache;
  cache.find_or_add(key_of(1));
  cache.trim();
  EXPECT_EQ(cache.size(), 1u);
}

TEST(KernelCache, TrimmingForgetsKernelsThatNeverCameBack) {
  KernelCache cache;
  const auto kept = cache.find_or_add(key_of(0));
  cache.find_or_add(key_of(0));
  for (uint32_t i = 1; i <= KernelCache::kMaxEntries; ++i) cache.find_or_add(key_of(i));
  cache.trim();
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(cache.find_or_add(key_of(0)), kept);
}

TEST(KernelCache, AnEntryOutlivesTheCacheWhileItIsShared) {
  std::shared_ptr<KernelEntry> entry;
  {
    KernelCache cache;
    entry = cache.find_or_add(key_of(1));
  }
  entry->points = 3;
  EXPECT_EQ(entry.use_count(), 1);
}

}  // namespace
}  // namespace neuron::cache
