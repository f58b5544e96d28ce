#include "bindings/backward.h"

#include <ATen/TensorSubclassLikeUtils.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/utils/object_ptr.h>

#include "lazy/torch/autograd/backward.h"

namespace py = pybind11;

namespace neuron::bindings {
namespace {

using lazy::BackwardCall;
using lazy::OriginalEngine;
using torch::autograd::Edge;

// The bound method `run_backward` of the engine that stood there before.
PyObject* original_run_backward = nullptr;

// The arguments as PyTorch passes them; borrowed.
struct Arguments {
  enum { kTensors, kGrads, kKeep, kCreate, kInputs, kUnreachable, kAccumulate, kCount };
  static constexpr const char* kNames[kCount] = {
      "tensors", "grad_tensors",      "keep_graph",     "create_graph",
      "inputs",  "allow_unreachable", "accumulate_grad"};
  PyObject* values[kCount] = {};

  /// False if they are not what PyTorch passes.
  bool read(PyObject* const* args, Py_ssize_t count, PyObject* names) {
    if (count > kCount) return false;
    std::copy(args, args + count, values);
    const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    for (Py_ssize_t i = 0; i < named; ++i) {
      int at = 0;
      while (at < kCount && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i),
                                                             kNames[at]) != 0) {
        ++at;
      }
      if (at == kCount || values[at] != nullptr) return false;
      values[at] = args[count + i];
    }
    return std::all_of(values, values + kCount, [](PyObject* v) { return v != nullptr; });
  }

  bool is_true(int index) const { return values[index] == Py_True; }
  bool are_flags() const {
    for (const int index : {kKeep, kCreate, kUnreachable, kAccumulate}) {
      if (!PyBool_Check(values[index])) return false;
    }
    return true;
  }
};

bool is_plain_tensor(PyObject* object) {
  return THPVariable_Check(object) &&
         !at::isTensorSubclassLike(THPVariable_Unpack(object));
}

// The device is ours, so far as the first root says.
bool is_ours(PyObject* const* args, Py_ssize_t count) {
  if (count == 0 || !PyTuple_Check(args[0]) || PyTuple_GET_SIZE(args[0]) == 0) {
    return false;
  }
  PyObject* first = PyTuple_GET_ITEM(args[0], 0);
  return THPVariable_Check(first) &&
         THPVariable_Unpack(first).unsafeGetTensorImpl()->key_set().has_backend(
             c10::BackendComponent::PrivateUse1Bit);
}

std::optional<OriginalEngine> read_roots(PyObject* tensors, PyObject* grads,
                                         BackwardCall& call) {
  if (!PyTuple_Check(grads) || PyTuple_GET_SIZE(tensors) != PyTuple_GET_SIZE(grads)) {
    return OriginalEngine::kArguments;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); ++i) {
    PyObject* tensor = PyTuple_GET_ITEM(tensors, i);
    PyObject* grad = PyTuple_GET_ITEM(grads, i);
    if (!is_plain_tensor(tensor) || !is_plain_tensor(grad)) {
      return OriginalEngine::kArguments;
    }
    Edge edge = torch::autograd::impl::gradient_edge(THPVariable_Unpack(tensor));
    if (!edge.is_valid()) return OriginalEngine::kArguments;
    call.roots.push_back(std::move(edge));
    call.grads.push_back(THPVariable_Unpack(grad));
  }
  return std::nullopt;
}

std::optional<OriginalEngine> read_inputs(PyObject* inputs, BackwardCall& call) {
  if (!PyTuple_Check(inputs)) return OriginalEngine::kArguments;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); ++i) {
    PyObject* input = PyTuple_GET_ITEM(inputs, i);
    if (!is_plain_tensor(input)) return OriginalEngine::kArguments;
    const at::Tensor& tensor = THPVariable_Unpack(input);
    if (!tensor.requires_grad()) return OriginalEngine::kArguments;
    const auto& node = tensor.grad_fn();
    if (node != nullptr && call.accumulate) return OriginalEngine::kRetainedInput;
    call.inputs.emplace_back(
        node != nullptr ? node : torch::autograd::impl::try_get_grad_accumulator(tensor),
        static_cast<uint32_t>(tensor.output_nr()));
  }
  return std::nullopt;
}

// The gradients as a tuple.
PyObject* wrap(const torch::autograd::variable_list& grads, bool allow_unreachable) {
  THPObjectPtr tuple(PyTuple_New(static_cast<Py_ssize_t>(grads.size())));
  if (!tuple) throw python_error();
  for (size_t i = 0; i < grads.size(); ++i) {
    TORCH_CHECK(allow_unreachable || grads[i].defined(),
                "One of the differentiated Tensors appears to not have been used in the "
                "graph. Set allow_unused=True if this is the desired behavior.");
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), THPVariable_Wrap(grads[i]));
  }
  return tuple.release();
}

// nullopt: the original engine has to run it.
std::optional<PyObject*> run_lean(PyObject* const* args, Py_ssize_t count,
                                  PyObject* names) {
  if (!is_ours(args, count)) return std::nullopt;
  Arguments given;
  BackwardCall call;
  std::optional<OriginalEngine> objection;
  if (!given.read(args, count, names) || !given.are_flags()) {
    objection = OriginalEngine::kArguments;
  } else {
    call.keep_graph = given.is_true(Arguments::kKeep);
    call.create_graph = given.is_true(Arguments::kCreate);
    call.accumulate = given.is_true(Arguments::kAccumulate);
    objection = read_roots(given.values[Arguments::kTensors],
                           given.values[Arguments::kGrads], call);
    if (!objection) objection = read_inputs(given.values[Arguments::kInputs], call);
  }
  if (objection) {
    lazy::count_original_engine(*objection);
    return std::nullopt;
  }
  std::optional<torch::autograd::variable_list> grads;
  {
    const py::gil_scoped_release released;
    grads = lazy::run_lean_backward(call);
  }
  if (!grads) return std::nullopt;
  if (call.accumulate) Py_RETURN_NONE;
  return wrap(*grads, given.is_true(Arguments::kUnreachable));
}

PyObject* run_backward(PyObject*, PyObject* const* args, Py_ssize_t count,
                       PyObject* names) {
  HANDLE_TH_ERRORS
  if (const auto result = run_lean(args, count, names)) return *result;
  END_HANDLE_TH_ERRORS
  return PyObject_Vectorcall(original_run_backward, args, static_cast<size_t>(count),
                             names);
}

PyMethodDef run_backward_method = {
    "run_backward", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&run_backward)),
    METH_FASTCALL | METH_KEYWORDS, "Runs a backward pass, lean where it can."};

py::dict backward_report() {
  const lazy::BackwardCounts counts = lazy::backward_counts();
  py::dict original;
  for (size_t i = 0; i < counts.original.size(); ++i) {
    if (counts.original[i] == 0) continue;
    original[lazy::original_engine_name(static_cast<OriginalEngine>(i))] =
        counts.original[i];
  }
  py::dict report;
  report["lean"] = counts.graphs;
  report["lean_nodes"] = counts.nodes;
  report["original"] = original;
  return report;
}

py::list original_engine_reasons() {
  py::list rows;
  for (int i = 0; i < static_cast<int>(OriginalEngine::kCount); ++i) {
    const auto reason = static_cast<OriginalEngine>(i);
    rows.append(py::make_tuple(lazy::original_engine_name(reason),
                               lazy::original_engine_help(reason)));
  }
  return rows;
}

}  // namespace

void add_backward(py::module_& m) {
  m.add_object("run_backward", py::reinterpret_steal<py::object>(
                                   PyCFunction_New(&run_backward_method, nullptr)));
  m.def("set_original_engine", [](py::object engine) {
    // Kept for good: passes may run while the interpreter ends.
    original_run_backward = py::object(engine.attr("run_backward")).release().ptr();
  });
  m.def("set_lean_autograd", &lazy::set_lean_autograd);
  m.def("is_lean_autograd", &lazy::is_lean_autograd);
  m.def("backward_report", &backward_report);
  m.def("reset_backward_report", &lazy::reset_backward_counts);
  m.def("original_engine_reasons", &original_engine_reasons);
}

}  // namespace neuron::bindings
