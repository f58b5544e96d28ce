#include "cache/difference.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "cache/key_layout.h"

namespace neuron::cache {
namespace {

std::string against(const std::string& field, const std::string& mine,
                    const std::string& theirs) {
  return field + ": " + mine + ", nearest has " + theirs;
}
std::string against(const std::string& field, int64_t mine, int64_t theirs) {
  return against(field, std::to_string(mine), std::to_string(theirs));
}

// Reads the parts of a key one after the other. A key from a disk may be anything: what
// it lacks is read as zeros.
class Parts {
 public:
  explicit Parts(const Key& key) : bytes_(key.bytes) {}
  template <class T>
  T take() {
    T value{};
    if (at_ + sizeof value <= bytes_.size()) {
      std::memcpy(static_cast<void*>(&value), bytes_.data() + at_, sizeof value);
    }
    at_ += sizeof value;
    return value;
  }

 private:
  const std::vector<std::byte>& bytes_;
  size_t at_ = 0;
};

const char* pick(const char* const* names, size_t count, size_t i) {
  return i < count ? names[i] : "?";
}

std::string print(const ir::Instr& instr) {
  constexpr const char* kTypes[] = {"f32", "f64", "i64", "bool"};
  if (instr.code >= ir::Code::kCount) return "?";
  const ir::CodeInfo& info = ir::code_info(instr.code);
  std::string text = std::string(info.name) + "." +
                     pick(kTypes, std::size(kTypes), static_cast<size_t>(instr.type));
  for (int i = 0; i < info.arity; ++i) text += " r" + std::to_string(instr.in[i]);
  return text + " to r" + std::to_string(instr.out);
}

const char* print(ir::Layout layout) {
  constexpr const char* kNames[] = {"linear", "scalar", "strided"};
  return pick(kNames, std::size(kNames), static_cast<size_t>(layout));
}

std::string compare(const std::string& name, const ir::Source& a, const ir::Source& b) {
  const auto kind = [](const ir::Source& s) { return s.is_number ? "number" : "tensor"; };
  if (a.is_number != b.is_number) return against(name, kind(a), kind(b));
  if (a.dtype != b.dtype) {
    return against(name + " dtype", ir::dtype_name(a.dtype), ir::dtype_name(b.dtype));
  }
  if (a.layout != b.layout) {
    return against(name + " layout", print(a.layout), print(b.layout));
  }
  if (a.type != b.type) return name + " value type";
  return "";
}

std::string compare(const std::string& name, const ir::Instr& a, const ir::Instr& b) {
  if (std::memcmp(&a, &b, sizeof a) == 0) return "";
  return against(name, print(a), print(b));
}

std::string compare(const std::string& name, const ir::Sink& a, const ir::Sink& b) {
  if (a.dtype != b.dtype) {
    return against(name + " dtype", ir::dtype_name(a.dtype), ir::dtype_name(b.dtype));
  }
  if (a.layout != b.layout) {
    return against(name + " layout", print(a.layout), print(b.layout));
  }
  if (a.reg != b.reg) return against(name + " register", a.reg, b.reg);
  return "";
}

template <class T>
std::string compare_all(const char* what, int count, Parts& a, Parts& b) {
  std::string found;
  for (int i = 0; i < count; ++i) {
    const std::string name = std::string(what) + " " + std::to_string(i);
    const std::string one = compare(name, a.take<T>(), b.take<T>());
    if (found.empty()) found = one;
  }
  return found;
}

}  // namespace

size_t distance(const Key& a, const Key& b) {
  const size_t shorter = std::min(a.bytes.size(), b.bytes.size());
  if (a.bytes.size() == b.bytes.size()) {
    size_t count = 0;
    for (size_t i = 0; i < shorter; ++i) count += a.bytes[i] != b.bytes[i];
    return count;
  }
  size_t head = 0;
  while (head < shorter && a.bytes[head] == b.bytes[head]) ++head;
  size_t tail = 0;
  while (tail < shorter - head &&
         a.bytes[a.bytes.size() - 1 - tail] == b.bytes[b.bytes.size() - 1 - tail]) {
    ++tail;
  }
  return std::max(a.bytes.size(), b.bytes.size()) - head - tail;
}

std::string code_difference(const Key& key, const Key& nearest) {
  if (key.bytes.size() < sizeof(CodeKey) || nearest.bytes.size() < sizeof(CodeKey)) {
    return "form of the key";
  }
  Parts a(key), b(nearest);
  const auto mine = a.take<CodeKey>();
  const auto theirs = b.take<CodeKey>();
  if (mine.num_sources != theirs.num_sources) {
    return against("number of inputs", mine.num_sources, theirs.num_sources);
  }
  std::string found = compare_all<ir::Source>("source", mine.num_sources, a, b);
  if (!found.empty()) return found;
  if (mine.num_instrs != theirs.num_instrs) {
    return against("number of instructions", mine.num_instrs, theirs.num_instrs);
  }
  found = compare_all<ir::Instr>("instruction", mine.num_instrs, a, b);
  if (!found.empty()) return found;
  if (mine.num_sinks != theirs.num_sinks) {
    return against("number of outputs", mine.num_sinks, theirs.num_sinks);
  }
  found = compare_all<ir::Sink>("output", mine.num_sinks, a, b);
  return found.empty() ? "number of registers" : found;
}

std::string node_difference(const Key& key, const Key& nearest) {
  Parts a(key), b(nearest);
  const auto mine = a.take<NodeKey>();
  const auto theirs = b.take<NodeKey>();
  if (mine.op != theirs.op) {
    return against("op", std::string(ir::op_info(mine.op).aten),
                   std::string(ir::op_info(theirs.op).aten));
  }
  if (mine.has_call != theirs.has_call) {
    return against("kind", mine.has_call ? "call" : "native",
                   theirs.has_call ? "call" : "native");
  }
  if (mine.num_operands != theirs.num_operands) {
    return against("number of operands", mine.num_operands, theirs.num_operands);
  }
  for (uint32_t i = 0; i < mine.num_operands; ++i) {
    const std::string name = "operand " + std::to_string(i);
    const auto one = a.take<OperandKey>();
    const auto other = b.take<OperandKey>();
    if (one.dtype != other.dtype) {
      return against(name + " dtype", ir::dtype_name(one.dtype),
                     ir::dtype_name(other.dtype));
    }
    if (one.rank != other.rank) return against(name + " rank", one.rank, other.rank);
    if (one.buffer != other.buffer) return name + " shares another operand's buffer";
    if (one.flags != other.flags) return name + " layout or access";
  }
  return "kinds of its numbers";
}

}  // namespace neuron::cache
