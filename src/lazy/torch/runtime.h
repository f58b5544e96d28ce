// Runtime: the cores of this process, and the calling thread's current device and stream.
#pragma once

#include <c10/core/Device.h>

#include "lazy/core.h"

namespace neuron::lazy {

/// Number of cores that the process may use. Reads the knobs, starts nothing; safe after
/// fork.
int device_count() noexcept;

/// What one device is on the simulated chip, by the knobs.
device::LogicalCore logical_core();

/// True once a core was used.
bool is_started() noexcept;

/// True in a child that was forked after the parent had started a core.
bool in_bad_fork() noexcept;

/// The core of device `index` (-1: the current one). Starts it on first use. Raises for
/// an index out of range, a bad knob, or a forked child.
Core& core_at(int index);

/// All started cores and the compiler are shut down: pending work is dropped, threads
/// end.
void shut_down();

/// The compiler of the process; nullptr before the first core has started, or when
/// kernels are not to be compiled.
Compiler* compiler() noexcept;

/// Waits for all work of all started cores and raises the earliest stored error.
void synchronize_all();

/// Milliseconds of this machine's time between two events with timing, given as
/// `torch.Event.event_id`; waits for both.
double elapsed_wall_time(void* first, void* second);

int current_device() noexcept;
void set_current_device(int index);
uint32_t current_stream(int index) noexcept;
void set_current_stream(int index, uint32_t stream);

/// The device with its index filled in; raises for other device types and bad indices.
c10::Device resolve_device(c10::Device device);

/// Raises the Python exception that belongs to `error`; returns when it is nullptr. Warns
/// of what other threads had to say.
void raise_error(const ErrorPtr& error);
void raise_if_failed(const Status& status);

}  // namespace neuron::lazy
