// Implicit synchronisations, pointed at: where Python waits for the device although it
// did not ask to synchronise.
#pragma once

#include <atomic>

#include "device/buffer.h"
#include "lazy/window.h"

namespace neuron::lazy {

enum class SyncDebug : int { kDefault, kWarn, kError };

/// What to do about them; at the start what NEURON_SYNC_DEBUG_MODE says.
std::atomic<SyncDebug>& sync_debug_mode();

/// Called before a wait for `buffer`: warns or raises if so asked, unless nothing was
/// ever recorded on the buffer.
void note_sync(const device::Buffer& buffer, WindowEnd end);

}  // namespace neuron::lazy
