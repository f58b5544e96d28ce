#include "device/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include "base/check.h"
#include "base/thread_slot.h"

namespace neuron::device {
namespace {

// Records freed by a thread wait here for its next allocation; the rest goes to the
// shared list, so that a thread that only frees (the worker) feeds one that only
// allocates.
struct LocalRecords {
  static constexpr int kKeep = 32;
  Buffer* head = nullptr;
  int count = 0;
};

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kExactFrom = uint64_t{16} << 20;

uint8_t size_class_of(uint64_t nbytes) {
  return static_cast<uint8_t>(std::bit_width(std::max<uint64_t>(nbytes, 64) - 1));
}

// Records live as long as the process, so the per-thread lists need no destructor.
LocalRecords& local_list(uint16_t device_index, uint8_t size_class) {
  using Lists = std::array<LocalRecords, Memory::kClasses>;
  static NEURON_THREAD_SLOT std::array<Lists*, Memory::kMaxDevices>* lists = nullptr;
  if (lists == nullptr) lists = new std::array<Lists*, Memory::kMaxDevices>{};
  Lists*& mine = (*lists)[device_index];
  if (mine == nullptr) mine = new Lists;
  return (*mine)[size_class];
}

// Adds without a bus lock where only this thread writes.
inline void add_owned(std::atomic<int64_t>& total, int64_t amount) {
  total.store(total.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

inline void raise_peak(std::atomic<int64_t>& peak, int64_t now) {
  int64_t high = peak.load(std::memory_order_relaxed);
  while (now > high &&
         !peak.compare_exchange_weak(high, now, std::memory_order_relaxed)) {
  }
}

}  // namespace

void Memory::count(std::atomic<int64_t> MemoryTotals::* total, int64_t amount) {
  if (std::this_thread::get_id() == owner_) {
    add_owned(owned_.*total, amount);
  } else {
    (others_.*total).fetch_add(amount, std::memory_order_relaxed);
  }
}

int64_t Memory::sum(std::atomic<int64_t> MemoryTotals::* total) const {
  return (owned_.*total).load(std::memory_order_relaxed) +
         (others_.*total).load(std::memory_order_relaxed);
}

int64_t Memory::active_bytes() const {
  return sum(&MemoryTotals::made_bytes) - sum(&MemoryTotals::released_bytes);
}

void Memory::count_reserved(int64_t bytes, int64_t segments) {
  raise_peak(peak_reserved_, reserved_bytes_.fetch_add(bytes) + bytes);
  raise_peak(peak_segments_, segments_.fetch_add(segments) + segments);
}

MemoryStats Memory::stats() const {
  using Totals = MemoryTotals;
  MemoryStats stats;
  std::lock_guard lock(stats_mutex_);
  const auto fill = [](MemoryFigure& figure, const MemoryFigure& base, int64_t made,
                       int64_t freed, int64_t peak) {
    figure.current = made - freed;
    figure.peak = std::max(peak, figure.current);
    figure.allocated = made - base.allocated;
    figure.freed = freed - base.freed;
  };
  const int64_t made = sum(&Totals::made_bytes);
  fill(stats.allocated_bytes, base_stats_.allocated_bytes, made,
       sum(&Totals::freed_bytes), peak_bytes_);
  fill(stats.requested_bytes, base_stats_.requested_bytes, sum(&Totals::made_requested),
       sum(&Totals::freed_requested), peak_requested_);
  fill(stats.allocations, base_stats_.allocations, sum(&Totals::made_count),
       sum(&Totals::freed_count), peak_count_);
  fill(stats.active_bytes, base_stats_.active_bytes, made, sum(&Totals::released_bytes),
       peak_bytes_);
  fill(stats.reserved_bytes, base_stats_.reserved_bytes, reserved_bytes_, 0,
       peak_reserved_);
  fill(stats.segments, base_stats_.segments, segments_, 0, peak_segments_);
  stats.retries = retries_;
  stats.out_of_memory = out_of_memory_;
  return stats;
}

void Memory::reset_peak_stats() {
  const MemoryStats now = stats();
  peak_bytes_ = now.allocated_bytes.current;
  peak_requested_ = now.requested_bytes.current;
  peak_count_ = now.allocations.current;
  peak_reserved_ = now.reserved_bytes.current;
  peak_segments_ = now.segments.current;
}

void Memory::reset_accumulated_stats() {
  const MemoryStats now = stats();
  std::lock_guard lock(stats_mutex_);
  const auto move = [](MemoryFigure& base, const MemoryFigure& figure) {
    base.allocated += figure.allocated;
    base.freed += figure.freed;
  };
  move(base_stats_.allocated_bytes, now.allocated_bytes);
  move(base_stats_.requested_bytes, now.requested_bytes);
  move(base_stats_.allocations, now.allocations);
  move(base_stats_.active_bytes, now.active_bytes);
  retries_ = 0;
  out_of_memory_ = 0;
}

uint64_t block_size(uint64_t nbytes) {
  if (nbytes < 64) return 64;
  if (nbytes < 4096) return std::bit_ceil(nbytes);
  // Eight classes in each power of two: at most 12.5 % is lost.
  const uint64_t step = std::bit_floor(nbytes) / 8;
  return (nbytes + step - 1) / step * step;
}

uint64_t Memory::rounded(uint64_t nbytes) {
  if (nbytes <= 256) return 256;
  if (nbytes >= kExactFrom) return (nbytes + 511) / 512 * 512;
  return block_size(nbytes);
}

Memory::Memory(uint16_t device_index, uint64_t capacity)
    : device_index_(device_index),
      capacity_(capacity),
      owner_(std::this_thread::get_id()) {
  const auto reserve = [this] {
    return mmap(nullptr, address_space_, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  };
  void* range = reserve();
  while (range == MAP_FAILED && address_space_ > kLeastAddressSpace) {
    address_space_ /= 2;
    range = reserve();
  }
  NEURON_CHECK(range != MAP_FAILED,
               "[memory] cannot reserve 16 GiB of addresses for the device; raise the "
               "limit of address space (ulimit -v)");
  base_ = reinterpret_cast<uint64_t>(range);
  next_address_ = base_ + 4096;
}

Buffer* Memory::new_record(uint8_t size_class) {
  const uint64_t size = uint64_t{1} << size_class;
  uint64_t start = next_address_.load(std::memory_order_relaxed);
  do {
    if (start + size > base_ + address_space_) return nullptr;
  } while (!next_address_.compare_exchange_weak(start, start + size));
  auto* buffer = new Buffer;
  buffer->size_class = size_class;
  buffer->device_index = device_index_;
  buffer->address = start;
  buffer->memory = this;
  std::lock_guard lock(records_mutex_);
  by_address_[start] = buffer;
  return buffer;
}

Buffer* Memory::allocate(uint64_t nbytes) {
  const auto charged = static_cast<int64_t>(rounded(nbytes));
  // The worker's totals are read only when the bound known so far does not suffice.
  const int64_t made = sum(&MemoryTotals::made_bytes) + charged;
  const auto capacity = static_cast<int64_t>(capacity_);
  if (made - seen_released_.load(std::memory_order_relaxed) > capacity) {
    const int64_t released = sum(&MemoryTotals::released_bytes);
    seen_released_.store(released, std::memory_order_relaxed);
    if (made - released > capacity) return nullptr;
  }
  const uint8_t size_class = size_class_of(nbytes);
  if (size_class >= kClasses) return nullptr;
  LocalRecords& local = local_list(device_index_, size_class);
  if (local.head == nullptr) {
    local.head = free_records_[size_class].exchange(nullptr, std::memory_order_acquire);
    local.count = 0;
  }
  Buffer* buffer = local.head;
  if (buffer != nullptr) {
    local.head = buffer->next;
    if (local.count > 0) --local.count;
  } else {
    buffer = new_record(size_class);
    if (buffer == nullptr) return nullptr;
  }
  buffer->nbytes = nbytes;
  buffer->window = 0;
  buffer->last_write = 0;
  buffer->last_use = 0;
  buffer->refs.store(1, std::memory_order_relaxed);
  buffer->storage_alive.store(true, std::memory_order_relaxed);
  count(&MemoryTotals::made_bytes, charged);
  count(&MemoryTotals::made_requested, static_cast<int64_t>(nbytes));
  count(&MemoryTotals::made_count, 1);
  raise_peak(peak_bytes_, made - sum(&MemoryTotals::freed_bytes));
  raise_peak(peak_requested_,
             sum(&MemoryTotals::made_requested) - sum(&MemoryTotals::freed_requested));
  raise_peak(peak_count_,
             sum(&MemoryTotals::made_count) - sum(&MemoryTotals::freed_count));
  if (records_sites()) note_site(buffer);
  return buffer;
}

void Memory::release_storage(Buffer* buffer) {
  if (records_sites()) {
    std::lock_guard lock(sites_mutex_);
    sites_.erase(buffer);
  }
  count(&MemoryTotals::freed_bytes, static_cast<int64_t>(rounded(buffer->nbytes)));
  count(&MemoryTotals::freed_requested, static_cast<int64_t>(buffer->nbytes));
  count(&MemoryTotals::freed_count, 1);
  buffer->storage_alive.store(false, std::memory_order_relaxed);
  release(buffer);
}

void Memory::release(Buffer* buffer) {
  if (buffer->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    buffer->memory->recycle(buffer);
  }
}

void Memory::recycle(Buffer* buffer) {
  drop_bytes(buffer);
  if (buffer->error != nullptr) buffer->error.reset();
  count(&MemoryTotals::released_bytes, static_cast<int64_t>(rounded(buffer->nbytes)));
  LocalRecords& local = local_list(device_index_, buffer->size_class);
  if (local.count < LocalRecords::kKeep) {
    buffer->next = local.head;
    local.head = buffer;
    ++local.count;
    return;
  }
  auto& shared = free_records_[buffer->size_class];
  buffer->next = shared.load(std::memory_order_relaxed);
  while (!shared.compare_exchange_weak(buffer->next, buffer, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
}

std::byte* Memory::materialize(Buffer* buffer) {
  if (buffer->host != nullptr) return buffer->host;
  const uint64_t size = block_size(buffer->nbytes);
  buffer->host = buffer->memory->take_block(size);
  buffer->host_bytes = size;
  buffer->free_host = nullptr;
  return buffer->host;
}

void Memory::adopt(Buffer* buffer, std::byte* host, uint64_t host_bytes,
                   FreeHostFn free_host, void* context) {
  drop_bytes(buffer);
  buffer->host = host;
  buffer->host_bytes = host_bytes;
  buffer->free_host = free_host;
  buffer->host_context = context;
  buffer->memory->count_reserved(static_cast<int64_t>(host_bytes), 1);
}

void Memory::drop_bytes(Buffer* buffer) {
  if (buffer->host == nullptr) return;
  Memory& memory = *buffer->memory;
  if (buffer->free_host != nullptr) {
    buffer->free_host(buffer->host_context);
    memory.count_reserved(-static_cast<int64_t>(buffer->host_bytes), -1);
  } else {
    memory.return_block(buffer->host, buffer->host_bytes);
  }
  buffer->host = nullptr;
}

std::byte* Memory::take_block(uint64_t size) {
  {
    std::lock_guard lock(blocks_mutex_);
    const auto found = cached_blocks_.find(size);
    if (found != cached_blocks_.end() && !found->second.empty()) {
      std::byte* block = found.value().back();
      found.value().pop_back();
      cached_bytes_ -= size;
      return block;
    }
  }
  const uint64_t aligned = (size + kAlignment - 1) / kAlignment * kAlignment;
  void* block = std::aligned_alloc(kAlignment, aligned);
  if (block == nullptr) {
    empty_cache();
    block = std::aligned_alloc(kAlignment, aligned);
    if (block == nullptr) throw std::bad_alloc();
  }
  count_reserved(static_cast<int64_t>(size), 1);
  return static_cast<std::byte*>(block);
}

void Memory::return_block(std::byte* block, uint64_t size) {
  {
    std::lock_guard lock(blocks_mutex_);
    if (cached_bytes_ + size <= kMaxCachedBytes) {
      cached_blocks_[size].push_back(block);
      cached_bytes_ += size;
      return;
    }
  }
  std::free(block);
  count_reserved(-static_cast<int64_t>(size), -1);
}

void Memory::empty_cache() {
  decltype(cached_blocks_) cached;
  {
    std::lock_guard lock(blocks_mutex_);
    cached.swap(cached_blocks_);
    cached_bytes_ = 0;
  }
  for (const auto& [size, blocks] : cached) {
    for (std::byte* block : blocks) {
      std::free(block);
      count_reserved(-static_cast<int64_t>(size), -1);
    }
  }
}

void Memory::note_site(const Buffer* buffer) {
  const Site site = capture_site();  // may take the GIL: before the lock
  std::lock_guard lock(sites_mutex_);
  sites_[buffer] = site;
}

void Memory::record_sites(bool records) {
  records_sites_.store(records, std::memory_order_relaxed);
  std::lock_guard lock(sites_mutex_);
  sites_.clear();
}

std::vector<LiveBuffer> Memory::live() {
  std::vector<LiveBuffer> live;
  std::scoped_lock lock(records_mutex_, sites_mutex_);
  for (const auto& [address, buffer] : by_address_) {
    if (buffer->refs.load(std::memory_order_acquire) <= 0) continue;
    LiveBuffer& entry = live.emplace_back();
    entry.address = address;
    entry.nbytes = buffer->nbytes;
    entry.charged = rounded(buffer->nbytes);
    entry.is_alive = buffer->storage_alive.load(std::memory_order_relaxed);
    const auto site = sites_.find(buffer);
    if (site != sites_.end()) entry.site = site->second;
  }
  return live;
}

Buffer* Memory::find(uint64_t address) {
  std::lock_guard lock(records_mutex_);
  auto after = by_address_.upper_bound(address);
  if (after == by_address_.begin()) return nullptr;
  Buffer* buffer = std::prev(after)->second;
  const bool inside = address < buffer->address + (uint64_t{1} << buffer->size_class);
  return inside && buffer->refs.load(std::memory_order_relaxed) > 0 ? buffer : nullptr;
}

}  // namespace neuron::device
