// The deny list: ops that PyTorch's CPU kernels run although there are native ones.
#pragma once

#include <string>
#include <vector>

namespace neuron::lazy {

/// From now on these ops ("add" or "aten::add"; with their in-place and out= forms) are
/// calls of ATen, so they are neither native nor fused. Replaces the earlier list. Raises
/// for a name that has no native kernel. What is recorded already stays as it is. Not
/// while other threads call these ops.
///
/// The dispatcher's entries of the ops are replaced, so other ops pay nothing.
void set_denied_ops(const std::vector<std::string>& names);

/// The list, as full names.
std::vector<std::string> denied_ops();

}  // namespace neuron::lazy
