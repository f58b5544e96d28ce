#include "bindings/clock.h"

#include <pybind11/stl.h>

#include "base/knobs.h"
#include "device/target.h"
#include "lazy/torch/runtime.h"

namespace py = pybind11;

namespace neuron::bindings {
namespace {

// Waits for the device. Times in ns.
py::dict clock_counts(int device) {
  device::ClockCounts counts;
  {
    py::gil_scoped_release release;
    counts = lazy::core_at(device).clock();
  }
  const device::LogicalCore core = lazy::logical_core();
  const auto per_launch = [&](double count) {
    return counts.launches * static_cast<uint64_t>(count);
  };
  py::dict report;
  report["now"] = counts.now;
  report["host"] = counts.host;
  report["queue"] = counts.queue;
  report["dma"] = counts.dma;
  constexpr const char* kNames[device::kNumEngines] = {"tensor", "vector", "scalar",
                                                       "gpsimd"};
  for (int e = 0; e < device::kNumEngines; ++e) report[kNames[e]] = counts.engines[e];
  report["ops"] = counts.ops;
  report["launches"] = counts.launches;
  report["swaps"] = counts.swaps;
  report["host_ops"] = counts.host_ops;
  report["bytes_read"] = counts.bytes_read;
  report["bytes_written"] = counts.bytes_written;
  report["bytes_to_device"] = counts.bytes_to_device;
  report["bytes_to_host"] = counts.bytes_to_host;
  report["executions"] = per_launch(core.cores);
  report["copy_ins"] = per_launch(core.target->copy_ins_per_launch);
  report["allocations"] = per_launch(core.target->allocations_per_launch);
  return report;
}

double elapsed_wall_time(uintptr_t first, uintptr_t second) {
  py::gil_scoped_release release;
  return lazy::elapsed_wall_time(reinterpret_cast<void*>(first),
                                 reinterpret_cast<void*>(second));
}

// What is pending still runs as it was recorded.
void set_dry(bool is_dry) {
  lazy::core_at(-1);
  for (int i = 0; i < lazy::device_count(); ++i) {
    lazy::core_at(i).set_dry(is_dry);
  }
}

bool is_dry() {
  return lazy::is_started() ? lazy::core_at(-1).queue().is_dry() : knobs().dry;
}

py::tuple target() {
  const device::LogicalCore core = lazy::logical_core();
  return py::make_tuple(core.target->name, static_cast<int>(core.target->core_version),
                        core.cores);
}

py::list target_figures() {
  py::list rows;
  for (const auto& figure : device::figures_of(*lazy::logical_core().target)) {
    rows.append(py::make_tuple(figure.name, figure.value, figure.unit, figure.source));
  }
  return rows;
}

}  // namespace

void add_clock_functions(py::module_& m) {
  m.def("clock_counts", &clock_counts);
  m.def("elapsed_wall_time", &elapsed_wall_time);
  m.def("set_dry", &set_dry, py::call_guard<py::gil_scoped_release>());
  m.def("is_dry", &is_dry);
  m.def("target", &target);
  m.def("target_figures", &target_figures);
}

}  // namespace neuron::bindings
