// Random ops. Laws:
//  1. (seed, offset) is drawn from the generator when the op is recorded.
//  2. The number at logical index i of the output depends on (seed, offset, i) and the
//  op's
//     arguments alone: not on strides, on threads, or on when the window ends.
#include <ATen/core/Tensor.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_dropout_backward.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "base/philox.h"
#include "fusion/kernels/random.h"
#include "lazy/torch/generator.h"
#include "lazy/torch/record.h"
#include "lazy/torch/register.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {
namespace {

using at::Generator;
using at::Tensor;
using Draw = NeuronGenerator::Draw;

// Elements of a piece of parallel work: simple ones, and those with functions to
// evaluate.
constexpr int64_t kGrain = 8192;
constexpr int64_t kNormalGrain = 2048;

// The words of logical element i: two 32-bit words each.
struct Words {
  uint32_t first, second;
};

double uniform_of(const Words& words) {
  return uniform_double(words.first, words.second);
}
// Uniform in (0, 1]: safe under a logarithm.
double open_uniform(const Words& words) { return 1.0 - uniform_of(words); }

// Calls body(data, begin, end) for pieces of all elements, each of which begins at an
// even one; what it writes there, as T and in logical order, becomes the value of `out`.
template <class T, class Body>
void fill_pieces(const Tensor& out, int64_t grain, const Body& body) {
  const int64_t count = out.numel();
  const at::ScalarType dtype = c10::CppTypeToScalarType<T>::value;
  const bool direct = out.is_contiguous() && out.scalar_type() == dtype;
  Tensor values = direct ? out : at::empty(out.sizes(), at::TensorOptions().dtype(dtype));
  T* data = values.mutable_data_ptr<T>();
  parallel_for((count + 1) / 2, grain / 2, [&](int64_t begin, int64_t end) {
    body(data, 2 * begin, std::min(2 * end, count));
  });
  if (!direct) out.copy_(values);
}

// Fills `out` in logical order with `value(words, i)`, computed as T and rounded once to
// out's dtype.
template <class T, class Value>
void fill(const Tensor& out, const Draw& draw, Value value) {
  fill_pieces<T>(out, kGrain, [&](T* data, int64_t begin, int64_t end) {
    constexpr int64_t kBlock = 256;
    uint32_t words[2 * kBlock];
    for (int64_t first = begin; first < end; first += kBlock) {
      const int64_t count = std::min(kBlock, end - first);
      fusion::random_words(draw.seed, draw.offset, first, count, words);
      for (int64_t k = 0; k < count; ++k) {
        data[first + k] = static_cast<T>(value(Words{words[2 * k], words[2 * k + 1]},
                                               static_cast<uint64_t>(first + k)));
      }
    }
  });
}

// The same with `value(x)` of normal numbers.
template <class T, class Value>
void fill_from_normal(const Tensor& out, const Draw& draw, Value value) {
  fill_pieces<T>(out, kNormalGrain, [&](T* data, int64_t begin, int64_t end) {
    fusion::random_normal(draw.seed, draw.offset, begin, end - begin, data + begin);
    for (int64_t i = begin; i < end; ++i) data[i] = value(data[i]);
  });
}

// Sets elements to whether their uniform number is at least p.
void fill_mask(const Tensor& mask, const Draw& draw, double p) {
  Tensor values = mask.is_contiguous() ? mask : at::empty(mask.sizes(), at::kBool);
  auto* data = static_cast<uint8_t*>(values.mutable_data_ptr());
  // By pairs, which share a counter: a piece may start anywhere.
  const int64_t count = mask.numel();
  parallel_for((count + 1) / 2, kGrain / 2, [&](int64_t begin, int64_t end) {
    const int64_t first = 2 * begin;
    fusion::random_mask(draw.seed, draw.offset, first, std::min(2 * end, count) - first,
                        p, data + first);
  });
  if (!mask.is_contiguous()) mask.copy_(values);
}

bool is_wide(const Tensor& out) {
  return out.scalar_type() == at::kDouble || !out.is_floating_point();
}

template <class Value>
void fill_real(const Tensor& out, const Draw& draw, Value value) {
  if (is_wide(out)) {
    fill<double>(out, draw, value);
  } else {
    fill<float>(out, draw, value);
  }
}

// `value` takes and gives a float or a double.
template <class Value>
void fill_real_from_normal(const Tensor& out, const Draw& draw, Value value) {
  if (is_wide(out)) {
    fill_from_normal<double>(out, draw, value);
  } else {
    fill_from_normal<float>(out, draw, value);
  }
}

void check_real(const Tensor& self, const char* op) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point(), "\"", op,
                              "\" not implemented for '", toString(self.scalar_type()),
                              "'");
}

template <class Body>
void record_draw(const char* name, const Tensor& self,
                 const std::optional<Generator>& generator, Body body) {
  const Draw draw =
      draw_from(generator, self.device().index(), static_cast<uint64_t>(self.numel()));
  if (self.numel() == 0) return;
  OpTrack& track = track_op(name);
  record_native(track, ir::find_op(name), {}, {self}, {},
                [draw, body](StepTensors& t) { body(t.tensor(0), draw); });
}

// ATen's templates check the arguments and call one of these with a TensorIterator over
// the output, or with the output itself.
template <class>
struct UniformKernel {
  void operator()(at::TensorIteratorBase& iter, double from, double to,
                  std::optional<Generator> generator) const {
    record_draw(
        "aten::uniform_", iter.tensor(0), generator,
        [=](const Tensor& out, const Draw& draw) {
          // Rounding to the output's type may reach the excluded end.
          const bool is_double = out.scalar_type() == at::kDouble;
          const float end = static_cast<float>(to);
          const auto value = [=](const Words& words, uint64_t) {
            const double u = is_double ? uniform_of(words) : uniform_float(words.first);
            const double x = u * (to - from) + from;
            const bool is_inside = is_double ? x < to : static_cast<float>(x) < end;
            return is_inside ? x : from;
          };
          fill_real(out, draw, value);
          const bool is_short = at::elementSize(out.scalar_type()) == 2;
          if (from < to && is_short) out.masked_fill_(out.ge(to), from);
        });
  }
};

template <class>
struct NormalKernel {
  void operator()(const Tensor& self, double mean, double std,
                  std::optional<Generator> generator) const {
    check_real(self, "normal_kernel_cpu");
    record_draw("aten::normal_", self, generator,
                [=](const Tensor& out, const Draw& draw) {
                  fill_real_from_normal(out, draw, [=](auto x) {
                    using T = decltype(x);
                    return x * static_cast<T>(std) + static_cast<T>(mean);
                  });
                });
  }
};

template <class>
struct LogNormalKernel {
  void operator()(at::TensorIteratorBase& iter, double mean, double std,
                  std::optional<Generator> generator) const {
    check_real(iter.tensor(0), "log_normal_kernel_cpu");
    record_draw("aten::log_normal_", iter.tensor(0), generator,
                [=](const Tensor& out, const Draw& draw) {
                  fill_real_from_normal(out, draw, [=](auto x) {
                    return static_cast<decltype(x)>(std::exp(x * std + mean));
                  });
                });
  }
};

template <class>
struct ExponentialKernel {
  void operator()(at::TensorIteratorBase& iter, double lambda,
                  std::optional<Generator> generator) const {
    check_real(iter.tensor(0), "exponential_kernel_cpu");
    record_draw("aten::exponential_", iter.tensor(0), generator,
                [=](const Tensor& out, const Draw& draw) {
                  const double least = out.scalar_type() == at::kDouble
                                           ? std::numeric_limits<double>::min()
                                           : std::numeric_limits<float>::min();
                  fill_real(out, draw, [=](const Words& words, uint64_t) {
                    return std::max(least, -std::log(open_uniform(words))) / lambda;
                  });
                });
  }
};

template <class>
struct GeometricKernel {
  void operator()(at::TensorIteratorBase& iter, double p,
                  std::optional<Generator> generator) const {
    record_draw("aten::geometric_", iter.tensor(0), generator,
                [=](const Tensor& out, const Draw& draw) {
                  fill<double>(out, draw, [=](const Words& words, uint64_t) {
                    const double u = open_uniform(words);
                    return std::max(1.0, std::ceil(std::log(u) / std::log1p(-p)));
                  });
                });
  }
};

template <class>
struct CauchyKernel {
  void operator()(at::TensorIteratorBase& iter, double median, double sigma,
                  std::optional<Generator> generator) const {
    check_real(iter.tensor(0), "cauchy_cpu");
    record_draw("aten::cauchy_", iter.tensor(0), generator,
                [=](const Tensor& out, const Draw& draw) {
                  constexpr double kPi = 3.14159265358979323846;
                  fill_real(out, draw, [=](const Words& words, uint64_t) {
                    const double u = uniform_of(words);
                    return median + sigma * std::tan(kPi * (u - 0.5));
                  });
                });
  }
};

template <class>
struct BernoulliScalarKernel {
  void operator()(const Tensor& self, double p,
                  std::optional<Generator> generator) const {
    record_draw("aten::bernoulli_", self, generator,
                [=](const Tensor& out, const Draw& draw) {
                  const Tensor failed = at::empty(out.sizes(), at::kBool);
                  fill_mask(failed, draw, p);
                  out.copy_(failed.logical_not_());
                });
  }
};

template <class>
struct BernoulliTensorKernel {
  void operator()(const Tensor& self, const Tensor& p_given,
                  std::optional<Generator> generator) const {
    Tensor p = p_given.is_privateuseone() ? p_given : p_given.to(self.device());
    const Draw draw =
        draw_from(generator, self.device().index(), static_cast<uint64_t>(self.numel()));
    if (self.numel() == 0) return;
    p = p.expand(self.sizes());
    OpTrack& track = track_op("aten::bernoulli_");
    record_native(track, ir::Op::kBernoulli, {p}, {self}, {}, [draw](StepTensors& t) {
      const Tensor given = t.tensor(0).to(at::kDouble).contiguous();
      const double* chance = given.const_data_ptr<double>();
      for (int64_t i = 0; i < given.numel(); ++i) {
        TORCH_CHECK(chance[i] >= 0 && chance[i] <= 1,
                    "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
      }
      fill<float>(t.tensor(1), draw, [&](const Words& words, uint64_t i) {
        return uniform_of(words) < chance[i] ? 1.0f : 0.0f;
      });
    });
  }
};

uint64_t bits_of(const Words& words) {
  return static_cast<uint64_t>(words.first) << 32 | words.second;
}

// The largest value of random_() without bounds.
uint64_t default_random_range(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return (uint64_t{1} << std::numeric_limits<double>::digits) + 1;
    case at::kFloat:
      return (uint64_t{1} << std::numeric_limits<float>::digits) + 1;
    case at::kHalf:
      return (uint64_t{1} << 11) + 1;
    case at::kBFloat16:
      return (uint64_t{1} << 8) + 1;
    case at::kBool:
      return 2;
    case at::kByte:
      return 256;
    case at::kChar:
      return 128;
    case at::kShort:
      return 32768;
    case at::kInt:
      return uint64_t{1} << 31;
    default:
      return uint64_t{1} << 63;
  }
}

void record_random(const Tensor& self, uint64_t range, int64_t base,
                   const std::optional<Generator>& generator) {
  record_draw("aten::random_", self, generator, [=](const Tensor& out, const Draw& draw) {
    fill<int64_t>(out, draw, [=](const Words& words, uint64_t) {
      const uint64_t bits = bits_of(words);
      const uint64_t value = range == 0 ? bits : bits % range;
      return static_cast<int64_t>(value + static_cast<uint64_t>(base));
    });
  });
}

template <class>
struct RandomKernel {
  void operator()(at::TensorIteratorBase& iter,
                  std::optional<Generator> generator) const {
    const Tensor& self = iter.tensor(0);
    TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex(),
                                "\"random_kernel_cpu\" not implemented for '",
                                toString(self.scalar_type()), "'");
    record_random(self, default_random_range(self.scalar_type()), 0, generator);
  }
};

template <class>
struct RandomFromToKernel {
  void operator()(at::TensorIteratorBase& iter, uint64_t range, int64_t base,
                  std::optional<Generator> generator) const {
    record_random(iter.tensor(0), range, base, generator);
  }
  void operator()(at::TensorIteratorBase& iter,
                  std::optional<Generator> generator) const {
    record_random(iter.tensor(0), 0, 0, generator);
  }
};

namespace templates = at::native::templates;

Tensor& uniform(Tensor& self, double from, double to,
                std::optional<Generator> generator) {
  const InferenceScope scope;
  return templates::uniform_impl_<UniformKernel, void>(self, from, to,
                                                       std::move(generator));
}
Tensor& normal(Tensor& self, double mean, double std,
               std::optional<Generator> generator) {
  const InferenceScope scope;
  return templates::normal_impl_<NormalKernel, void>(self, mean, std,
                                                     std::move(generator));
}
Tensor& log_normal(Tensor& self, double mean, double std,
                   std::optional<Generator> generator) {
  const InferenceScope scope;
  return templates::log_normal_impl_<LogNormalKernel, void>(self, mean, std,
                                                            std::move(generator));
}
Tensor& exponential(Tensor& self, double lambda, std::optional<Generator> generator) {
  const InferenceScope scope;
  return templates::exponential_impl_<ExponentialKernel, void>(self, lambda,
                                                               std::move(generator));
}
Tensor& geometric(Tensor& self, double p, std::optional<Generator> generator) {
  const InferenceScope scope;
  return templates::geometric_impl_<GeometricKernel, void>(self, p, std::move(generator));
}
Tensor& cauchy(Tensor& self, double median, double sigma,
               std::optional<Generator> generator) {
  const InferenceScope scope;
  return templates::cauchy_impl_<CauchyKernel, void>(self, median, sigma,
                                                     std::move(generator));
}
Tensor& bernoulli_scalar(Tensor& self, double p, std::optional<Generator> generator) {
  const InferenceScope scope;
  return templates::bernoulli_impl_<BernoulliScalarKernel, void>(self, p,
                                                                 std::move(generator));
}
Tensor& bernoulli_tensor(Tensor& self, const Tensor& p,
                         std::optional<Generator> generator) {
  const InferenceScope scope;
  return templates::bernoulli_impl_<BernoulliTensorKernel, void>(self, p,
                                                                 std::move(generator));
}
Tensor& random(Tensor& self, std::optional<Generator> generator) {
  const InferenceScope scope;
  return templates::random_impl<RandomKernel, void>(self, std::move(generator));
}
Tensor& random_from(Tensor& self, int64_t from, std::optional<int64_t> to,
                    std::optional<Generator> generator) {
  const InferenceScope scope;
  return templates::random_from_to_impl<RandomFromToKernel, void>(self, from, to,
                                                                  std::move(generator));
}
Tensor& random_to(Tensor& self, int64_t to, std::optional<Generator> generator) {
  return random_from(self, 0, to, std::move(generator));
}

std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p,
                                          std::optional<bool> train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ",
              p);
  Tensor mask = at::empty_like(input, at::TensorOptions().dtype(at::kBool));
  if (input.numel() == 0) return {at::empty_like(input), mask};
  static OpTrack& track = track_op("aten::native_dropout");
  if (!train.value_or(true)) {
    mask.fill_(true);
    return {input.clone(), mask};
  }
  const Draw draw =
      draw_from({}, input.device().index(), static_cast<uint64_t>(input.numel()));
  record_native(track, ir::Op::kNativeDropout, {}, {}, {mask},
                [draw, p](StepTensors& t) { fill_mask(t.tensor(0), draw, p); });
  const double scale = p == 1 ? 0.0 : 1.0 / (1.0 - p);
  return {at::native_dropout_backward(input, mask, scale), mask};
}

}  // namespace

void register_random_ops(Registrar& m) {
  m.impl("uniform_", TORCH_FN(uniform));
  m.impl("normal_", TORCH_FN(normal));
  m.impl("log_normal_", TORCH_FN(log_normal));
  m.impl("exponential_", TORCH_FN(exponential));
  m.impl("geometric_", TORCH_FN(geometric));
  m.impl("cauchy_", TORCH_FN(cauchy));
  m.impl("bernoulli_.float", TORCH_FN(bernoulli_scalar));
  m.impl("bernoulli_.Tensor", TORCH_FN(bernoulli_tensor));
  m.impl("random_", TORCH_FN(random));
  m.impl("random_.from", TORCH_FN(random_from));
  m.impl("random_.to", TORCH_FN(random_to));
  m.impl("native_dropout", TORCH_FN(native_dropout));
}

}  // namespace neuron::lazy
