// What the bytes of a key are, for those who write and those who explain them.
#pragma once

#include <cstdint>

#include "ir/dtype.h"
#include "ir/op.h"

namespace neuron::cache {

/// The head of the key of one node. Behind it: an OperandKey each, unless it is a call.
struct NodeKey {
  ir::Op op;
  uint8_t number_kinds;
  // The same op may be recorded with a call object or without: other code runs.
  bool has_call;
  uint32_t num_operands;  // 0 where a call brings its own code
};
static_assert(sizeof(NodeKey) == 8);

/// What the key holds of one operand.
struct OperandKey {
  uint16_t buffer;  // numbered by first use within the kernel
  ir::DType dtype;
  uint8_t rank;
  uint8_t flags;
  uint8_t padding = 0;
};
static_assert(sizeof(OperandKey) == 6);

/// The head of the key of fused code. Behind it: its sources, instructions and sinks.
struct CodeKey {
  uint16_t num_sources;
  uint16_t num_instrs;
  uint16_t num_sinks;
  uint16_t num_registers;
};
static_assert(sizeof(CodeKey) == 8);

}  // namespace neuron::cache
