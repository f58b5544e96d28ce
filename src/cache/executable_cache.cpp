#include "cache/executable_cache.h"

namespace neuron::cache {

const device::Executable* ExecutableCache::find(const Key& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) {
    count(misses_);
    return nullptr;
  }
  count(hits_);
  return found->second;
}

void ExecutableCache::insert(const Key& key, const device::Executable* executable) {
  entries_.emplace(key, executable);
}

}  // namespace neuron::cache
