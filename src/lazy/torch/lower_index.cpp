// Lowerings of ops that pick rows by index, and of their gradients.
#include <ATen/core/List.h>

#include <limits>

#include "fusion/kernels/rows.h"
#include "lazy/torch/lower.h"
#include "lazy/torch/row_node.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {
namespace {

using at::Tensor;
using fusion::RowUpdate;
using ir::Native;

constexpr int64_t kWraps = 256;
constexpr int64_t kNoIndex = std::numeric_limits<int64_t>::min();

// A tensor of the device, in row-major order, with something in it.
bool is_table(const Tensor& tensor) {
  return is_neuron(tensor) && tensor.is_contiguous() && tensor.numel() > 0 &&
         !tensor.is_conj() && !tensor.is_neg() && !tensor.is_complex();
}

bool is_index(const Tensor& tensor) {
  return is_table(tensor) &&
         (tensor.scalar_type() == at::kLong || tensor.scalar_type() == at::kInt);
}

bool is_added(const Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
}

bool gather(const LowerArgs& a, const Tensor& table, const Tensor& index, bool wraps) {
  const Tensor& out = a.outputs.get(0);
  if (table.dim() == 0 || !is_table(table) || !is_index(index) || !is_table(out) ||
      out.dtype() != table.dtype()) {
    return false;
  }
  RowNode node(a.op, Native::kGatherRows);
  node.read(table);
  node.read(index);
  node.write(out);
  node.set_integer(0, wraps ? kWraps : 0);
  node.record();
  return true;
}

// `rows` has the sizes of `index`, then those of a row of `table`.
bool are_rows_of(const Tensor& rows, const Tensor& index, const Tensor& table) {
  if (!is_table(rows) || rows.dtype() != table.dtype() ||
      rows.dim() != index.dim() + table.dim() - 1) {
    return false;
  }
  return rows.sizes().slice(0, index.dim()) == index.sizes() &&
         rows.sizes().slice(index.dim()) == table.sizes().slice(1);
}

bool scatter(const LowerArgs& a, RowUpdate update, const Tensor& rows,
             const Tensor& index, bool wraps, int64_t skipped) {
  const Tensor& table = a.outputs.get(0);
  if (table.dim() == 0 || !is_table(table) || !is_index(index) ||
      !are_rows_of(rows, index, table) || rows.is_alias_of(table) ||
      (update != RowUpdate::kAssign && !is_added(table))) {
    return false;
  }
  RowNode node(a.op, Native::kScatterRows);
  node.read(rows);
  node.read(index);
  if (update == RowUpdate::kAddToZero) {
    node.write(table);
  } else {
    node.update(table);
  }
  node.set_integer(0, static_cast<int64_t>(update) + (wraps ? kWraps : 0));
  node.set_integer(1, skipped);
  node.record();
  return true;
}

// embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)
bool lower_embedding(const LowerArgs& a) {
  return gather(a, a.args[0].toTensor(), a.args[1].toTensor(), /*wraps=*/false);
}

// embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq)
bool lower_embedding_backward(const LowerArgs& a) {
  if (a.args[4].toBool()) return false;
  return scatter(a, RowUpdate::kAddToZero, a.args[0].toTensor(), a.args[1].toTensor(),
                 /*wraps=*/false, a.args[3].toInt());
}

// index_select(self, dim, index)
bool lower_index_select(const LowerArgs& a) {
  const Tensor& self = a.args[0].toTensor();
  const int64_t dim = a.args[1].toInt();
  if (dim != 0 && dim != -self.dim()) return false;
  return gather(a, self, a.args[2].toTensor(), /*wraps=*/false);
}

// index_add(self, dim, index, source, alpha), in place
bool lower_index_add(const LowerArgs& a) {
  const Tensor& self = a.args[0].toTensor();
  const int64_t dim = a.args[1].toInt();
  if (!a.outputs.is_provided(0) || !a.outputs.get(0).is_same(self) ||
      (dim != 0 && dim != -self.dim()) || a.args[4].toScalar().toDouble() != 1) {
    return false;
  }
  return scatter(a, RowUpdate::kAdd, a.args[3].toTensor(), a.args[2].toTensor(),
                 /*wraps=*/false, kNoIndex);
}

// The only index of an index argument, if it is for the first dimension; else undefined.
Tensor only_index(const c10::IValue& indices) {
  Tensor found;
  size_t position = 0;
  for (const auto& entry : indices.toListRef()) {
    if (entry.isTensor() && entry.toTensor().defined()) {
      if (position > 0) return {};
      found = entry.toTensor();
    }
    ++position;
  }
  return found;
}

// index(self, indices)
bool lower_index(const LowerArgs& a) {
  const Tensor index = only_index(a.args[1]);
  return index.defined() && gather(a, a.args[0].toTensor(), index, /*wraps=*/true);
}

// _index_put_impl_(self, indices, values, accumulate, unsafe)
bool lower_index_put(const LowerArgs& a) {
  const Tensor index = only_index(a.args[1]);
  if (!index.defined() || !a.outputs.is_provided(0) ||
      !a.outputs.get(0).is_same(a.args[0].toTensor())) {
    return false;
  }
  const RowUpdate update = a.args[3].toBool() ? RowUpdate::kAdd : RowUpdate::kAssign;
  return scatter(a, update, a.args[2].toTensor(), index, /*wraps=*/true, kNoIndex);
}

}  // namespace

const LowerTable& index_lowerings() {
  static const LowerTable* made = new LowerTable{
      {"aten::embedding", &lower_embedding},
      {"aten::embedding_dense_backward", &lower_embedding_backward},
      {"aten::index_select", &lower_index_select},
      {"aten::index_add", &lower_index_add},
      {"aten::index", &lower_index},
      {"aten::_index_put_impl_", &lower_index_put},
  };
  return *made;
}

}  // namespace neuron::lazy
