// Measures the largest error of the functions of ir/math.h, in units in the last place.
//
//   math_accuracy [samples a function and type] [function] [float|double]
//
// Float results are compared with the C library's double functions (wrong by less than
// 2^-28 of a float's last place), double results with MPFR. Inputs run through all bit
// patterns in even steps, and through the interval where the function is interesting;
// with 4294967296 samples every float is taken once. Build: -lmpfr -lgmp, and the flags
// of the project.
#include <mpfr.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "ir/math.h"

namespace m = neuron::ir::math;

namespace {

constexpr int kBlock = 4096;
constexpr int kPrecision = 200;
using Big = mpfr_ptr;
using Reference = void (*)(Big result, Big x, Big y);

template <class F>
using Loop = void (*)(const F* x, const F* y, F* out);
using DoubleReference = double (*)(double x, double y);

struct Row {
  const char* name;
  bool binary;
  double low, high;  // The interval that gets half of the samples.
  Loop<float> float_loop;
  Loop<double> double_loop;
  DoubleReference float_reference;
  Reference reference;
};

struct Temporary {
  mpfr_t value;
  Temporary() { mpfr_init2(value, kPrecision); }
  ~Temporary() { mpfr_clear(value); }
};
Big scratch(int idx) {
  static Temporary pool[4];
  return pool[idx].value;
}

void big_sigmoid(Big r, Big x) {
  mpfr_neg(r, x, MPFR_RNDN);
  mpfr_exp(r, r, MPFR_RNDN);
  mpfr_add_ui(r, r, 1, MPFR_RNDN);
  mpfr_ui_div(r, 1, r, MPFR_RNDN);
}
void big_normal(Big r, Big x) {  // Phi(x)
  mpfr_sqrt_ui(r, 2, MPFR_RNDN);
  mpfr_div(r, x, r, MPFR_RNDN);
  mpfr_neg(r, r, MPFR_RNDN);
  mpfr_erfc(r, r, MPFR_RNDN);
  mpfr_div_ui(r, r, 2, MPFR_RNDN);
}
void big_erfinv(Big r, Big x) {
  double start = m::erfinv(mpfr_get_d(x, MPFR_RNDN));
  mpfr_set_d(r, start, MPFR_RNDN);
  if (!std::isfinite(start) || start == 0) return;
  Big step = scratch(0);
  Big slope = scratch(1);
  for (int i = 0; i < 2; ++i) {  // Newton's method doubles 50 bits twice.
    mpfr_erf(step, r, MPFR_RNDN);
    mpfr_sub(step, step, x, MPFR_RNDN);
    mpfr_sqr(slope, r, MPFR_RNDN);
    mpfr_exp(slope, slope, MPFR_RNDN);
    mpfr_mul(step, step, slope, MPFR_RNDN);
    mpfr_const_pi(slope, MPFR_RNDN);
    mpfr_sqrt(slope, slope, MPFR_RNDN);
    mpfr_mul(step, step, slope, MPFR_RNDN);
    mpfr_div_ui(step, step, 2, MPFR_RNDN);
    mpfr_sub(r, r, step, MPFR_RNDN);
  }
}
void big_logaddexp(Big r, Big x, Big y) {
  if (mpfr_nan_p(x) || mpfr_nan_p(y)) return mpfr_set_nan(r);
  Big high = mpfr_greater_p(x, y) ? x : y;
  Big low = high == x ? y : x;
  mpfr_set(r, high, MPFR_RNDN);
  if (mpfr_inf_p(high)) return;
  mpfr_sub(scratch(0), low, high, MPFR_RNDN);
  mpfr_exp(scratch(0), scratch(0), MPFR_RNDN);
  mpfr_log1p(scratch(0), scratch(0), MPFR_RNDN);
  mpfr_add(r, high, scratch(0), MPFR_RNDN);
}
void big_remainder(Big r, Big x, Big y) {
  mpfr_fmod(r, x, y, MPFR_RNDN);
  bool opposite = mpfr_signbit(r) != mpfr_signbit(y);
  if (mpfr_number_p(r) && !mpfr_zero_p(r) && opposite) mpfr_add(r, r, y, MPFR_RNDN);
}
double double_remainder(double x, double y) {
  double r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
double double_logaddexp(double x, double y) {
  long double high = x > y ? x : y;
  long double low = x > y ? y : x;
  if (x != x || y != y || x == y) return x + y - y + (x == y ? M_LN2 : 0);
  return static_cast<double>(high + log1pl(expl(low - high)));
}

#define LOOPS(f)                                              \
  [](const float* x, const float*, float* out) {              \
    for (int i = 0; i < kBlock; ++i) out[i] = m::f(x[i]);     \
  },                                                          \
      [](const double* x, const double*, double* out) {       \
        for (int i = 0; i < kBlock; ++i) out[i] = m::f(x[i]); \
      }
#define LOOPS2(f)                                                   \
  [](const float* x, const float* y, float* out) {                  \
    for (int i = 0; i < kBlock; ++i) out[i] = m::f(x[i], y[i]);     \
  },                                                                \
      [](const double* x, const double* y, double* out) {           \
        for (int i = 0; i < kBlock; ++i) out[i] = m::f(x[i], y[i]); \
      }
#define BIG(statement) [](Big r, Big x, [[maybe_unused]] Big y) { statement; }
#define ROW(f, low, high)                      \
  {#f,                                         \
   false,                                      \
   low,                                        \
   high,                                       \
   LOOPS(f),                                   \
   [](double x, double) { return std::f(x); }, \
   BIG(mpfr_##f(r, x, MPFR_RNDN))}

const Row kRows[] = {
    ROW(exp, -110, 90),
    ROW(exp2, -150, 130),
    ROW(expm1, -2, 2),
    ROW(log, 0.5, 2),
    ROW(log2, 0.5, 2),
    ROW(log10, 0.5, 2),
    ROW(log1p, -1, 1),
    ROW(sin, -10, 10),
    ROW(cos, -10, 10),
    ROW(tan, -10, 10),
    ROW(asin, -1, 1),
    ROW(acos, -1, 1),
    ROW(atan, -4, 4),
    ROW(sinh, -4, 4),
    ROW(cosh, -4, 4),
    ROW(tanh, -10, 10),
    ROW(asinh, -4, 4),
    ROW(acosh, 1, 4),
    ROW(atanh, -1, 1),
    ROW(erf, -4, 4),
    ROW(erfc, -6, 11),
    {"erfinv", false, -1, 1, LOOPS(erfinv), [](double x, double) { return m::erfinv(x); },
     BIG(big_erfinv(r, x))},
    {"sigmoid", false, -20, 20, LOOPS(sigmoid),
     [](double x, double) { return 1 / (1 + std::exp(-x)); }, BIG(big_sigmoid(r, x))},
    {"silu", false, -20, 20, LOOPS(silu),
     [](double x, double) { return x / (1 + std::exp(-x)); },
     BIG(big_sigmoid(r, x); if (mpfr_inf_p(x) && mpfr_signbit(x)) mpfr_set_nan(r);
         else mpfr_mul(r, r, x, MPFR_RNDN))},
    {"gelu", false, -15, 6, LOOPS(gelu),
     [](double x, double) {
       return x * 0.5 * std::erfc(static_cast<double>(-x * sqrtl(0.5L)));
     },
     BIG(big_normal(r, x); mpfr_mul(r, r, x, MPFR_RNDN))},
    {"gelu_tanh", false, -12, 6, LOOPS(gelu_tanh),
     [](double x, double) {
       double u = std::sqrt(8 / M_PI) * x * (1 + 0.044715 * x * x);
       return x / (1 + std::exp(-u));
     },
     BIG(Big u = scratch(0); mpfr_sqr(u, x, MPFR_RNDN);
         mpfr_mul_d(u, u, 0.044715, MPFR_RNDN); mpfr_add_ui(u, u, 1, MPFR_RNDN);
         mpfr_mul(u, u, x, MPFR_RNDN); mpfr_const_pi(r, MPFR_RNDN);
         mpfr_ui_div(r, 8, r, MPFR_RNDN); mpfr_sqrt(r, r, MPFR_RNDN);
         mpfr_mul(u, u, r, MPFR_RNDN); big_sigmoid(r, u); mpfr_mul(r, r, x, MPFR_RNDN))},
    {"softplus", false, -20, 20, LOOPS(softplus),
     [](double x, double) { return x > 700 ? x : std::log1p(std::exp(x)); },
     BIG(mpfr_exp(r, x, MPFR_RNDN); mpfr_log1p(r, r, MPFR_RNDN);
         if (mpfr_cmp_d(x, 1e6) > 0) mpfr_set(r, x, MPFR_RNDN))},
    {"rsqrt", false, 0.25, 4, LOOPS(rsqrt),
     [](double x, double) { return 1 / std::sqrt(x); },
     BIG(if (mpfr_zero_p(x)) mpfr_set_inf(r, mpfr_signbit(x) ? -1 : 1);
         else mpfr_rec_sqrt(r, x, MPFR_RNDN))},
    {"pow", true, 0.01, 10, LOOPS2(pow),
     [](double x, double y) { return std::pow(x, y); },
     BIG(mpfr_pow(r, x, y, MPFR_RNDN))},
    {"atan2", true, -4, 4, LOOPS2(atan2),
     [](double x, double y) { return std::atan2(x, y); },
     BIG(mpfr_atan2(r, x, y, MPFR_RNDN))},
    {"hypot", true, -4, 4, LOOPS2(hypot),
     [](double x, double y) { return std::hypot(x, y); },
     BIG(mpfr_hypot(r, x, y, MPFR_RNDN))},
    {"logaddexp", true, -10, 10, LOOPS2(logaddexp), double_logaddexp,
     BIG(big_logaddexp(r, x, y))},
    {"fmod", true, -100, 100, LOOPS2(fmod),
     [](double x, double y) { return std::fmod(x, y); },
     BIG(mpfr_fmod(r, x, y, MPFR_RNDN))},
    {"remainder", true, -100, 100, LOOPS2(remainder), double_remainder,
     BIG(big_remainder(r, x, y))},
};

uint64_t next_random() {
  static uint64_t state = 0x9e3779b97f4a7c15;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}
template <class F>
F sample(const Row& row, uint64_t idx, uint64_t count, bool is_y) {
  constexpr bool kIsFloat = std::is_same_v<F, float>;
  const uint64_t all = uint64_t{1} << 32;
  const bool exhaustive = kIsFloat && count >= all && !row.binary;
  if (exhaustive || idx % 2 == 0) {
    if constexpr (kIsFloat) {
      uint64_t pattern = exhaustive ? idx : next_random() >> 32;
      return std::bit_cast<float>(static_cast<uint32_t>(pattern));
    } else {
      return std::bit_cast<double>(next_random());
    }
  }
  double unit = static_cast<double>(next_random() >> 11) * 0x1p-53;
  double low = row.low;
  double high = row.high;
  if (is_y && std::strcmp(row.name, "pow") == 0) low = -100, high = 100;
  if (!kIsFloat && (row.low < -100 || row.high > 100)) low *= 8, high *= 8;
  return static_cast<F>(low + (high - low) * unit);
}

/// |got - wanted| in units in the last place of F at wanted; 1e9 for a wrong kind.
template <class F>
double error_against(F got, double wanted) {
  constexpr double kWrong = 1e9;
  if (std::isnan(wanted) || std::isnan(got)) {
    return std::isnan(wanted) && std::isnan(got) ? 0 : kWrong;
  }
  if (static_cast<F>(wanted) == got) {
    bool zero_sign = got == 0 && wanted == 0 && std::signbit(got) != std::signbit(wanted);
    if (zero_sign) return kWrong;
    if (std::isinf(wanted) || std::isinf(got)) return 0;
  }
  if (std::isinf(wanted)) return kWrong;
  double value = std::isinf(got) ? std::copysign(0x1p128, got) : got;
  int exponent = wanted == 0 ? -126 : std::max(std::ilogb(wanted), -126);
  return std::abs(value - wanted) / std::ldexp(1.0, exponent - 23);
}
double error_against(double got, Big wanted) {
  constexpr double kWrong = 1e9;
  if (mpfr_nan_p(wanted) || std::isnan(got)) {
    return mpfr_nan_p(wanted) && std::isnan(got) ? 0 : kWrong;
  }
  double rounded = mpfr_get_d(wanted, MPFR_RNDN);
  if (rounded == got) {
    bool zero_sign = mpfr_zero_p(wanted) && std::signbit(got) != std::signbit(rounded);
    if (zero_sign) return kWrong;
    if (std::isinf(got)) return 0;
  }
  if (mpfr_inf_p(wanted)) return kWrong;
  Big difference = scratch(3);
  if (std::isinf(got)) {
    mpfr_set_ui_2exp(difference, 1, 1024, MPFR_RNDN);
    if (got < 0) mpfr_neg(difference, difference, MPFR_RNDN);
  } else {
    mpfr_set_d(difference, got, MPFR_RNDN);
  }
  mpfr_sub(difference, difference, wanted, MPFR_RNDN);
  long exponent =
      mpfr_zero_p(wanted) ? -1022 : std::max<long>(mpfr_get_exp(wanted) - 1, -1022);
  mpfr_mul_2si(difference, difference, 52 - exponent, MPFR_RNDN);
  return std::abs(mpfr_get_d(difference, MPFR_RNDN));
}

template <class F>
void measure(const Row& row, uint64_t count) {
  std::vector<F> x(kBlock);
  std::vector<F> y(kBlock);
  std::vector<F> out(kBlock);
  Temporary big_x;
  Temporary big_y;
  Temporary big_r;
  double worst = -1;
  double sum = 0;
  F worst_x = 0;
  F worst_y = 0;
  for (uint64_t start = 0; start < count; start += kBlock) {
    for (int i = 0; i < kBlock; ++i) x[i] = sample<F>(row, start + i, count, false);
    if (row.binary) {
      for (int i = 0; i < kBlock; ++i) y[i] = sample<F>(row, start + i, count, true);
    }
    if constexpr (std::is_same_v<F, float>) {
      row.float_loop(x.data(), y.data(), out.data());
    } else {
      row.double_loop(x.data(), y.data(), out.data());
    }
    for (int i = 0; i < kBlock; ++i) {
      double error;
      if constexpr (std::is_same_v<F, float>) {
        error = error_against(out[i], row.float_reference(x[i], y[i]));
      } else {
        mpfr_set_d(big_x.value, x[i], MPFR_RNDN);
        mpfr_set_d(big_y.value, y[i], MPFR_RNDN);
        row.reference(big_r.value, big_x.value, big_y.value);
        error = error_against(out[i], big_r.value);
      }
      sum += error;
      if (error > worst) worst = error, worst_x = x[i], worst_y = y[i];
    }
  }
  std::printf("| %-9s | %-6s | %10.4f | %12llu | %a", row.name,
              std::is_same_v<F, float> ? "float" : "double", worst,
              static_cast<unsigned long long>(count), static_cast<double>(worst_x));
  if (row.binary) std::printf(", %a", static_cast<double>(worst_y));
  std::printf(" |\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1 << 20;
  std::string function = argc > 2 ? argv[2] : "";
  std::string type = argc > 3 ? argv[3] : "";
  std::printf(
      "| function | type | max ULP | inputs | worst at |\n|---|---|---|---|---|\n");
  for (const Row& row : kRows) {
    if (!function.empty() && function != row.name) continue;
    if (type != "double") measure<float>(row, count);
    if (type != "float") measure<double>(row, count);
  }
  return 0;
}
