// Registration with PyTorch's dispatcher; each function adds the kernels of one topic.
#pragma once

#include <torch/library.h>

#include <set>
#include <string>

namespace neuron::lazy {

/// Adds kernels to a library and remembers their names.
class Registrar {
 public:
  explicit Registrar(torch::Library& library) : library_(library) {}

  template <class Function>
  void impl(const std::string& name, Function&& function) {
    names_.insert(name);
    library_.impl(name.c_str(), std::forward<Function>(function));
  }
  bool has(const std::string& name) const { return names_.count(name) > 0; }

 private:
  torch::Library& library_;
  std::set<std::string> names_;
};

/// Kernels that only touch metadata or make tensors: empty, views, resize_, set_.
void register_metadata_ops(Registrar& m);
/// Copies between devices and reads of values.
void register_copy_ops(Registrar& m);
/// Table ops with an entry of their own, recorded without boxing.
void register_pointwise_ops(Registrar& m);
/// The same for ops with numbers, masks or more than two tensors.
void register_unboxed_ops(Registrar& m);
/// Sums and means, recorded without boxing.
void register_unboxed_rows(Registrar& m);
/// Random ops on the device's own stream.
void register_random_ops(Registrar& m);
/// Matrix products.
void register_matmul_ops(Registrar& m);
/// The backward of linear layers.
void register_linear_op(Registrar& m);
/// The backward of softmax and layer norm.
void register_norm_ops(Registrar& m);
/// Concatenation.
void register_cat_op(Registrar& m);
/// Layers of encoders.
void register_encoder_op(Registrar& m);
/// Recurrent cells.
void register_rnn_ops(Registrar& m);
/// Attention.
void register_library_ops(Registrar& m);

}  // namespace neuron::lazy
