// Embedding tables.
#include "lazy/torch/shapes/arguments.h"
#include "lazy/torch/shapes/table.h"

namespace neuron::lazy::shapes {
namespace {

void check_indices(const at::Tensor& t, const char* name, const char* op) {
  TORCH_CHECK(t.scalar_type() == at::kLong || t.scalar_type() == at::kInt,
              "Expected tensor for argument #1 '", name,
              "' to have one of the following scalar "
              "types: Long, Int; but got ",
              t.toString(), " instead (while checking arguments for ", op, ")");
}

void embedding(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& weight = tensor(args[0]);
  const at::Tensor& indices = tensor(args[1]);
  TORCH_CHECK(weight.dim() == 2, "'weight' must be 2-D");
  check_indices(indices, "indices", "embedding");
  at::DimVector sizes(indices.sizes());
  sizes.push_back(weight.size(1));
  out.set(0, sizes, weight.scalar_type());
}

void embedding_dense_backward(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& grad = tensor(args[0]);
  check_indices(tensor(args[1]), "indices", "embedding_backward");
  out.set(0, {args[2].toInt(), grad.size(-1)}, grad.scalar_type());
}

void embedding_renorm(const IValue* args, ShapeOutputs&) {
  TORCH_CHECK(tensor(args[0]).dim() == 2, "'self' must be 2-D");
  check_indices(tensor(args[1]), "indices", "embedding_renorm_");
}

enum Mode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

template <bool kForwardOnly>
void embedding_bag(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& weight = tensor(args[0]);
  const at::Tensor& indices = tensor(args[1]);
  const at::Tensor& offsets = tensor(args[2]);
  const int64_t mode = args[4].toInt();
  const bool has_last = args[7].toBool();
  TORCH_CHECK(indices.dim() == 1 || indices.dim() == 2,
              "input has to be a 1D or 2D Tensor, but got Tensor of dimension ",
              indices.dim());
  if (indices.dim() == 1) {
    TORCH_CHECK(offsets.dim() == 1,
                "offsets has to be a 1D Tensor, but got Tensor of dimension ",
                offsets.dim());
  }
  TORCH_CHECK(weight.dim() == 2,
              "weight has to be a 2D Tensor, but got Tensor of dimension ", weight.dim());
  check_indices(indices, "indices", "embedding_bag");
  const at::ScalarType index_dtype =
      indices.scalar_type() == offsets.scalar_type() ? indices.scalar_type() : at::kLong;
  const auto per_sample = maybe_tensor(args[6]);
  if (per_sample.has_value()) {
    TORCH_CHECK(mode == kSum,
                "embedding_bag: per_sample_weights was not None. "
                "per_sample_weights is only supported for mode='sum' (got mode='",
                mode == kMean ? "mean" : "max", "').");
    TORCH_CHECK(
        per_sample->dim() == 1 && per_sample->numel() == indices.numel(),
        "embedding_bag: If per_sample_weights is specified, it must have the same number "
        "of elements as indices");
  }
  int64_t bags = offsets.size(0);
  if (has_last) {
    TORCH_CHECK(bags >= 1, "include_last_offset: number of offset should be at least 1");
    --bags;
  }
  const int64_t width = weight.size(1);
  out.set(0, {bags, width}, weight.scalar_type());
  // What backward needs: the bag of each index, the sizes of the bags, the winners of
  // max. The fast sum does without the first.
  const at::ScalarType dtype = weight.scalar_type();
  const bool is_fast =
      (dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16) &&
      weight.stride(1) == 1 && args[8].toInt() < 0 &&
      (!per_sample.has_value() || per_sample->stride(0) == 1);
  out.set(1, {is_fast && mode == kSum ? 0 : indices.numel()}, index_dtype);
  // Without a backward the sum keeps no sizes, only room for them.
  const int64_t kept = kForwardOnly && mode == kSum ? offsets.size(0) : bags;
  out.set(2, {kept}, index_dtype);
  if (mode == kMax) {
    out.set(3, {bags, width}, index_dtype);
  } else {
    out.set(3, {kept}, index_dtype);
  }
}

void embedding_bag_dense_backward(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& grad = tensor(args[0]);
  out.set(0, {args[5].toInt(), grad.size(1)}, grad.scalar_type());
}

void embedding_bag_backward(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& grad = tensor(args[0]);
  TORCH_CHECK(!args[9].toBool(), "embedding_bag: sparse gradients are not supported");
  out.set(0, {args[6].toInt(), grad.size(1)}, grad.scalar_type());
}

void embedding_bag_weights_backward(const IValue* args, ShapeOutputs& out) {
  out.set(0, {tensor(args[2]).size(0)}, tensor(args[0]).scalar_type());
}

}  // namespace

Rows embedding_rows() {
  static constexpr Row rows[] = {
      {"aten::embedding", &embedding},
      {"aten::embedding_dense_backward", &embedding_dense_backward},
      {"aten::embedding_renorm_", &embedding_renorm},
      {"aten::_embedding_bag", &embedding_bag<false>},
      {"aten::_embedding_bag_forward_only", &embedding_bag<true>},
      {"aten::_embedding_bag_backward", &embedding_bag_backward},
      {"aten::_embedding_bag_dense_backward", &embedding_bag_dense_backward},
      {"aten::_embedding_bag_per_sample_weights_backward",
       &embedding_bag_weights_backward},
  };
  return rows;
}

}  // namespace neuron::lazy::shapes
