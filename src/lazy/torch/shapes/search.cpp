// Binary search, and sorting that is not structured.
#include "lazy/torch/shapes/arguments.h"
#include "lazy/torch/shapes/table.h"

namespace neuron::lazy::shapes {
namespace {

at::ScalarType index_dtype(bool out_int32) { return out_int32 ? at::kInt : at::kLong; }

void check_out_dtype(const ShapeOutputs& out, bool out_int32) {
  if (!out.is_provided(0)) return;
  const at::ScalarType given = out.get(0).scalar_type();
  TORCH_CHECK(
      (given == at::kInt && out_int32) || (given == at::kLong && !out_int32),
      "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) "
      "or Long(int64) depending on whether out_int32 flag is True, but we got output "
      "tensor's dtype ",
      given, " and out_int32 flag is ", out_int32 ? "True" : "False");
}

void check_side(const IValue& right, const IValue& side) {
  if (side.isNone()) return;
  const auto text = side.toStringView();
  TORCH_CHECK(text == "left" || text == "right",
              "torch.searchsorted(): side can only be 'left' "
              "or 'right' but got ",
              text);
  TORCH_CHECK(!(right.toBool() && text == "left"),
              "torch.searchsorted(): side and right can't "
              "be set to opposites, got side of left while right was True");
}

void searchsorted(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& boundaries = tensor(args[0]);
  const bool out_int32 = args[2].toBool();
  check_side(args[3], args[4]);
  TORCH_CHECK(boundaries.dim() != 0,
              "torch.searchsorted(): boundaries tensor should have "
              "positive dimension, but got 0 dimension");
  const auto sorter = maybe_tensor(args[5]);
  if (sorter.has_value()) {
    TORCH_CHECK(sorter->sizes() == boundaries.sizes(),
                "torch.searchsorted(): boundary and sorter "
                "must have the same size, but got boundary tensor ",
                boundaries.sizes(), "and got sorter tensor ", sorter->sizes());
    TORCH_CHECK(sorter->scalar_type() == at::kLong,
                "torch.searchsorted(): sorter must be a "
                "tensor of long dtype but got dtype ",
                sorter->scalar_type());
  }
  if (args[1].isTensor()) {
    const at::Tensor& self = tensor(args[1]);
    const auto same_but_last = [](at::IntArrayRef a, at::IntArrayRef b) {
      return a.size() == b.size() && a.slice(0, a.size() - 1) == b.slice(0, b.size() - 1);
    };
    TORCH_CHECK(
        self.dim() > 0 || (boundaries.dim() == 1 && self.numel() == 1),
        "torch.searchsorted(): input value can be a scalar only when boundaries tensor "
        "dimension is 1, but we got boundaries tensor dim(",
        boundaries.dim(), ") and input value's dim(", self.dim(), ") numel(",
        self.numel(), ")");
    TORCH_CHECK(
        boundaries.dim() == 1 || same_but_last(boundaries.sizes(), self.sizes()),
        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
        "dimensions of boundaries tensor and input value tensor must match, but we got "
        "boundaries tensor ",
        boundaries.sizes(), " and input value tensor ", self.sizes());
    check_out_dtype(out, out_int32);
    return out.set(0, self.sizes(), index_dtype(out_int32));
  }
  TORCH_CHECK(boundaries.dim() == 1,
              "torch.searchsorted(): input value can be a scalar only when "
              "boundaries tensor dimension is 1, but we got boundaries tensor dim(",
              boundaries.dim(), ") and input value's dim(0) numel(1)");
  check_out_dtype(out, out_int32);
  out.set(0, {}, index_dtype(out_int32));
}

void bucketize(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& boundaries = tensor(args[1]);
  TORCH_CHECK(boundaries.dim() == 1,
              "boundaries tensor must be 1 dimension, but got dim(", boundaries.dim(),
              ")");
  const bool out_int32 = args[2].toBool();
  check_out_dtype(out, out_int32);
  const at::IntArrayRef sizes =
      args[0].isTensor() ? tensor(args[0]).sizes() : at::IntArrayRef();
  out.set(0, sizes, index_dtype(out_int32));
}

}  // namespace

Rows search_rows() {
  static constexpr Row rows[] = {
      {"aten::searchsorted.Tensor", &searchsorted},
      {"aten::searchsorted.Tensor_out", &searchsorted},
      {"aten::searchsorted.Scalar", &searchsorted},
      {"aten::searchsorted.Scalar_out", &searchsorted},
      {"aten::bucketize.Tensor", &bucketize},
      {"aten::bucketize.Tensor_out", &bucketize},
      {"aten::bucketize.Scalar", &bucketize},
  };
  return rows;
}

}  // namespace neuron::lazy::shapes
