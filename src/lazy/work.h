// fill_work: what the steps of a bound program do on the simulated chip.
#pragma once

#include <cstdint>

#include "lazy/window.h"

namespace neuron::lazy {

/// Fills `work` of every step, and the program's signature and number of ops, from its
/// graph and plan. On the executing thread; tens of ns per step. `sbuf_bytes`: what stays
/// on the chip from one step to the next.
void fill_work(WindowProgram& program, uint64_t sbuf_bytes);

}  // namespace neuron::lazy
