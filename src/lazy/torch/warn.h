// Warnings of our own, which point at the user's line.
#pragma once

#include <string>

#include "base/site.h"

namespace neuron::lazy {

/// Warns as if the Python line of `site` had; an exception where warnings are errors.
void warn_at(const Site& site, std::string text);

}  // namespace neuron::lazy
