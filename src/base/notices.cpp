#include "base/notices.h"

#include <mutex>
#include <utility>

namespace neuron {
namespace {

struct Notices {
  std::atomic<bool> is_any{false};
  std::mutex mutex;
  std::vector<std::string> texts;
};

Notices& notices() {
  static auto* notices = new Notices;  // threads may outlive static objects
  return *notices;
}

}  // namespace

void post_notice(std::string text) {
  const std::lock_guard lock(notices().mutex);
  notices().texts.push_back(std::move(text));
  notices().is_any.store(true, std::memory_order_release);
}

bool has_notices() { return notices().is_any.load(std::memory_order_relaxed); }

std::vector<std::string> take_notices() {
  const std::lock_guard lock(notices().mutex);
  notices().is_any.store(false, std::memory_order_relaxed);
  return std::exchange(notices().texts, {});
}

}  // namespace neuron
