// Batch, layer and group normalisation, dropout, masked softmax.
#include "lazy/torch/shapes/iterator.h"
#include "lazy/torch/shapes/table.h"

#include <ATen/native/ReduceOpsUtils.h>

namespace neuron::lazy::shapes {
namespace {

bool is_narrow(at::ScalarType dtype) {
  return dtype == at::kBFloat16 || dtype == at::kHalf;
}

// Statistics are float when a narrow input comes with float parameters.
at::ScalarType stats_dtype(const at::Tensor& input, at::OptionalTensorRef parameter) {
  const bool is_mixed = is_narrow(input.scalar_type()) && parameter.has_value() &&
                        parameter->scalar_type() == at::kFloat;
  return is_mixed ? at::kFloat : input.scalar_type();
}

void check_features(const at::Tensor& input, const IValue& v, const char* name) {
  const auto t = maybe_tensor(v);
  if (!t.has_value()) return;
  TORCH_CHECK(t->numel() == input.size(1), name, " should contain ", input.size(1),
              " elements not ", t->numel());
}

at::MemoryFormat batch_norm_format(const at::Tensor& input) {
  const bool is_image = input.dim() == 4 || input.dim() == 5;
  return is_image ? input.suggest_memory_format() : at::MemoryFormat::Contiguous;
}

template <bool has_stats, int T>
void batch_norm(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& input = tensor(args[0]);
  const bool training = args[T].toBool();
  if (has_stats) {
    check_features(input, args[3], "running_mean");
    check_features(input, args[4], "running_var");
  }
  check_features(input, args[1], "weight");
  check_features(input, args[2], "bias");
  const auto weight = maybe_tensor(args[1]);
  const auto mean = has_stats ? maybe_tensor(args[3]) : at::OptionalTensorRef();
  set_format(out, 0, input.sizes(), batch_norm_format(input), input.scalar_type());
  const at::ScalarType stats = stats_dtype(input, weight.has_value() ? weight : mean);
  const int64_t features = training ? input.size(1) : 0;
  out.set(1, {features}, stats);
  out.set(2, {features}, stats);
}

void batch_norm_with_update(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& input = tensor(args[0]);
  const auto weight = maybe_tensor(args[1]);
  set_format(out, 0, input.sizes(), batch_norm_format(input), input.scalar_type());
  const at::ScalarType stats =
      stats_dtype(input, weight.has_value() ? weight : maybe_tensor(args[3]));
  out.set(1, {input.size(1)}, stats);
  out.set(2, {input.size(1)}, stats);
  out.set(3, {0}, at::kByte);
}

void batch_norm_update_stats(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& input = tensor(args[0]);
  const at::ScalarType stats = stats_dtype(input, maybe_tensor(args[1]));
  out.set(0, {input.size(1)}, stats);
  out.set(1, {input.size(1)}, stats);
}

template <int Mask>
void batch_norm_backward(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& input = tensor(args[1]);
  const auto weight = maybe_tensor(args[2]);
  const auto mask = mask3(args[Mask]);
  const at::ScalarType parameter =
      weight.has_value() ? weight->scalar_type() : input.scalar_type();
  if (mask[0]) {
    set_format(out, 0, input.sizes(), batch_norm_format(input), input.scalar_type());
  } else {
    out.set_undefined(0);
  }
  for (int i = 1; i < 3; ++i) {
    if (mask[i]) {
      out.set(i, {input.size(1)}, parameter);
    } else {
      out.set_undefined(i);
    }
  }
}

void layer_norm(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& input = tensor(args[0]);
  const at::DimVector shape = ints(args[1]);
  const auto weight = maybe_tensor(args[2]);
  const auto bias = maybe_tensor(args[3]);
  TORCH_CHECK(!shape.empty(),
              "Expected normalized_shape to be at least 1-dimensional, i.e., "
              "containing at least one element, but got normalized_shape = ",
              shape);
  TORCH_CHECK(
      !weight.has_value() || weight->sizes() == at::IntArrayRef(shape),
      "Expected weight to be of same shape as normalized_shape, but got weight of shape ",
      weight->sizes(), " and normalized_shape = ", shape);
  TORCH_CHECK(
      !bias.has_value() || bias->sizes() == at::IntArrayRef(shape),
      "Expected bias to be of same shape as normalized_shape, but got bias of shape ",
      bias->sizes(), " and normalized_shape = ", shape);
  const at::IntArrayRef sizes = input.sizes();
  const bool fits = sizes.size() >= shape.size() &&
                    sizes.slice(sizes.size() - shape.size()) == at::IntArrayRef(shape);
  if (!fits) {
    std::ostringstream text;
    text << "Given normalized_shape=" << at::IntArrayRef(shape)
         << ", expected input with shape [*";
    for (const int64_t size : shape) text << ", " << size;
    text << "], but got input of size" << sizes;
    TORCH_CHECK(false, text.str());
  }
  set_contiguous_like(out, 0, input);
  at::DimVector stats(sizes);
  for (size_t i = sizes.size() - shape.size(); i < stats.size(); ++i) stats[i] = 1;
  const at::ScalarType dtype = stats_dtype(input, weight.has_value() ? weight : bias);
  out.set(1, stats, dtype);
  out.set(2, stats, dtype);
}

void layer_norm_backward(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& input = tensor(args[1]);
  const at::DimVector shape = ints(args[2]);
  const auto weight = maybe_tensor(args[5]);
  const auto mask = mask3(args[7]);
  if (mask[0]) {
    set_contiguous_like(out, 0, input);
  } else {
    out.set_undefined(0);
  }
  const at::ScalarType dtype =
      weight.has_value() ? weight->scalar_type() : input.scalar_type();
  for (int i = 1; i < 3; ++i) {
    if (mask[i]) {
      out.set(i, shape, dtype);
    } else {
      out.set_undefined(i);
    }
  }
}

void group_norm(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& input = tensor(args[0]);
  const int64_t batch = args[3].toInt(), channels = args[4].toInt(),
                groups = args[6].toInt();
  TORCH_CHECK(groups > 0, "Expected num groups to be greater than 0, got ", groups);
  TORCH_CHECK(channels % groups == 0,
              "Expected number of channels in input to be divisible by "
              "num_groups, but got input of shape ",
              input.sizes(), " and num_groups=", groups);
  for (int i = 1; i < 3; ++i) {
    const auto t = maybe_tensor(args[i]);
    TORCH_CHECK(!t.has_value() || (t->dim() == 1 && t->numel() == channels), "Expected ",
                i == 1 ? "weight" : "bias",
                " to be a vector of size equal to the number of "
                "channels in input, but got ",
                i == 1 ? "weight" : "bias", " of shape ", t->sizes(),
                " and input of shape ", input.sizes());
  }
  set_format(out, 0, input.sizes(), input.suggest_memory_format(), input.scalar_type());
  const auto weight = maybe_tensor(args[1]);
  const at::ScalarType dtype =
      stats_dtype(input, weight.has_value() ? weight : maybe_tensor(args[2]));
  out.set(1, {batch, groups}, dtype);
  out.set(2, {batch, groups}, dtype);
}

void group_norm_backward(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& input = tensor(args[1]);
  const auto weight = maybe_tensor(args[4]);
  const int64_t channels = args[6].toInt();
  const auto mask = mask3(args[9]);
  if (mask[0]) {
    set_format(out, 0, input.sizes(), input.suggest_memory_format(), input.scalar_type());
  } else {
    out.set_undefined(0);
  }
  const at::ScalarType dtype =
      weight.has_value() ? weight->scalar_type() : input.scalar_type();
  for (int i = 1; i < 3; ++i) {
    if (mask[i]) {
      out.set(i, {channels}, dtype);
    } else {
      out.set_undefined(i);
    }
  }
}

void native_dropout(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& input = tensor(args[0]);
  set_like(out, 0, input);
  if (input.numel() == 0) return set_like(out, 1, input);
  const bool trains = args[2].isNone() || args[2].toBool();
  if (!trains) return out.set(1, input.sizes(), at::kBool);
  set_like(out, 1, input, at::kBool);
}

void native_dropout_backward(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& grad = tensor(args[0]);
  set_like(out, 0, grad, with_scalar(grad, args[2].toDouble()));
}

void masked_softmax(const IValue* args, ShapeOutputs& out) {
  set_contiguous_like(out, 0, tensor(args[0]));
}

}  // namespace

Rows normalization_rows() {
  static constexpr Row rows[] = {
      {"aten::native_batch_norm", &batch_norm<true, 5>},
      {"aten::native_batch_norm.out", &batch_norm<true, 5>},
      {"aten::_native_batch_norm_legit", &batch_norm<true, 5>},
      {"aten::_native_batch_norm_legit.out", &batch_norm<true, 5>},
      {"aten::_native_batch_norm_legit.no_stats", &batch_norm<false, 3>},
      {"aten::_native_batch_norm_legit.no_stats_out", &batch_norm<false, 3>},
      {"aten::_batch_norm_with_update", &batch_norm_with_update},
      {"aten::_batch_norm_with_update.out", &batch_norm_with_update},
      {"aten::batch_norm_update_stats", &batch_norm_update_stats},
      {"aten::native_batch_norm_backward", &batch_norm_backward<9>},
      {"aten::batch_norm_backward", &batch_norm_backward<9>},
      {"aten::native_layer_norm", &layer_norm},
      {"aten::native_layer_norm_backward", &layer_norm_backward},
      {"aten::native_group_norm", &group_norm},
      {"aten::native_group_norm_backward", &group_norm_backward},
      {"aten::native_dropout", &native_dropout},
      {"aten::native_dropout_backward", &native_dropout_backward},
      {"aten::_masked_softmax", &masked_softmax},
      {"aten::_masked_softmax_backward", &contiguous_like<0>},
  };
  return rows;
}

}  // namespace neuron::lazy::shapes
