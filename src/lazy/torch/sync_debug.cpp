#include "lazy/torch/sync_debug.h"

#include <c10/util/Exception.h>

#include <utility>

#include "base/knobs.h"
#include "lazy/torch/warn.h"

namespace neuron::lazy {

std::atomic<SyncDebug>& sync_debug_mode() {
  static std::atomic<SyncDebug> mode{static_cast<SyncDebug>(knobs().sync_debug_mode)};
  return mode;
}

void note_sync(const device::Buffer& buffer, WindowEnd end) {
  const SyncDebug mode = sync_debug_mode().load(std::memory_order_relaxed);
  // Read without the recorder's lock: what this thread has recorded it sees.
  if (C10_LIKELY(mode == SyncDebug::kDefault) || buffer.last_use == 0) return;
  const Site site = capture_site();
  std::string text = "[sync] Python waits for the device at " + describe_site(site) +
                     ": " + window_end_help(end) + " (" + window_end_name(end) + ")";
  TORCH_CHECK(mode != SyncDebug::kError, text,
              "; torch.neuron.set_sync_debug_mode(\"error\") forbids it");
  warn_at(site, std::move(text));
}

}  // namespace neuron::lazy
