// THE road of a closed window: plan -> key -> cache -> compile -> bind.
#pragma once

#include "cache/executable_cache.h"
#include "cache/kernel_cache.h"
#include "device/program.h"
#include "fusion/planner.h"
#include "lazy/compiler.h"
#include "lazy/window.h"

namespace neuron::lazy {

/// Finds the code for a kernel of one node; installed by `lazy/torch`, which owns the
/// kernels.
using FindExecutable = const device::Executable* (*)(const ir::Graph&, const ir::Node&);

/// What the stages need of their core. Used by the executing thread alone.
struct Road {
  FindExecutable find_executable = nullptr;
  cache::ExecutableCache executables;
  fusion::Planner planner;
  cache::KernelCache kernels;
  Compiler* compiler = nullptr;  // none: kernels are not compiled
  uint64_t sbuf_bytes = 0;       // what the simulated chip keeps between two steps
};

/// Takes a closed window down the road, up to a program that is ready to run. Happens on
/// the executing thread, so that the recording thread pays for an append and a hand-over
/// only.
void prepare_program(WindowProgram& program, Road& road);

}  // namespace neuron::lazy
