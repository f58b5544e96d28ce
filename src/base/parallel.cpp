#include "base/parallel.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

namespace neuron {
namespace {

struct Arena {
  explicit Arena(int threads) : arena(threads) {}
  tbb::task_arena arena;
};

std::mutex arena_mutex;
std::atomic<Arena*> current_arena{nullptr};
std::atomic<int> wanted_threads{0};

int threads_of_machine() { return std::max(1, tbb::this_task_arena::max_concurrency()); }

// Arenas are kept for ever: a parallel_for may be running in the one that is replaced.
Arena& arena() {
  Arena* found = current_arena.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  std::lock_guard lock(arena_mutex);
  found = current_arena.load(std::memory_order_acquire);
  if (found == nullptr) {
    found = new Arena(num_threads());
    current_arena.store(found, std::memory_order_release);
  }
  return *found;
}

}  // namespace

int num_threads() {
  const int wanted = wanted_threads.load(std::memory_order_relaxed);
  if (wanted > 0) return wanted;
  static const int machine = threads_of_machine();
  return machine;
}

void set_num_threads(int count) {
  std::lock_guard lock(arena_mutex);
  wanted_threads.store(std::max(0, count));
  current_arena.store(nullptr, std::memory_order_release);
}

void parallel_for(int64_t count, int64_t grain, RangeFn body) {
  if (count <= 0) return;
  if (count <= grain || num_threads() == 1) {
    body(0, count);
    return;
  }
  arena().arena.execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<int64_t>(0, count,
                                    static_cast<size_t>(std::max<int64_t>(1, grain))),
        [&](const tbb::blocked_range<int64_t>& range) {
          body(range.begin(), range.end());
        },
        tbb::simple_partitioner());
  });
}

}  // namespace neuron
