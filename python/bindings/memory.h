// What is alive on a device, for the module `_C`.
#pragma once

#include <pybind11/pybind11.h>

namespace neuron::bindings {

/// Adds record_memory_sites and live_memory.
void add_memory_functions(pybind11::module_& m);

}  // namespace neuron::bindings
