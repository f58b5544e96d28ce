#include "fusion/group.h"

#include <algorithm>

#include "ir/itemsize.h"

namespace neuron::fusion {

using ir::Code;
using ir::DType;
using ir::Instr;
using ir::Layout;
using ir::ValueType;

Layout layout_of(const ir::Operand& operand, const Space& space) {
  if (operand.rank == 0 && space.numel != 1) return Layout::kScalar;
  return operand.is_contiguous() ? Layout::kLinear : Layout::kStrided;
}

int64_t end_of(const ir::Graph& graph, const ir::Operand& operand) {
  const auto sizes = graph.sizes_of(operand);
  const auto strides = graph.strides_of(operand);
  int64_t last = 0;
  if (operand.is_contiguous()) {
    int64_t numel = 1;
    for (const int64_t size : sizes) numel *= size;
    last = numel - 1;
  } else {
    for (size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
  }
  return operand.offset + (last + 1) * ir::itemsize_of(operand.dtype);
}

Space space_of(const ir::Graph& graph, const ir::Node& node) {
  Space space;
  bool is_dense = true;
  const auto operands = graph.operands_of(node);
  const auto sizes = graph.sizes_of(operands.back());
  space.numel = 1;
  for (const int64_t size : sizes) space.numel *= size;
  for (const ir::Operand& operand : operands) {
    is_dense = is_dense && (operand.is_contiguous() || operand.rank == 0);
  }
  if (!is_dense) {
    space.rank = static_cast<int>(sizes.size());
    space.sizes = sizes.data();
  }
  return space;
}

namespace {

bool same_strides(const int64_t* a, const int64_t* b, int rank) {
  return a == b || std::equal(a, a + rank, b);
}

}  // namespace

void Group::reset(const Space& space) {
  space_ = space;
  nodes_.clear();
  accesses_.clear();
  instrs_.clear();
  values_.clear();
  numbers_.clear();
}

bool Group::fits(const Space& space) const {
  if (space.numel != space_.numel) return false;
  if (space.rank == 0 || space_.rank == 0) return true;
  return space.rank == space_.rank &&
         std::equal(space.sizes, space.sizes + space.rank, space_.sizes);
}

bool Group::collides(const ir::Graph& graph, const ir::Node& node) const {
  for (const ir::Operand& operand : graph.operands_of(node)) {
    for (const GroupAccess& access : accesses_) {
      if (access.buffer != operand.buffer) continue;
      if (!operand.writes() && !access.is_written) continue;
      const Layout layout = layout_of(operand, space_);
      if (access.offset == operand.offset && access.dtype == operand.dtype &&
          access.layout == layout &&
          (layout != Layout::kStrided ||
           same_strides(access.strides, graph.strides_of(operand).data(),
                        operand.rank))) {
        continue;
      }
      if (operand.offset < access.end && access.offset < end_of(graph, operand)) {
        return true;
      }
    }
  }
  return false;
}

uint16_t Group::add_value(ValueType type) {
  values_.push_back({type, -1, -1});
  return static_cast<uint16_t>(values_.size() - 1);
}

uint16_t Group::add_number(ValueType type, const ir::Node& node, int i) {
  const bool is_integer = (node.number_kinds >> i & 1) != 0;
  Number number;
  number.real =
      is_integer ? static_cast<double>(node.numbers[i].integer) : node.numbers[i].real;
  number.integer =
      is_integer ? node.numbers[i].integer : static_cast<int64_t>(node.numbers[i].real);
  const uint16_t value = add_value(type);
  values_[value].number = static_cast<int32_t>(numbers_.size());
  numbers_.push_back(number);
  return value;
}

uint16_t Group::emit(Code code, ValueType type, const uint16_t* in, ValueType out) {
  const int arity = ir::code_info(code).arity;
  // The same computation of the same values is done once.
  for (const Instr& known : instrs_) {
    if (known.code == code && known.type == type &&
        std::equal(in, in + arity, known.in)) {
      return known.out;
    }
  }
  Instr instr;
  instr.code = code;
  instr.type = type;
  for (int k = 0; k < 4; ++k) instr.in[k] = in[k < arity ? k : 0];
  instr.out = add_value(out);
  instrs_.push_back(instr);
  return instr.out;
}

uint16_t Group::convert(uint16_t value, DType from, DType to) {
  if (from == to) return value;
  ValueType target = ValueType::kF32;
  ir::value_type_of(to, target);
  for (const Code code : ir::conversion(values_[value].type, target)) {
    if (code == Code::kNone) continue;
    ValueType result = target;
    if (code == Code::kBoolToF32) result = ValueType::kF32;
    value = emit(code, values_[value].type, &value, result);
  }
  const Code rounding = ir::rounding_of(to);
  if (rounding != Code::kNone && from != DType::kBool) {
    value = emit(rounding, target, &value, target);
  }
  return value;
}

GroupAccess& Group::access_of(const ir::Graph& graph, const ir::Operand& operand,
                              const Space& space) {
  const Layout layout = layout_of(operand, space);
  const int64_t* strides =
      layout == Layout::kStrided ? graph.strides_of(operand).data() : nullptr;
  for (GroupAccess& access : accesses_) {
    if (access.buffer == operand.buffer && access.offset == operand.offset &&
        access.dtype == operand.dtype && access.layout == layout &&
        (layout != Layout::kStrided ||
         same_strides(access.strides, strides, operand.rank))) {
      return access;
    }
  }
  GroupAccess& access = accesses_.emplace_back();
  access.buffer = operand.buffer;
  access.dtype = operand.dtype;
  access.layout = layout;
  access.offset = operand.offset;
  access.end = end_of(graph, operand);
  access.strides = strides;
  return access;
}

uint16_t Group::load(GroupAccess& access) {
  if (access.is_source || access.is_written) return access.value;
  ValueType type = ValueType::kF32;
  ir::value_type_of(access.dtype, type);
  access.is_source = true;
  access.value = access.source = add_value(type);
  values_[access.value].access = static_cast<int32_t>(&access - accesses_.data());
  return access.value;
}

void Group::add(const ir::Graph& graph, uint32_t index, const Space& space) {
  const ir::Node& node = graph.nodes[index];
  if (space_.rank == 0 && space.rank != 0) space_ = space;
  nodes_.push_back(index);
  const auto operands = graph.operands_of(node);
  const ir::CodeInfo& info = ir::code_info(node.code);
  ValueType type = ValueType::kF32;
  ir::value_type_of(node.dtype, type);
  uint16_t in[4] = {};
  int next_operand = 0;
  int next_number = 0;
  for (int k = 0; k < info.arity; ++k) {
    const bool is_condition = node.code == Code::kWhere && k == 0;
    if ((node.number_slots >> k & 1) != 0) {
      in[k] = add_number(is_condition ? ValueType::kBool : type, node, next_number++);
      continue;
    }
    const ir::Operand& operand = operands[next_operand++];
    GroupAccess& access = access_of(graph, operand, space);
    ++access.touches;
    const uint16_t value = load(access);
    DType wanted = is_condition ? DType::kBool : node.dtype;
    // A tensor without dimensions counts as a number: PyTorch does not round it.
    const bool is_half = wanted == DType::kFloat16 || wanted == DType::kBFloat16;
    if (is_half && operand.rank == 0 && operands.back().rank != 0) {
      wanted = DType::kFloat32;
    }
    in[k] = convert(value, operand.dtype, wanted);
  }
  const bool returns_bool = info.returns_bool;
  uint16_t value = in[0];
  if (node.code != Code::kCopy) {
    value = emit(node.code, type, in, returns_bool ? ValueType::kBool : type);
  }
  DType have = returns_bool ? DType::kBool : node.dtype;
  const Code rounding = returns_bool || node.code == Code::kCopy
                            ? Code::kNone
                            : ir::rounding_of(node.dtype);
  if (rounding != Code::kNone) value = emit(rounding, type, &value, type);
  const ir::Operand& out = operands[next_operand];
  GroupAccess& access = access_of(graph, out, space);
  ++access.touches;
  // A number was not rounded when it was made.
  if (node.code == Code::kCopy && (node.number_slots & 1) != 0 &&
      ir::rounding_of(node.dtype) != Code::kNone) {
    value = emit(ir::rounding_of(node.dtype), type, &value, type);
  }
  access.value = convert(value, have, out.dtype);
  access.is_written = true;
}

bool Group::can_take(const Group& other) const {
  return fits(other.space_) && instrs_.size() + other.instrs_.size() < kMaxInstrs - 8 &&
         accesses_.size() + other.accesses_.size() < kMaxAccesses - 6;
}

void Group::take(const Group& other) {
  if (space_.rank == 0 && other.space_.rank != 0) space_ = other.space_;
  nodes_.insert(nodes_.end(), other.nodes_.begin(), other.nodes_.end());
  const auto first_value = static_cast<uint16_t>(values_.size());
  const auto first_access = static_cast<int32_t>(accesses_.size());
  const auto first_number = static_cast<int32_t>(numbers_.size());
  // Both may read the same tensor; the second load of it is harmless.
  for (GroupAccess access : other.accesses_) {
    access.value = static_cast<uint16_t>(access.value + first_value);
    access.source = static_cast<uint16_t>(access.source + first_value);
    accesses_.push_back(access);
  }
  for (Value value : other.values_) {
    if (value.access >= 0) value.access += first_access;
    if (value.number >= 0) value.number += first_number;
    values_.push_back(value);
  }
  numbers_.insert(numbers_.end(), other.numbers_.begin(), other.numbers_.end());
  for (Instr instr : other.instrs_) {
    instr.out = static_cast<uint16_t>(instr.out + first_value);
    for (uint16_t& in : instr.in) in = static_cast<uint16_t>(in + first_value);
    instrs_.push_back(instr);
  }
}

// Which values the stores depend on, and by which instruction each is used last.
void Group::find_needed() {
  is_needed_.assign(values_.size(), 0);
  last_use_.assign(values_.size(), 0);
  const auto end = static_cast<uint32_t>(instrs_.size());
  for (size_t i = 0; i < accesses_.size(); ++i) {
    if (is_stored_[i] == 0) continue;
    is_needed_[accesses_[i].value] = 1;
    last_use_[accesses_[i].value] = end;
  }
  for (uint32_t i = end; i-- > 0;) {
    const Instr& instr = instrs_[i];
    if (is_needed_[instr.out] == 0) continue;
    for (int k = 0; k < ir::code_info(instr.code).arity; ++k) {
      if (is_needed_[instr.in[k]] == 0) last_use_[instr.in[k]] = i;
      is_needed_[instr.in[k]] = 1;
    }
  }
}

void Group::write_code(ir::PointwiseKernel& kernel) {
  ir::PointwiseCode& code = kernel.code;
  code.clear();
  kernel.tensors.clear();
  kernel.reals.clear();
  kernel.integers.clear();
  kernel.numel = space_.numel;
  kernel.rank = space_.rank;
  kernel.sizes = space_.sizes;
  register_.assign(values_.size(), 0);
  uint16_t next_register = 0;
  for (size_t v = 0; v < values_.size(); ++v) {
    const Value& value = values_[v];
    if (is_needed_[v] == 0 || (value.access < 0 && value.number < 0)) continue;
    register_[v] = next_register++;
    ir::Source source;
    source.type = value.type;
    Number number;
    if (value.number >= 0) {
      source.is_number = true;
      number = numbers_[value.number];
    } else {
      const GroupAccess& access = accesses_[value.access];
      source.dtype = access.dtype;
      source.layout = access.layout;
      kernel.tensors.push_back({access.buffer, access.offset, access.strides});
    }
    code.sources.push_back(source);
    kernel.reals.push_back(number.real);
    kernel.integers.push_back(number.integer);
  }
  // Registers are handed on when a value was used for the last time.
  std::vector<uint16_t> free_registers;
  for (uint32_t i = 0; i < instrs_.size(); ++i) {
    Instr instr = instrs_[i];
    const uint16_t out = instr.out;
    if (is_needed_[out] == 0) continue;
    const int arity = ir::code_info(instr.code).arity;
    for (int k = 0; k < 4; ++k) instr.in[k] = register_[instrs_[i].in[k < arity ? k : 0]];
    for (int k = 0; k < arity; ++k) {
      const uint16_t value = instrs_[i].in[k];
      const bool is_source = values_[value].access >= 0 || values_[value].number >= 0;
      if (is_source || last_use_[value] != i) continue;
      last_use_[value] = 0xffffffff;  // handed on once
      if (values_[value].type == values_[out].type)
        free_registers.push_back(register_[value]);
    }
    if (free_registers.empty()) {
      register_[out] = next_register++;
    } else {
      register_[out] = free_registers.back();
      free_registers.pop_back();
    }
    instr.out = register_[out];
    code.instrs.push_back(instr);
  }
  for (size_t a = 0; a < accesses_.size(); ++a) {
    if (is_stored_[a] == 0) continue;
    const GroupAccess& access = accesses_[a];
    code.sinks.push_back({register_[access.value], access.dtype, access.layout});
    kernel.tensors.push_back({access.buffer, access.offset, access.strides});
  }
  code.num_registers = next_register;
}

}  // namespace neuron::fusion
