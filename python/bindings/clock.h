// The simulated clock and chip for the module `_C`.
#pragma once

#include <pybind11/pybind11.h>

namespace neuron::bindings {

/// Adds clock_counts, elapsed_wall_time, set_dry, is_dry, target and target_figures.
void add_clock_functions(pybind11::module_& m);

}  // namespace neuron::bindings
