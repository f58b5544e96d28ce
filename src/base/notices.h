// Notices: warnings of threads that cannot speak to the user themselves.
#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace neuron {

/// Keeps a warning until a thread that may raise it comes along: the torch side gives it
/// out at the next read or synchronisation. Any thread; takes no lock of the embedder.
void post_notice(std::string text);

/// Whether there is any; one relaxed load.
bool has_notices();

/// All of them, which are then forgotten.
std::vector<std::string> take_notices();

}  // namespace neuron
