#include "cache/kernel_cache.h"

namespace neuron::cache {

const std::shared_ptr<KernelEntry>& KernelCache::find_or_add(const Key& key) {
  const auto found = entries_.find(key);
  if (found != entries_.end()) {
    count(hits_);
    found->second->is_recent = true;
    return found->second;
  }
  count(misses_);
  return entries_.emplace(key, std::make_shared<KernelEntry>()).first->second;
}

void KernelCache::trim() {
  if (entries_.size() <= kMaxEntries) return;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (entry->second->is_recent) {
      entry->second->is_recent = false;
      ++entry;
    } else {
      entry = entries_.erase(entry);
    }
  }
  // All of them recent: the program has more kernels than are worth remembering.
  if (entries_.size() > kMaxEntries) entries_.clear();
}

}  // namespace neuron::cache
