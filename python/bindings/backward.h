// The engine as Python calls it: the lean loop, or else what stood there before.
#pragma once

#include <pybind11/pybind11.h>

namespace neuron::bindings {

/// Adds `run_backward`, `set_original_engine`, the switch and the counters to the module.
void add_backward(pybind11::module_& m);

}  // namespace neuron::bindings
