// The Python line of the calling thread, read without the GIL.
#pragma once

namespace neuron::bindings {

/// Installs the site hooks and the blocking hooks. Call once, with the GIL held.
void install_hooks();

}  // namespace neuron::bindings
