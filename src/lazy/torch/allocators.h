// Registration of the allocators, and what the hooks ask about pinned memory.
#pragma once

#include <c10/core/Allocator.h>

namespace neuron::lazy {

void register_allocators();
c10::Allocator* pinned_allocator();
/// Whether `address` lies in memory that `pinned_allocator` gave out.
bool is_pinned_address(const void* address);

}  // namespace neuron::lazy
