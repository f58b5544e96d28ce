// Lets torch-free code give up a lock of its embedder (Python's GIL) while it waits.
#pragma once

namespace neuron {

/// Installed once by the Python binding. `release` gives up what the calling thread holds
/// and returns a token for `restore`, or nullptr when the thread holds nothing.
struct BlockingHooks {
  void* (*release)() = nullptr;
  void (*restore)(void* token) = nullptr;
};

/// The process-wide hooks; empty outside Python.
BlockingHooks& blocking_hooks();

/// For the lifetime of this object the thread may block.
class BlockingRegion {
 public:
  BlockingRegion();
  ~BlockingRegion();
  BlockingRegion(const BlockingRegion&) = delete;
  BlockingRegion& operator=(const BlockingRegion&) = delete;

 private:
  void* token_ = nullptr;
};

}  // namespace neuron
