// A thread-local pointer that costs one load: for state that the record path asks for.
#pragma once

namespace neuron {

// Ordinary thread-local variables of a loaded library go through a function call. The few
// pointers declared with this use the static block of the thread instead; they are small
// enough to fit into what the loader keeps free there.
#define NEURON_THREAD_SLOT thread_local __attribute__((tls_model("initial-exec")))

}  // namespace neuron
