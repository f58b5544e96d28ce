// Loads objects into the process with ORC. The only file that includes ORC is jit.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace neuron::fusion {

/// Where a symbol of a loaded object is, and what keeps the object loaded.
struct LoadedSymbol {
  void* address = nullptr;
  std::shared_ptr<void> object;
};

/// Any thread. No address, with the reason, on failure.
LoadedSymbol load_symbol(const std::vector<char>& object, const std::string& name,
                         std::string& reason);

}  // namespace neuron::fusion
