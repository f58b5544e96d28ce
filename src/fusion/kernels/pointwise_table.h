// The baseline kernels: one function an instruction, compiled once for each instruction
// set. Calls pass only pointers to plain data, so the two copies never mix.
#pragma once

#include <cstdint>

namespace neuron::fusion {

/// out[i] = body(in[0][i], in[1][i], ...) for i < n, all dense.
using InstrFn = void (*)(void* out, const void* const* in, int64_t n);
/// Between storage with a stride in elements and dense values.
using LoadFn = void (*)(void* values, const void* storage, int64_t n, int64_t stride);
using StoreFn = void (*)(void* storage, const void* values, int64_t n, int64_t stride);

struct PointwiseTable {
  static constexpr int kMaxCodes = 128;
  static constexpr int kMaxDTypes = 32;
  InstrFn instrs[kMaxCodes][4] = {};  // by Code and ValueType
  LoadFn loads[kMaxDTypes] = {};      // by DType
  StoreFn stores[kMaxDTypes] = {};
};

/// The table for this machine's instruction set.
const PointwiseTable& pointwise_table();

}  // namespace neuron::fusion
