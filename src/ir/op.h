// Op and OpInfo: what the engine knows about each op, derived from ops.def.
#pragma once

#include <cstdint>
#include <string_view>

namespace neuron::ir {

enum class OpClass : uint8_t {
  kPointwise,
  kReduction,
  kIndexing,
  kRandom,
  kLibrary,
  kOptimizer,
  kCopy,
  kControl,
  kHost,
};

enum class Op : uint16_t {
#define NEURON_OP(op, aten, op_class) op,
#include "ir/ops.def"
#undef NEURON_OP
  kCount
};

struct OpInfo {
  Op op;
  std::string_view name;  // the enum's name without its k
  std::string_view aten;  // "aten::add", or empty for ops of our own
  OpClass op_class;
};

const OpInfo& op_info(Op op);

/// The op for an aten base name ("aten::add", without overload); Op::kHost where the
/// table has none. In-place and out= forms have the row of the functional form.
Op find_op(std::string_view aten_name);

const char* op_class_name(OpClass op_class);

/// True for ops that have no row of their own: they run on the host.
inline bool is_host_op(Op op) { return op == Op::kHost; }

}  // namespace neuron::ir
