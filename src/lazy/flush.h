// THE road of a closed window: plan -> key -> cache -> compile -> bind -> submit.
#pragma once

#include "cache/executable_cache.h"
#include "device/queue.h"
#include "lazy/core.h"
#include "lazy/window.h"

namespace neuron::lazy {

/// Takes a closed window down the road and leaves its program with the queue.
void submit_window(WindowProgramPtr program, device::StreamState& state,
                   cache::ExecutableCache& executables, FindExecutable find_executable,
                   device::Queue& queue);

}  // namespace neuron::lazy
