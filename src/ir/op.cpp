#include "ir/op.h"

#include <array>

#include <tsl/robin_map.h>

#include "base/hash.h"

namespace neuron::ir {
namespace {

constexpr OpInfo kTable[] = {
#define NEURON_OP(op, aten, op_class) {Op::op, #op, aten, OpClass::op_class},
#include "ir/ops.def"
#undef NEURON_OP
};
static_assert(std::size(kTable) == static_cast<size_t>(Op::kCount));

constexpr bool rows_are_in_order() {
  for (size_t i = 0; i < std::size(kTable); ++i) {
    if (static_cast<size_t>(kTable[i].op) != i) return false;
  }
  return true;
}
static_assert(rows_are_in_order());

struct NameHash {
  size_t operator()(std::string_view name) const {
    return hash_bytes(name.data(), name.size());
  }
};

using NameMap = tsl::robin_map<std::string_view, Op, NameHash>;

const NameMap& names() {
  static const NameMap* map = [] {
    auto* made = new NameMap;
    for (const OpInfo& info : kTable) {
      if (!info.aten.empty()) made->emplace(info.aten, info.op);
    }
    return made;
  }();
  return *map;
}

}  // namespace

const OpInfo& op_info(Op op) { return kTable[static_cast<size_t>(op)]; }

Op find_op(std::string_view aten_name) {
  auto found = names().find(aten_name);
  if (found == names().end() && aten_name.ends_with('_')) {
    found = names().find(aten_name.substr(0, aten_name.size() - 1));
  }
  return found == names().end() ? Op::kHost : found->second;
}

const char* op_class_name(OpClass op_class) {
  switch (op_class) {
    case OpClass::kPointwise:
      return "pointwise";
    case OpClass::kReduction:
      return "reduction";
    case OpClass::kIndexing:
      return "indexing";
    case OpClass::kRandom:
      return "random";
    case OpClass::kLibrary:
      return "library";
    case OpClass::kOptimizer:
      return "optimizer";
    case OpClass::kCopy:
      return "copy";
    case OpClass::kControl:
      return "control";
    case OpClass::kHost:
      return "host";
  }
  return "unknown";
}

}  // namespace neuron::ir
