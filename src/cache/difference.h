// Why a key was not found: the field in which it differs from the nearest one.
#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include "cache/key.h"

namespace neuron::cache {

/// How unlike two keys are: bytes between what they share at the head and at the end, and
/// of keys of one length, the bytes that differ.
size_t distance(const Key& a, const Key& b);

/// The stored key that is most like `key`; nullptr when the cache is empty. Looks at all
/// of them: for reports only.
template <class Cache>
const Key* nearest_key(const Cache& cache, const Key& key) {
  const Key* nearest = nullptr;
  size_t least = std::numeric_limits<size_t>::max();
  cache.for_each_key([&](const Key& other) {
    const size_t now = distance(key, other);
    if (now >= least) return;
    least = now;
    nearest = &other;
  });
  return nearest;
}

/// The first field in which a kernel's key differs from another, such as
/// "source 1 dtype: bf16, nearest has f32"; for keys of fused code, and of one node.
std::string code_difference(const Key& key, const Key& nearest);
std::string node_difference(const Key& key, const Key& nearest);

}  // namespace neuron::cache
