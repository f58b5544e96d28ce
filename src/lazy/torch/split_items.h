// Library calls whose results are made item by item of some dimension.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>

#include "lazy/torch/split_calls.h"

namespace neuron::lazy {

/// nullptr for an op that has no row in split_items.def.
std::unique_ptr<CpuCall> find_itemwise_call(const c10::OperatorHandle& op);

}  // namespace neuron::lazy
