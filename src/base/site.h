// Where in the user's program something was recorded: a Python code object and
// instruction.
#pragma once

#include <cstdint>
#include <string>

namespace neuron {

/// A place in the user's program. Cheap to take (no lock, no string); turned into text
/// only when somebody asks. `stack` numbers a stored whole stack, 0 when there is none.
struct Site {
  const void* code = nullptr;
  int32_t instruction = -1;
  uint32_t stack = 0;

  bool operator==(const Site&) const = default;
};

/// Installed once by the Python binding.
struct SiteHooks {
  Site (*capture)() = nullptr;
  std::string (*describe)(const Site&) = nullptr;  // "file.py:12", or the stack's lines
};

SiteHooks& site_hooks();

/// The innermost Python line of the calling thread; empty outside Python.
inline Site capture_site() {
  const auto capture = site_hooks().capture;
  return capture != nullptr ? capture() : Site{};
}

/// "file.py:12", or "<no Python line>".
std::string describe_site(const Site& site);

}  // namespace neuron
