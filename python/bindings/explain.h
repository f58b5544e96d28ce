// The part of the module that explains: journal, captured windows, switches to bisect.
#pragma once

#include <pybind11/pybind11.h>

namespace neuron::bindings {

void add_explanations(pybind11::module_& m);

}  // namespace neuron::bindings
