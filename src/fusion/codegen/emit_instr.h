// Instructions, loads and stores of a pointwise kernel, in the vocabulary of emit_ops.h.
#pragma once

#include "fusion/codegen/emit_ops.h"
#include "ir/pointwise.h"

namespace neuron::fusion {

/// The contents of a register: a vector of its value type. No ref: not written yet.
struct Value {
  Ref ref = nullptr;
  ir::ValueType type = ir::ValueType::kF32;
};

/// The result of an instruction; no ref when there is no such code for these inputs.
Value emit_instr(const ir::Instr& instr, const Value in[4]);

/// How elements of a value type and of storage lie in memory.
Elem elem_of(ir::ValueType type);
Elem storage_of(ir::DType dtype);

/// Between a vector of storage elements and the values they stand for. A value that is
/// stored as bf16 must be rounded to it before; its low bits are dropped.
Value emit_load(ir::DType dtype, Ref storage);
Ref emit_store(ir::DType dtype, const Value& value);

}  // namespace neuron::fusion
