// The device allocator and the allocator of pinned host memory, as PyTorch sees them.
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "lazy/torch/allocators.h"
#include "lazy/torch/runtime.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {
namespace {

void fill_stat(c10::CachingAllocator::StatArray& stats,
               const device::MemoryFigure& figure) {
  c10::CachingAllocator::Stat& stat = stats[0];
  stat.current = figure.current;
  stat.peak = figure.peak;
  stat.allocated = figure.allocated;
  stat.freed = figure.freed;
}

class NeuronAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t nbytes) override {
    return allocate_data(nbytes, current_device());
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, size_t) const override {
    TORCH_CHECK(
        false, "[allocator] device memory cannot be copied by pointer; use Tensor.copy_");
  }
  bool initialized() override { return is_started(); }
  void emptyCache(c10::MempoolId_t) override {
    for (int i = 0; is_started() && i < device_count(); ++i)
      core_at(i).memory().empty_cache();
  }
  // Recorded work holds its own references.
  void recordStream(const c10::DataPtr&, c10::Stream) override {}

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(
      c10::DeviceIndex index) override {
    const device::MemoryStats have = core_at(index).memory().stats();
    c10::CachingDeviceAllocator::DeviceStats stats;
    fill_stat(stats.allocation, have.allocations);
    fill_stat(stats.segment, have.segments);
    fill_stat(stats.active, have.allocations);
    fill_stat(stats.allocated_bytes, have.allocated_bytes);
    fill_stat(stats.active_bytes, have.active_bytes);
    fill_stat(stats.requested_bytes, have.requested_bytes);
    fill_stat(stats.reserved_bytes, have.reserved_bytes);
    // Charged memory counts as reserved before a byte of it was touched.
    c10::CachingAllocator::Stat& reserved = stats.reserved_bytes[0];
    reserved.current = std::max(reserved.current, stats.active_bytes[0].current);
    reserved.peak = std::max(reserved.peak, stats.active_bytes[0].peak);
    stats.num_alloc_retries = have.retries;
    stats.num_ooms = have.out_of_memory;
    return stats;
  }

  void resetAccumulatedStats(c10::DeviceIndex index) override {
    core_at(index).memory().reset_accumulated_stats();
  }
  void resetPeakStats(c10::DeviceIndex index) override {
    core_at(index).memory().reset_peak_stats();
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    device::Memory& memory = core_at(index).memory();
    const auto used = static_cast<size_t>(memory.active_bytes());
    return {memory.capacity() - std::min<size_t>(used, memory.capacity()),
            memory.capacity()};
  }
};

// Page-locked memory of the host. The simulator needs no locking; what counts is that
// PyTorch can tell pinned from pageable.
class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t nbytes) override {
    void* block = nbytes == 0 ? nullptr : std::aligned_alloc(64, (nbytes + 63) / 64 * 64);
    TORCH_CHECK(nbytes == 0 || block != nullptr,
                "[allocator] no host memory to pin: got ", nbytes, " bytes");
    if (block != nullptr) {
      std::lock_guard lock(mutex_);
      blocks_[block] = nbytes;
    }
    return {block, block, &free_block, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, size_t count) const override {
    std::memcpy(to, from, count);
  }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

  bool contains(const void* address) {
    std::lock_guard lock(mutex_);
    auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) return false;
    const auto& [start, size] = *std::prev(after);
    return static_cast<const char*>(address) < static_cast<const char*>(start) + size;
  }

 private:
  static void free_block(void* block);
  std::mutex mutex_;
  std::map<const void*, size_t> blocks_;
};

NeuronAllocator& device_allocator() {
  static auto* allocator = new NeuronAllocator;
  return *allocator;
}

PinnedAllocator& host_allocator() {
  static auto* allocator = new PinnedAllocator;
  return *allocator;
}

void PinnedAllocator::free_block(void* block) {
  if (block == nullptr) return;
  {
    std::lock_guard lock(host_allocator().mutex_);
    host_allocator().blocks_.erase(block);
  }
  std::free(block);
}

}  // namespace

c10::Allocator* neuron_allocator() { return &device_allocator(); }
c10::Allocator* pinned_allocator() { return &host_allocator(); }
bool is_pinned_address(const void* address) { return host_allocator().contains(address); }

void register_allocators() {
  c10::SetAllocator(c10::kPrivateUse1, &device_allocator());
  at::setHostAllocator(at::kPrivateUse1, &host_allocator());
}

}  // namespace neuron::lazy
