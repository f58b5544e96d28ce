// How long a compute step takes.
//
// Laws:
//  1. A step is tiled to the size of SBUF and its tiles are pipelined, so engines and DMA
//     overlap: the step takes as long as the busiest of them.
//  2. An instruction of Vector, Scalar or GpSimd walks through one element per lane and
//     cycle, at most `instruction_elements` of them, after the start of its access; below
//     the least interval between two instructions it costs that interval.
//  3. A product streams rows through the array of the Tensor engine, one row a cycle, in
//     instructions of at most `instruction_elements` rows; each pays one least interval
//     for its stationary tile. Wide floats take several passes.
//  4. Ops along rows (softmax, norms, attention) work in tiles of 128 rows. What a tile
//     waits for before its first and after its last instruction is not hidden: the start
//     of a DMA, and two dependent instructions.
//  5. The physical cores of a logical one share all of it evenly.
#include "device/cost.h"

#include <algorithm>
#include <cmath>

namespace neuron::device {
namespace {

// Law 2: the cycles of one instruction per element, `lane` elements in each lane.
double sweep_cycles(double lane, double start, const Target& target) {
  const double instructions = std::ceil(lane / target.instruction_elements);
  return std::max(lane, target.least_interval) + start * instructions;
}

// Law 3.
double tensor_cycles(const Work& work, const Target& target) {
  const double passes = work.is_float32 ? target.float32_passes : 1;
  return static_cast<double>(work.tensor_rows) * passes +
         static_cast<double>(work.tensor_tiles) * target.least_interval * passes;
}

}  // namespace

Cost cost_of(const Work& work, const LogicalCore& core) {
  const Target& target = *core.target;
  const double cores = core.cores;
  Cost cost;
  if (work.tensor_rows != 0) {
    cost.engines[0] = tensor_cycles(work, target) / cores / target.tensor_clock;
  }
  if (work.elements != 0) {
    const double lane =
        std::ceil(static_cast<double>(work.elements) / (cores * target.partitions));
    const double sweep = sweep_cycles(lane, target.access_start, target);
    cost.engines[1] = work.vector * sweep / target.vector_clock;
    cost.engines[2] = work.scalar * sweep / target.scalar_clock;
    if (work.gpsimd != 0) {
      cost.engines[3] = work.gpsimd * sweep_cycles(lane, target.gpsimd_start, target) /
                        target.gpsimd_clock;
    }
  }
  const double rate =
      std::min(target.hbm_rate * target.hbm_efficiency, target.dma_rate) * cores;
  cost.dma = static_cast<double>(work.bytes_read + work.bytes_written) / rate;
  if (work.row_tiles != 0) {
    const double latency =
        target.dma_start + 2 * target.dependent_start / target.vector_clock;
    cost.rows = std::ceil(work.row_tiles / cores) * latency;
  }
  cost.total =
      std::max(cost.dma, *std::max_element(cost.engines.begin(), cost.engines.end())) +
      cost.rows;
  return cost;
}

}  // namespace neuron::device
