#include "bindings/memory.h"

#include "lazy/torch/runtime.h"

namespace py = pybind11;

namespace neuron::bindings {
namespace {

void record_memory_sites(int device, bool records) {
  lazy::core_at(device).memory().record_sites(records);
}

// (address, bytes asked for, bytes charged, whether a tensor sees it, line or "").
py::list live_memory(int device) {
  std::vector<device::LiveBuffer> live;
  {
    py::gil_scoped_release release;
    live = lazy::core_at(device).memory().live();
  }
  py::list rows;
  for (const device::LiveBuffer& buffer : live) {
    const bool is_known = buffer.site.code != nullptr;
    rows.append(py::make_tuple(buffer.address, buffer.nbytes, buffer.charged,
                               buffer.is_alive,
                               is_known ? describe_site(buffer.site) : std::string()));
  }
  return rows;
}

}  // namespace

void add_memory_functions(py::module_& m) {
  m.def("record_memory_sites", &record_memory_sites);
  m.def("live_memory", &live_memory);
}

}  // namespace neuron::bindings
