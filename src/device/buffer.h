// Buffer: the record behind one storage. Its address is fixed at once; its bytes come
// late.
//
// Who may touch what:
//  - `refs` and `storage_alive`: any thread.
//  - `window`, `index`, `*_stream`, `last_*`: under the recorder's lock.
//  - `host`, `free_host`, `host_context`, `error`: the thread that executes programs, or
//  a
//    thread that has waited for the buffer's last use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace neuron::device {

class Memory;

/// Gives back bytes that a buffer holds.
using FreeHostFn = void (*)(void* context);

struct Buffer {
  std::atomic<int32_t> refs{0};  // one for the storage, one for each open window
  std::atomic<bool> storage_alive{false};  // false: no tensor can see the bytes any more
  uint8_t size_class = 0;
  uint16_t device_index = 0;
  uint32_t index = 0;         // place in the table of window `window`
  uint64_t window = 0;        // the last window that named this buffer
  uint32_t use_stream = 0;    // the stream of that window
  uint64_t last_use = 0;      // its sequence number in that stream, 0 for never
  uint32_t write_stream = 0;  // the same for the last window that wrote it
  uint64_t last_write = 0;
  uint64_t address = 0;  // device address, unique among live buffers, never dereferenced
  uint64_t nbytes = 0;   // bytes asked for
  std::byte* host =
      nullptr;  // the bytes in the simulator, or nullptr when none were touched
  FreeHostFn free_host = nullptr;
  void* host_context = nullptr;
  uint64_t host_bytes = 0;
  ErrorPtr error;  // why the content does not exist
  Memory* memory = nullptr;
  Buffer* next = nullptr;  // link of a free list
};

}  // namespace neuron::device
