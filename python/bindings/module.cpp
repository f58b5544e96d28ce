// The Python module `torch_neuronx._C`: a thin skin over the runtime.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>

#include <map>

#include "base/knobs.h"
#include "base/parallel.h"
#include "bindings/backward.h"
#include "bindings/clock.h"
#include "bindings/memory.h"
#include "bindings/explain.h"
#include "bindings/shapes.h"
#include "bindings/site.h"
#include "lazy/torch/generator.h"
#include "lazy/torch/record.h"
#include "lazy/torch/runtime.h"

namespace py = pybind11;
namespace lazy = neuron::lazy;

namespace {

// Counters of all cores together.
py::dict window_report() {
  uint64_t ops = 0, windows = 0;
  py::dict ends, lines, line_ops, host_ops;
  constexpr int kEnds = static_cast<int>(lazy::WindowEnd::kCount);
  uint64_t counts[kEnds] = {};
  std::vector<lazy::Stats::Line> all_lines;
  for (int i = 0; lazy::is_started() && i < lazy::device_count(); ++i) {
    const lazy::Stats stats = lazy::core_at(i).stats();
    ops += stats.ops();
    windows += stats.windows();
    for (int end = 0; end < kEnds; ++end) {
      counts[end] += stats.ends(static_cast<lazy::WindowEnd>(end));
    }
    for (const auto& line : stats.lines()) all_lines.push_back(line);
  }
  for (int i = 0; i < kEnds; ++i) {
    const auto end = static_cast<lazy::WindowEnd>(i);
    if (counts[i] == 0) continue;
    ends[lazy::window_end_name(end)] = counts[i];
  }
  // Several instructions may stand on one line.
  std::map<std::pair<std::string, lazy::WindowEnd>, std::pair<uint64_t, uint64_t>>
      by_place;
  for (const auto& line : all_lines) {
    auto& [windows, recorded] = by_place[{neuron::describe_site(line.site), line.end}];
    windows += line.count;
    recorded += line.ops;
  }
  for (const auto& [key, counts] : by_place) {
    const py::str name(key.first + " " + lazy::window_end_name(key.second));
    lines[name] = counts.first;
    line_ops[name] = counts.second;
  }
  for (const auto& [name, count] : lazy::executed_ops(/*on_host=*/true)) {
    host_ops[py::str(name)] = count;
  }
  py::dict report;
  report["windows"] = windows;
  report["ops"] = ops;
  report["ends"] = ends;
  report["lines"] = lines;
  report["line_ops"] = line_ops;
  report["host_ops"] = host_ops;
  return report;
}

// Kernels of all cores, and what the compiler did.
py::dict compile_report() {
  uint64_t hits = 0, misses = 0, executable_hits = 0, executable_misses = 0;
  for (int i = 0; lazy::is_started() && i < lazy::device_count(); ++i) {
    const neuron::cache::KernelCache& cache = lazy::core_at(i).kernels();
    hits += cache.hits();
    misses += cache.misses();
    executable_hits += lazy::core_at(i).executables().hits();
    executable_misses += lazy::core_at(i).executables().misses();
  }
  const lazy::Compiler* compiler = lazy::compiler();
  const lazy::CompileCounts counts =
      compiler == nullptr ? lazy::CompileCounts{} : compiler->counts();
  py::dict report;
  report["kernel_hits"] = hits;
  report["kernel_misses"] = misses;
  report["executable_hits"] = executable_hits;
  report["executable_misses"] = executable_misses;
  report["compiles"] = counts.compiles;
  report["failures"] = counts.failures;
  report["disk_hits"] = counts.disk_hits;
  report["disk_misses"] = counts.disk_misses;
  report["waiting"] = counts.waiting;
  report["seconds"] = static_cast<double>(counts.nanoseconds) * 1e-9;
  return report;
}

// The reasons why windows end, each with its explanation.
py::list window_ends() {
  py::list rows;
  for (int i = 0; i < static_cast<int>(lazy::WindowEnd::kCount); ++i) {
    const auto end = static_cast<lazy::WindowEnd>(i);
    rows.append(py::make_tuple(lazy::window_end_name(end), lazy::window_end_help(end)));
  }
  return rows;
}

void reset_window_report() {
  for (int i = 0; lazy::is_started() && i < lazy::device_count(); ++i) {
    lazy::core_at(i).reset_stats();
  }
}

void flush_everything(lazy::WindowEnd end) {
  for (int i = 0; lazy::is_started() && i < lazy::device_count(); ++i) {
    lazy::core_at(i).flush_all(end);
  }
}

void set_adaptive(bool enabled) {
  lazy::core_at(-1);
  if (lazy::modes().adaptive.exchange(enabled) != enabled) {
    flush_everything(lazy::WindowEnd::kModeSwitch);
  }
}

bool is_adaptive() {
  return lazy::is_started() ? lazy::modes().adaptive.load()
                            : neuron::knobs().adaptive_eager;
}

py::list list_knobs() {
  py::list rows;
  for (const neuron::KnobInfo& knob : neuron::list_knobs()) {
    rows.append(
        py::make_tuple(knob.name, knob.env, knob.value, knob.default_value, knob.help));
  }
  return rows;
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  neuron::bindings::install_hooks();
  py::register_local_exception_translator([](std::exception_ptr exception) {
    try {
      if (exception) std::rethrow_exception(exception);
    } catch (const c10::Error&) {
      torch::translate_exception_to_python(exception);
    }
  });
  using Released = py::call_guard<py::gil_scoped_release>;
  m.def("device_count", &lazy::device_count);
  m.def("is_initialized", &lazy::is_started);
  m.def("init", [] { lazy::core_at(-1); }, Released());
  m.def("in_bad_fork", &lazy::in_bad_fork);
  m.def("knob_errors", [] { return neuron::knob_report().errors; });
  m.def("knob_warnings", [] { return neuron::knob_report().warnings; });
  m.def("synchronize", torch::wrap_pybind_function_no_gil([](int device) {
          lazy::raise_error(lazy::core_at(device).synchronize());
        }),
        py::arg("device") = -1);
  m.def("set_adaptive_eager", &set_adaptive, Released());
  m.def("is_adaptive_eager", &is_adaptive);
  m.def("set_launch_blocking", [](bool enabled) {
    lazy::core_at(-1);
    lazy::modes().blocking.store(enabled);
  });
  m.def("is_launch_blocking", [] {
    return lazy::is_started() ? lazy::modes().blocking.load()
                              : neuron::knobs().launch_blocking;
  });
  m.def("executed_ops", [] { return lazy::executed_ops(/*on_host=*/false); });
  m.def("fallback_ops", [] { return lazy::executed_ops(/*on_host=*/true); });
  m.def("clear_op_tracking", &lazy::clear_op_tracking);
  m.def("window_report", &window_report);
  m.def("window_ends", &window_ends);
  m.def("compile_report", &compile_report);
  m.def("reset_window_report", &reset_window_report);
  m.def("default_generator", [](int index) {
    return py::reinterpret_steal<py::object>(
        THPGenerator_initDefaultGenerator(lazy::default_generator(index)));
  });
  m.def(
      "memory_total",
      [](int device) { return lazy::core_at(device).memory().capacity(); },
      py::arg("device") = -1);
  m.def("default_stream", [](int device) {
    const c10::Device full =
        lazy::resolve_device({c10::kPrivateUse1, static_cast<c10::DeviceIndex>(device)});
    return py::make_tuple(0, static_cast<int>(full.index()),
                          static_cast<int>(c10::kPrivateUse1));
  });
  m.def("knobs", &list_knobs);
  m.def("_set_num_threads", &neuron::set_num_threads);
  m.def("shutdown", &lazy::shut_down, Released());
  neuron::bindings::add_backward(m);
  neuron::bindings::add_clock_functions(m);
  neuron::bindings::add_memory_functions(m);
  neuron::bindings::add_shape_functions(m);
  neuron::bindings::add_explanations(m);
}
