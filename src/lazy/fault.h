// Faults on purpose, for tests: that a wrong kernel is found, and that a worker survives.
#pragma once

#include <atomic>
#include <string>

namespace neuron::lazy {

class WindowProgram;

enum class Fault : uint8_t {
  kNone,
  kWrongCode,  // pointwise nodes of the op compute something else, if they share a window
  kThrow,      // the step of the op throws
};

/// From now on windows have this fault in nodes of the op ("aten::mul").
void set_fault(Fault fault, std::string op);

inline std::atomic<Fault> armed_fault{Fault::kNone};
inline bool has_fault() {
  return armed_fault.load(std::memory_order_relaxed) != Fault::kNone;
}

/// Called by the executing thread before the program is planned, and after.
void break_nodes(WindowProgram& program);
void break_steps(WindowProgram& program);

}  // namespace neuron::lazy
