// Random numbers: in-place fills check their parameters at the call, samplers make
// outputs.
#include "lazy/torch/shapes/iterator.h"
#include "lazy/torch/shapes/table.h"

#include <limits>

namespace neuron::lazy::shapes {
namespace {

void no_check(const IValue*, ShapeOutputs&) {}

void uniform(const IValue* args, ShapeOutputs&) {
  const at::Tensor& self = tensor(args[0]);
  const double from = args[1].toDouble(), to = args[2].toDouble();
  TORCH_CHECK(self.is_floating_point() || self.is_complex(),
              "\"check_uniform_bounds\" not "
              "implemented for '",
              self.scalar_type(), "'");
  TORCH_CHECK(from <= to,
              "uniform_ expects to return a [from, to) range, but found from=", from,
              " > to=", to);
  TORCH_CHECK(to - from <= std::numeric_limits<double>::max(),
              "uniform_ expects to-from <= "
              "std::numeric_limits<",
              toString(self.scalar_type()), ">::max(), but found to=", to,
              " and from=", from, " which result in to-from to exceed the limit");
}

void normal_inplace(const IValue* args, ShapeOutputs&) {
  TORCH_CHECK(args[2].toDouble() >= 0.0, "normal expects std >= 0.0, but found std ",
              args[2].toDouble());
}

void log_normal(const IValue* args, ShapeOutputs&) {
  TORCH_CHECK(args[2].toDouble() > 0.0,
              "log_normal_ expects std > 0.0, but found std=", args[2].toDouble());
}

void cauchy(const IValue* args, ShapeOutputs&) {
  const at::Tensor& self = tensor(args[0]);
  TORCH_CHECK(args[2].toDouble() > 0.0,
              "cauchy_ expects sigma > 0.0, but found sigma=", args[2].toDouble());
  TORCH_CHECK(
      c10::isFloatingType(self.scalar_type()),
      "Cauchy distribution is a continuous "
      "probability distribution. dtype must be a floating point but you specified ",
      self.dtype());
}

void exponential(const IValue* args, ShapeOutputs&) {
  const at::Tensor& self = tensor(args[0]);
  TORCH_CHECK(args[1].toDouble() > 0.0,
              "exponential_ expects lambda > 0.0, but found lambda=", args[1].toDouble());
  TORCH_CHECK(
      !c10::isIntegralType(self.scalar_type(), /*includeBool=*/true),
      "Exponential distribution is a continuous probability distribution. dtype must be "
      "a floating point but you specified ",
      self.dtype());
}

void geometric(const IValue* args, ShapeOutputs&) {
  const double p = args[1].toDouble();
  TORCH_CHECK(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
}

void random_to(const IValue* args, ShapeOutputs&) {
  const int64_t to = args[1].toInt();
  TORCH_CHECK(0 < to, "random_ expects 'from' to be less than 'to', but got from=", 0,
              " >= to=", to);
}

void random_from(const IValue* args, ShapeOutputs&) {
  if (args[2].isNone()) return;
  const int64_t from = args[1].toInt(), to = args[2].toInt();
  TORCH_CHECK(from < to,
              "random_ expects 'from' to be less than 'to', but got from=", from,
              " >= to=", to);
}

void check_probability(double p) {
  TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
}
void bernoulli_float(const IValue* args, ShapeOutputs&) {
  check_probability(args[1].toDouble());
}
void bernoulli_tensor(const IValue* args, ShapeOutputs&) {
  const at::Tensor& self = tensor(args[0]);
  const at::Tensor& p = tensor(args[1]);
  if (p.sizes() != self.sizes()) {
    at::inferExpandGeometry_dimvector(p.sizes(), p.strides(), self.sizes());
  }
}

void bernoulli(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  if (out.is_provided(0)) return out.resize(0, self.sizes());
  set_contiguous_like(out, 0, self);
}
void bernoulli_p(const IValue* args, ShapeOutputs& out) {
  check_probability(args[1].toDouble());
  set_contiguous_like(out, 0, tensor(args[0]));
}

// normal(mean, std) with one or two tensors; the result follows the first.
void check_std(const at::Tensor& std) {
  TORCH_CHECK(!std.is_complex(), "normal expects standard deviation to be non-complex");
}
void normal_tensor_float(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& mean = tensor(args[0]);
  TORCH_CHECK(args[1].toDouble() >= 0.0, "normal expects std >= 0.0, but found std ",
              args[1].toDouble());
  if (out.is_provided(0)) return out.set(0, mean.sizes(), out.get(0).scalar_type());
  set_contiguous_like(out, 0, mean);
}
void normal_float_tensor(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& std = tensor(args[1]);
  check_std(std);
  if (out.is_provided(0)) return out.set(0, std.sizes(), out.get(0).scalar_type());
  set_contiguous_like(out, 0, std);
}
void normal_tensors(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& mean = tensor(args[0]);
  const at::Tensor& std = tensor(args[1]);
  check_std(std);
  const at::DimVector sizes = at::infer_size_dimvector(mean.sizes(), std.sizes());
  out.set(0, sizes, out.is_provided(0) ? out.get(0).scalar_type() : mean.scalar_type());
}

void multinomial(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& self = tensor(args[0]);
  const int64_t samples = args[1].toInt();
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(c10::isFloatingType(self.scalar_type()),
              "multinomial only supports floating-point "
              "dtypes for input, got: ",
              self.scalar_type());
  if (out.is_provided(0)) {
    TORCH_CHECK(out.get(0).scalar_type() == at::kLong,
                "multinomial expects Long tensor out, got: ", out.get(0).scalar_type());
  }
  TORCH_CHECK(samples > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(args[2].toBool() || samples <= self.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  TORCH_CHECK(self.size(-1) <= (int64_t{1} << 24),
              "number of categories cannot exceed 2^24");
  if (self.dim() == 1) {
    out.set(0, {samples}, at::kLong);
  } else {
    out.set(0, {self.size(0), samples}, at::kLong);
  }
}

void binomial(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& count = tensor(args[0]);
  const at::Tensor& prob = tensor(args[1]);
  const at::DimVector sizes = at::infer_size_dimvector(count.sizes(), prob.sizes());
  TORCH_CHECK_VALUE(c10::isFloatingType(count.scalar_type()),
                    "binomial only supports floating-point dtypes for count, got: ",
                    count.scalar_type());
  TORCH_CHECK_VALUE(
      c10::isFloatingType(prob.scalar_type()),
      "binomial only supports floating-point dtypes for prob, got: ", prob.scalar_type());
  out.set(0, sizes, count.scalar_type());
}

void dirichlet_grad(const IValue* args, ShapeOutputs& out) {
  broadcast(out, tensor(args[0]).scalar_type(), tensor(args[0]), tensor(args[1]),
            tensor(args[2]));
}

}  // namespace

Rows random_rows() {
  static constexpr Row rows[] = {
      {"aten::uniform_", &uniform},
      {"aten::normal_", &normal_inplace},
      {"aten::log_normal_", &log_normal},
      {"aten::cauchy_", &cauchy},
      {"aten::exponential_", &exponential},
      {"aten::geometric_", &geometric},
      {"aten::random_", &no_check},
      {"aten::random_.to", &random_to},
      {"aten::random_.from", &random_from},
      {"aten::bernoulli_.float", &bernoulli_float},
      {"aten::bernoulli_.Tensor", &bernoulli_tensor},
      {"aten::bernoulli", &bernoulli},
      {"aten::bernoulli.out", &bernoulli},
      {"aten::bernoulli.p", &bernoulli_p},
      {"aten::normal.Tensor_float", &normal_tensor_float},
      {"aten::normal.Tensor_float_out", &normal_tensor_float},
      {"aten::normal.float_Tensor", &normal_float_tensor},
      {"aten::normal.float_Tensor_out", &normal_float_tensor},
      {"aten::normal.Tensor_Tensor", &normal_tensors},
      {"aten::normal.Tensor_Tensor_out", &normal_tensors},
      {"aten::multinomial", &multinomial},
      {"aten::multinomial.out", &multinomial},
      {"aten::poisson", &contiguous_like<0>},
      {"aten::_standard_gamma", &contiguous_like<0>},
      {"aten::_sample_dirichlet", &contiguous_like<0>},
      {"aten::_dirichlet_grad", &dirichlet_grad},
      {"aten::binomial", &binomial},
  };
  return rows;
}

}  // namespace neuron::lazy::shapes
