#include "bindings/explain.h"

#include <pybind11/stl.h>

#include <functional>

#include "base/bisect.h"
#include "base/notices.h"
#include "lazy/capture.h"
#include "lazy/fault.h"
#include "lazy/journal.h"
#include "lazy/torch/deny.h"
#include "lazy/torch/runtime.h"
#include "lazy/torch/sync_debug.h"

namespace py = pybind11;
namespace lazy = neuron::lazy;

namespace neuron::bindings {
namespace {

using Released = py::call_guard<py::gil_scoped_release>;

// The line alone, without the stack that errors show.
std::string line_of(const Site& site) {
  return describe_site({site.code, site.instruction, 0});
}

py::object value_of(const lazy::JournalEntry::Value& value) {
  if (const auto* site = std::get_if<Site>(&value)) return py::str(line_of(*site));
  if (const auto* text = std::get_if<std::string>(&value)) return py::str(*text);
  if (const auto* real = std::get_if<double>(&value)) return py::float_(*real);
  return py::int_(std::get<int64_t>(value));
}

py::dict kernel_of(const lazy::CapturedKernel& kernel) {
  py::dict made;
  made["ops"] = kernel.ops;
  made["is_fused"] = kernel.is_fused;
  made["numel"] = kernel.numel;
  made["code"] = kernel.is_fused ? ir::print_code(kernel.code) : "";
  return made;
}

py::dict window_of(const lazy::CapturedWindow& window) {
  py::list lines, kernels;
  for (const Site& site : window.sites) lines.append(line_of(site));
  for (const lazy::CapturedKernel& kernel : window.kernels) {
    kernels.append(kernel_of(kernel));
  }
  py::dict made;
  made["device"] = window.device;
  made["stream"] = window.stream;
  made["window"] = window.number;
  made["ir"] = window.ir;
  made["lines"] = lines;
  made["plan"] = window.plan;
  made["kernels"] = kernels;
  return made;
}

// An entry as a dict; lines of Python become text here, where the GIL is held.
py::dict entry_of(const lazy::JournalEntryPtr& entry) {
  py::dict made;
  made["topic"] = lazy::topic_name(entry->topic);
  made["event"] = entry->event;
  for (const auto& [name, value] : entry->values) made[name] = value_of(value);
  if (entry->window != nullptr) {
    made.attr("update")(window_of(*entry->window));
    made["handle"] = py::cast(entry->window);
  }
  return made;
}

uint32_t topics_of(const std::vector<std::string>& names) {
  uint32_t topics = 0;
  for (const std::string& name : names) {
    int topic = 0;
    while (topic < static_cast<int>(lazy::Topic::kCount) &&
           name != lazy::topic_name(static_cast<lazy::Topic>(topic))) {
      ++topic;
    }
    if (topic == static_cast<int>(lazy::Topic::kCount)) {
      throw py::value_error("[journal] no such topic: got '" + name +
                            "', expected windows, fusion, cache, compile or fallback");
    }
    topics |= uint32_t{1} << topic;
  }
  return topics;
}

std::string kernel_text(const std::shared_ptr<const lazy::CapturedWindow>& window,
                        size_t kernel, bool is_assembly) {
  const ir::PointwiseCode& code = window->kernels.at(kernel).code;
  return is_assembly ? lazy::assembly_text_of(code) : lazy::llvm_text_of(code);
}

void for_each_core(const std::function<void(lazy::Core&)>& visit) {
  for (int i = 0; lazy::is_started() && i < lazy::device_count(); ++i) {
    visit(lazy::core_at(i));
  }
}

// Runs all that was recorded; errors stay where they are.
void drain() {
  for_each_core([](lazy::Core& core) {
    core.flush_all(lazy::WindowEnd::kSynchronize);
    core.queue().drain();
  });
}

// What is recorded keeps the old limits.
void set_limits(int64_t flush_every, int64_t max_fused_ops) {
  for_each_core([](lazy::Core& core) {
    core.flush_all(lazy::WindowEnd::kModeSwitch);
    core.queue().drain();
  });
  bisect_switches().flush_every = flush_every;
  bisect_switches().max_fused_ops = max_fused_ops;
  // Empty windows take their limit anew.
  for_each_core([](lazy::Core& core) { core.flush_all(lazy::WindowEnd::kModeSwitch); });
}

void add_test_hooks(py::module_& m) {
  m.def("_set_fault", [](const std::string& fault, const std::string& op) {
    lazy::set_fault(fault == "wrong"   ? lazy::Fault::kWrongCode
                    : fault == "throw" ? lazy::Fault::kThrow
                                       : lazy::Fault::kNone,
                    op);
  });
  m.def("_fail_compiles", [](bool fails) {
    lazy::core_at(-1);
    if (lazy::compiler() != nullptr) lazy::compiler()->fail_on_purpose(fails);
  });
}

}  // namespace

void add_explanations(py::module_& m) {
  using Window = lazy::CapturedWindow;
  py::class_<Window, std::shared_ptr<Window>>(m, "CapturedWindow");
  py::class_<lazy::JournalReader>(m, "JournalReader")
      .def(py::init([](const std::vector<std::string>& names) {
        return std::make_unique<lazy::JournalReader>(topics_of(names));
      }))
      .def("take",
           [](lazy::JournalReader& reader) {
             py::list entries;
             for (const auto& entry : reader.take()) entries.append(entry_of(entry));
             return entries;
           })
      .def("wait", &lazy::JournalReader::wait, Released())
      .def("close", &lazy::JournalReader::close)
      .def("num_lost", &lazy::JournalReader::num_lost);
  m.def("_kernel_text", &kernel_text, Released());
  m.def("drain", &drain, Released());
  m.def("set_limits", &set_limits, Released());
  m.def("limits", [] {
    return std::make_pair(bisect_switches().flush_every.load(),
                          bisect_switches().max_fused_ops.load());
  });
  m.def("set_denied_ops", &lazy::set_denied_ops);
  m.def("denied_ops", &lazy::denied_ops);
  m.def("set_sync_debug_mode",
        [](int mode) { lazy::sync_debug_mode() = static_cast<lazy::SyncDebug>(mode); });
  m.def("sync_debug_mode",
        [] { return static_cast<int>(lazy::sync_debug_mode().load()); });
  m.def("take_notices", [] { return take_notices(); });
  add_test_hooks(m);
}

}  // namespace neuron::bindings
