#include "bindings/shapes.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <pybind11/stl.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "lazy/torch/aten_call.h"
#include "lazy/torch/shape.h"

namespace py = pybind11;
namespace lazy = neuron::lazy;

namespace neuron::bindings {
namespace {

at::Tensor make_cpu(void*, at::IntArrayRef sizes, at::IntArrayRef strides,
                    at::ScalarType dtype) {
  const auto options = at::TensorOptions().dtype(dtype);
  return strides.empty() ? at::empty(sizes, options)
                         : at::empty_strided(sizes, strides, options);
}

// For tests: the shape function of `name` on boxed arguments; None where there is none.
py::object infer_shapes(const std::string& name, const py::tuple& arguments) {
  const lazy::ShapeFn function = lazy::find_shape_function(name);
  if (function == nullptr) return py::none();
  const size_t dot = name.find('.');
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
      name.substr(0, dot).c_str(),
      dot == std::string::npos ? "" : name.c_str() + dot + 1);
  const lazy::Recipe& recipe = lazy::recipe_of(op);
  std::vector<c10::IValue> values;
  size_t i = 0;
  for (const c10::Argument& argument : op.schema().arguments()) {
    if (i < arguments.size()) {
      values.push_back(torch::jit::toIValue(arguments[i], argument.type()));
    } else {
      values.push_back(argument.default_value().value_or(c10::IValue()));
    }
    ++i;
  }
  lazy::ShapeOutputs outputs(&make_cpu, nullptr);
  int64_t index = 0;
  for (const lazy::ReturnInfo& info : recipe.returns) {
    if (info.is_tensor && info.write_arg >= 0 && values[info.write_arg].isTensor()) {
      using Kind = lazy::ShapeOutputs::Kind;
      outputs.provide(recipe.has_out ? Kind::kOut : Kind::kInplace, index,
                      values[info.write_arg].toTensor());
    }
    ++index;
  }
  function(values.data(), outputs);
  py::list results;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const at::Tensor& tensor = outputs.get(static_cast<int64_t>(k));
    if (!tensor.defined()) {
      results.append(py::none());
      continue;
    }
    results.append(py::make_tuple(tensor.sizes().vec(), tensor.strides().vec(),
                                  std::string(c10::toString(tensor.scalar_type()))));
  }
  return results;
}

}  // namespace

void add_shape_functions(py::module_& m) { m.def("_infer_shapes", &infer_shapes); }

}  // namespace neuron::bindings
