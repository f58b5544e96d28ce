// Work: what a step does on the simulated chip.
#pragma once

#include <cstdint>

namespace neuron::device {

enum class Engine : uint8_t { kTensor, kVector, kScalar, kGpSimd };
inline constexpr int kNumEngines = 4;

/// Said by whoever knows the ops; a function of the program alone.
struct Work {
  enum class Kind : uint8_t {
    kFree,      // takes no time on the device: a mark, bytes that the host has put there
    kCompute,   // engines and HBM
    kDownload,  // a copy to the host, on a queue of its own
    kHost,      // the host computes: bytes cross the link in both directions
  };
  Kind kind = Kind::kFree;
  bool is_float32 = false;  // of products: operands wider than 16 bits
  float vector = 0;         // instructions of each engine per element
  float scalar = 0;
  float gpsimd = 0;
  uint32_t row_tiles = 0;     // tiles of 128 rows, each a chain of dependent instructions
  uint64_t elements = 0;      // that these instructions walk through
  uint64_t tensor_rows = 0;   // that products stream through the array
  uint64_t tensor_tiles = 0;  // in so many instructions
  uint64_t bytes_read = 0;    // of HBM; kDownload, kHost: over the link
  uint64_t bytes_written = 0;
  uint64_t signature = 0;  // equal for steps that compile to the same program
};

}  // namespace neuron::device
