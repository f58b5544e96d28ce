// Shape functions for tests, callable from Python.
#pragma once

#include <pybind11/pybind11.h>

namespace neuron::bindings {

/// Adds `_infer_shapes(name, arguments)` to the module.
void add_shape_functions(pybind11::module_& m);

}  // namespace neuron::bindings
