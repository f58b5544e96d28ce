// Special values, spot checks and the law of one result for the functions of ir/math.h.
// Largest errors are measured by math_accuracy.cpp.
#include "ir/math.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace m = neuron::ir::math;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class F>
using Unary = F (*)(F);
template <class F>
using Binary = F (*)(F, F);
template <class F>
using UnaryLoop = void (*)(const F*, F*, long);
template <class F>
using BinaryLoop = void (*)(const F*, const F*, F*, long);

// One element at a time, and a loop that the compiler makes vectors of.
#define DEFINE_UNARY(f)                                             \
  template <class F>                                                \
  [[gnu::noinline]] F one_##f(F x) {                                \
    return m::f(x);                                                 \
  }                                                                 \
  template <class F>                                                \
  [[gnu::noinline]] void loop_##f(const F* x, F* out, long count) { \
    for (long i = 0; i < count; ++i) out[i] = m::f(x[i]);           \
  }
#define DEFINE_BINARY(f)                                                        \
  template <class F>                                                            \
  [[gnu::noinline]] F one_##f(F x, F y) {                                       \
    return m::f(x, y);                                                          \
  }                                                                             \
  template <class F>                                                            \
  [[gnu::noinline]] void loop_##f(const F* x, const F* y, F* out, long count) { \
    for (long i = 0; i < count; ++i) out[i] = m::f(x[i], y[i]);                 \
  }
#define FOR_UNARY(X)                                                                     \
  X(exp)                                                                                 \
  X(exp2)                                                                                \
  X(expm1)                                                                               \
  X(log)                                                                                 \
  X(log2)                                                                                \
  X(log10) X(log1p) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) \
      X(asinh) X(acosh) X(atanh) X(erf) X(erfc) X(erfinv) X(sigmoid) X(silu) X(gelu)     \
          X(gelu_tanh) X(softplus) X(rsqrt)
#define FOR_BINARY(X) X(pow) X(atan2) X(hypot) X(logaddexp) X(fmod) X(remainder)
FOR_UNARY(DEFINE_UNARY)
FOR_BINARY(DEFINE_BINARY)

template <class F>
struct UnaryRow {
  const char* name;
  Unary<F> one;
  UnaryLoop<F> loop;
};
template <class F>
struct BinaryRow {
  const char* name;
  Binary<F> one;
  BinaryLoop<F> loop;
};
#define TABLE_ROW(f) {#f, one_##f<F>, loop_##f<F>},
template <class F>
const std::vector<UnaryRow<F>> kUnary = {FOR_UNARY(TABLE_ROW)};
template <class F>
const std::vector<BinaryRow<F>> kBinary = {FOR_BINARY(TABLE_ROW)};

/// A value type with nothing but the vocabulary, as a code generator has one.
namespace traced {

struct Mask {
  bool v;
  Mask operator&(Mask o) const { return {v && o.v}; }
  Mask operator|(Mask o) const { return {v || o.v}; }
  Mask operator!() const { return {!v}; }
};
template <class I>
struct Int {
  I v = 0;
  explicit Int(int64_t value) : v(static_cast<I>(value)) {}
  Int operator+(Int o) const { return Int(v + o.v); }
  Int operator&(Int o) const { return Int(v & o.v); }
  Int operator|(Int o) const { return Int(v | o.v); }
  Int operator^(Int o) const { return Int(v ^ o.v); }
  Mask operator!=(Int o) const { return {v != o.v}; }
};
template <class T>
struct Value {
  T v = 0;
  Value() = default;
  explicit Value(double value) : v(static_cast<T>(value)) {}
  Value operator+(Value o) const { return Value(v + o.v); }
  Value operator-(Value o) const { return Value(v - o.v); }
  Value operator*(Value o) const { return Value(v * o.v); }
  Value operator/(Value o) const { return Value(v / o.v); }
  Value operator-() const { return Value(-v); }
  Mask operator<(Value o) const { return {v < o.v}; }
  Mask operator>(Value o) const { return {v > o.v}; }
  Mask operator==(Value o) const { return {v == o.v}; }
  Mask operator!=(Value o) const { return {v != o.v}; }
};
namespace ir = neuron::ir;
template <class T>
using IntFor = Int<ir::IntOf<T>>;

template <class V>
V select(Mask mask, V yes, V no) {
  return mask.v ? yes : no;
}
template <class T>
Value<T> fma(Value<T> a, Value<T> b, Value<T> c) {
  return Value<T>(ir::fma(a.v, b.v, c.v));
}
#define DEFINE_VALUE(f)          \
  template <class T>             \
  Value<T> f(Value<T> x) {       \
    return Value<T>(ir::f(x.v)); \
  }
DEFINE_VALUE(sqrt)
DEFINE_VALUE(rint)
DEFINE_VALUE(floor)
DEFINE_VALUE(trunc)
DEFINE_VALUE(abs) template <class T>
Value<T> copysign(Value<T> x, Value<T> y) {
  return Value<T>(ir::copysign(x.v, y.v));
}
template <class T>
IntFor<T> bits(Value<T> x) {
  return IntFor<T>(ir::bits(x.v));
}
inline Value<float> from_bits(Int<int32_t> x) { return Value<float>(ir::from_bits(x.v)); }
inline Value<double> from_bits(Int<int64_t> x) {
  return Value<double>(ir::from_bits(x.v));
}
template <class I>
Int<I> shift_left(Int<I> x, int n) {
  return Int<I>(ir::shift_left(x.v, n));
}
template <class I>
Int<I> shift_right(Int<I> x, int n) {
  return Int<I>(ir::shift_right(x.v, n));
}
inline Value<double> widen(Value<float> x) { return Value<double>(x.v); }
inline Value<float> narrow(Value<double> x) { return Value<float>(x.v); }

}  // namespace traced

}  // namespace

template <class T>
struct neuron::ir::ScalarTraits<traced::Value<T>> {
  using Int = traced::IntFor<T>;
  using Mask = traced::Mask;
};
template <>
inline constexpr bool neuron::ir::math::kIsDouble<traced::Value<double>> = true;

namespace {

template <class F>
bool same(F a, F b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}
template <class F>
auto bits_of(F x) {
  return neuron::ir::bits(x);
}

/// Zeros, subnormals, the limits of the range, infinities, NaN, and the neighbourhood of
/// the places where a function changes its formula.
template <class F>
std::vector<F> edges() {
  using Limits = std::numeric_limits<F>;
  std::vector<F> result = {0,
                           Limits::denorm_min(),
                           Limits::min() / 3,
                           Limits::min(),
                           Limits::max(),
                           Limits::infinity(),
                           Limits::quiet_NaN()};
  for (double x :
       {1e-30,  1e-9,   0x1p-28, 0.25,   0.34657, 0.41421, 0.5,    0.70711, 0.7854,
        1.0,    1.25,   1.41421, 1.5708, 2.0,     3.0,     3.92,   4.0,     6.0,
        7.0,    10.0,   14.5,    25.0,   28.0,    39.5,    40.0,   50.0,    87.34,
        88.73,  103.98, 104.0,   120.0,  127.0,   128.0,   149.0,  150.0,   708.4,
        709.79, 710.5,  745.2,   750.0,  760.0,   1023.0,  1024.0, 1074.0,  1e4,
        0x1p27, 0x1p28, 0x1p30,  0x1p54, 1e22,    1e36}) {
    F value = static_cast<F>(x);
    result.push_back(value);
    result.push_back(std::nextafter(value, F(0)));
    result.push_back(std::nextafter(value, Limits::infinity()));
  }
  std::size_t count = result.size();
  for (std::size_t i = 0; i < count; ++i) result.push_back(-result[i]);
  return result;
}
/// Half any bit pattern, half of moderate size.
template <class F>
std::vector<F> random_values(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 4);
  std::vector<F> result;
  for (std::size_t i = 0; i < count; ++i) {
    using Pattern = decltype(neuron::ir::bits(F(0)));
    F any = neuron::ir::from_bits(static_cast<Pattern>(random()));
    result.push_back(i % 2 == 0 ? any : static_cast<F>(normal(random)));
  }
  return result;
}

template <class F>
class MathTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(MathTest, Types);

TYPED_TEST(MathTest, VectorLoopGivesTheBitsOfOneElement) {
  using F = TypeParam;
  std::vector<F> x = edges<F>();
  std::vector<F> more = random_values<F>(20001, 1);  // Odd: there is a tail.
  x.insert(x.end(), more.begin(), more.end());
  std::vector<F> out(x.size());
  for (const auto& row : kUnary<F>) {
    row.loop(x.data(), out.data(), static_cast<long>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(bits_of(out[i]), bits_of(row.one(x[i]))) << row.name << " of " << x[i];
    }
  }
}

TYPED_TEST(MathTest, BinaryVectorLoopGivesTheBitsOfOneElement) {
  using F = TypeParam;
  std::vector<F> x;
  std::vector<F> y;
  for (F a : edges<F>()) {
    for (F b : edges<F>()) x.push_back(a), y.push_back(b);
  }
  std::vector<F> more_x = random_values<F>(10001, 2);
  std::vector<F> more_y = random_values<F>(10001, 3);
  x.insert(x.end(), more_x.begin(), more_x.end());
  y.insert(y.end(), more_y.begin(), more_y.end());
  std::vector<F> out(x.size());
  for (const auto& row : kBinary<F>) {
    row.loop(x.data(), y.data(), out.data(), static_cast<long>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(bits_of(out[i]), bits_of(row.one(x[i], y[i])))
          << row.name << " of " << x[i] << ", " << y[i];
    }
  }
}

TYPED_TEST(MathTest, AnotherValueTypeGivesTheSameBits) {
  using F = TypeParam;
  using Value = traced::Value<F>;
  std::vector<F> x = edges<F>();
  std::vector<F> more = random_values<F>(2001, 6);
  x.insert(x.end(), more.begin(), more.end());
  for (std::size_t i = 0; i + 1 < x.size(); ++i) {
    Value v(x[i]);
    Value w(x[i + 1]);
#define CHECK_UNARY(f) \
  ASSERT_EQ(bits_of(m::f(v).v), bits_of(one_##f(x[i]))) << #f << x[i];
#define CHECK_BINARY(f) \
  ASSERT_EQ(bits_of(m::f(v, w).v), bits_of(one_##f(x[i], x[i + 1]))) << #f << x[i];
    FOR_UNARY(CHECK_UNARY)
    FOR_BINARY(CHECK_BINARY)
  }
}

TYPED_TEST(MathTest, ResultDoesNotDependOnPlaceInArray) {
  using F = TypeParam;
  std::vector<F> x = random_values<F>(64, 4);
  for (const auto& row : kUnary<F>) {
    for (long start = 0; start < 9; ++start) {
      for (long count = 0; count < 20; ++count) {
        std::vector<F> out(static_cast<std::size_t>(count));
        row.loop(x.data() + start, out.data(), count);
        for (long i = 0; i < count; ++i) {
          ASSERT_EQ(bits_of(out[i]), bits_of(row.one(x[start + i]))) << row.name;
        }
      }
    }
  }
}

TYPED_TEST(MathTest, NanGivesNan) {
  using F = TypeParam;
  for (const auto& row : kUnary<F>) EXPECT_TRUE(std::isnan(row.one(F(kNan)))) << row.name;
  for (const auto& row : kBinary<F>) {
    if (std::string(row.name) == "pow" || std::string(row.name) == "hypot") continue;
    EXPECT_TRUE(std::isnan(row.one(F(kNan), F(1)))) << row.name;
    EXPECT_TRUE(std::isnan(row.one(F(1), F(kNan)))) << row.name;
    EXPECT_TRUE(std::isnan(row.one(F(kInf), F(kNan)))) << row.name;
  }
}

TYPED_TEST(MathTest, OddFunctionsKeepTheSign) {
  using F = TypeParam;
  const Unary<F> odd[] = {one_expm1<F>, one_log1p<F>, one_sin<F>,  one_tan<F>,
                          one_asin<F>,  one_atan<F>,  one_sinh<F>, one_tanh<F>,
                          one_asinh<F>, one_atanh<F>, one_erf<F>,  one_erfinv<F>};
  using Limits = std::numeric_limits<F>;
  for (const auto& f : odd) {
    EXPECT_TRUE(same(f(F(0)), F(0))) << &f - odd;
    EXPECT_TRUE(same(f(F(-0.0)), F(-0.0))) << &f - odd;
  }
  // A subnormal argument of a function with slope 1 comes back.
  for (std::size_t i = 0; i < 10; ++i) {
    for (F x : {Limits::denorm_min(), -Limits::denorm_min(), Limits::min() / 3}) {
      EXPECT_TRUE(same(odd[i](x), x)) << i;
    }
  }
}

template <class F>
struct Case {
  Unary<F> f;
  double x, wanted;
};

template <class F>
void expect_cases(const std::vector<Case<F>>& cases) {
  for (std::size_t i = 0; i < cases.size(); ++i) {
    F got = cases[i].f(static_cast<F>(cases[i].x));
    EXPECT_TRUE(same(got, static_cast<F>(cases[i].wanted)))
        << "case " << i << ": f(" << cases[i].x << ") = " << got << ", expected "
        << cases[i].wanted;
  }
}

TYPED_TEST(MathTest, ExponentialsAndLogarithmsAtTheEdges) {
  using F = TypeParam;
  expect_cases<F>({{one_exp<F>, 0, 1},         {one_exp<F>, -0.0, 1},
                   {one_exp<F>, kInf, kInf},   {one_exp<F>, -kInf, 0},
                   {one_exp<F>, 1000, kInf},   {one_exp<F>, -1000, 0},
                   {one_exp2<F>, 10, 1024},    {one_exp2<F>, -3, 0.125},
                   {one_exp2<F>, kInf, kInf},  {one_exp2<F>, -kInf, 0},
                   {one_expm1<F>, kInf, kInf}, {one_expm1<F>, -kInf, -1},
                   {one_log<F>, 1, 0},         {one_log<F>, 0, -kInf},
                   {one_log<F>, -0.0, -kInf},  {one_log<F>, -1, kNan},
                   {one_log<F>, -kInf, kNan},  {one_log<F>, kInf, kInf},
                   {one_log2<F>, 1, 0},        {one_log2<F>, 8, 3},
                   {one_log2<F>, 0, -kInf},    {one_log2<F>, 0x1p-140, -140},
                   {one_log2<F>, -1, kNan},    {one_log2<F>, kInf, kInf},
                   {one_log10<F>, 1, 0},       {one_log10<F>, 1000, 3},
                   {one_log10<F>, 0, -kInf},   {one_log10<F>, -1, kNan},
                   {one_log10<F>, kInf, kInf}, {one_log1p<F>, -1, -kInf},
                   {one_log1p<F>, -2, kNan},   {one_log1p<F>, kInf, kInf}});
}

TYPED_TEST(MathTest, AnglesAndHyperbolicsAtTheEdges) {
  using F = TypeParam;
  expect_cases<F>({{one_sin<F>, kInf, kNan},      {one_sin<F>, -kInf, kNan},
                   {one_cos<F>, kInf, kNan},      {one_cos<F>, 0, 1},
                   {one_tan<F>, kInf, kNan},      {one_asin<F>, 1, M_PI_2},
                   {one_asin<F>, -1, -M_PI_2},    {one_asin<F>, 1.5, kNan},
                   {one_acos<F>, 1, 0},           {one_acos<F>, -1, M_PI},
                   {one_acos<F>, -1.5, kNan},     {one_atan<F>, kInf, M_PI_2},
                   {one_atan<F>, -kInf, -M_PI_2}, {one_sinh<F>, kInf, kInf},
                   {one_sinh<F>, -kInf, -kInf},   {one_sinh<F>, 1000, kInf},
                   {one_cosh<F>, 0, 1},           {one_cosh<F>, -kInf, kInf},
                   {one_tanh<F>, kInf, 1},        {one_tanh<F>, -kInf, -1},
                   {one_asinh<F>, kInf, kInf},    {one_asinh<F>, -kInf, -kInf},
                   {one_acosh<F>, 1, 0},          {one_acosh<F>, 0.5, kNan},
                   {one_acosh<F>, -kInf, kNan},   {one_acosh<F>, kInf, kInf},
                   {one_atanh<F>, 1, kInf},       {one_atanh<F>, -1, -kInf},
                   {one_atanh<F>, 2, kNan}});
}

TYPED_TEST(MathTest, SigmoidsAndErrorFunctionsAtTheEdges) {
  using F = TypeParam;
  expect_cases<F>({{one_erf<F>, kInf, 1},
                   {one_erf<F>, -kInf, -1},
                   {one_erfc<F>, kInf, 0},
                   {one_erfc<F>, -kInf, 2},
                   {one_erfc<F>, 0, 1},
                   {one_erfinv<F>, 1, kInf},
                   {one_erfinv<F>, -1, -kInf},
                   {one_erfinv<F>, 1.5, kNan},
                   {one_sigmoid<F>, 0, 0.5},
                   {one_sigmoid<F>, kInf, 1},
                   {one_sigmoid<F>, -kInf, 0},
                   {one_silu<F>, 0, 0},
                   {one_silu<F>, -0.0, -0.0},
                   {one_silu<F>, kInf, kInf},
                   {one_silu<F>, -kInf, kNan},
                   {one_silu<F>, 1e30, static_cast<F>(1e30)},
                   {one_silu<F>, -1e30, -0.0},
                   {one_gelu<F>, 0, 0},
                   {one_gelu<F>, -0.0, -0.0},
                   {one_gelu<F>, kInf, kInf},
                   {one_gelu<F>, -kInf, kNan},
                   {one_gelu<F>, -1e30, -0.0},
                   {one_gelu_tanh<F>, 0, 0},
                   {one_gelu_tanh<F>, kInf, kInf},
                   {one_gelu_tanh<F>, -1e30, -0.0},
                   {one_softplus<F>, kInf, kInf},
                   {one_softplus<F>, -kInf, 0},
                   {one_softplus<F>, 1e30, static_cast<F>(1e30)},
                   {one_rsqrt<F>, 0, kInf},
                   {one_rsqrt<F>, -0.0, -kInf},
                   {one_rsqrt<F>, kInf, 0},
                   {one_rsqrt<F>, -1, kNan},
                   {one_rsqrt<F>, 4, 0.5}});
}

TYPED_TEST(MathTest, BinaryFunctionsAgreeWithTheLibraryAtTheEdges) {
  using F = TypeParam;
  // Where a result is exact (0, 1, an infinity, NaN) it must be the library's, and
  // elsewhere within the stated error.
  constexpr double kMaxError = 1.5;
  const std::pair<Binary<F>, F (*)(F, F)> pairs[] = {
      {one_pow<F>, [](F x, F y) -> F { return std::pow(x, y); }},
      {one_atan2<F>, [](F x, F y) -> F { return std::atan2(x, y); }},
      {one_hypot<F>, [](F x, F y) -> F { return std::hypot(x, y); }},
      {one_fmod<F>, [](F x, F y) -> F { return std::fmod(x, y); }}};
  for (auto [ours, library] : pairs) {
    for (F x : edges<F>()) {
      for (F y : edges<F>()) {
        F got = ours(x, y);
        F wanted = library(x, y);
        if (same(got, wanted)) continue;
        F step = std::abs(std::nextafter(wanted, F(kInf)) - wanted);
        if (std::isinf(wanted)) step = 0;
        ASSERT_LE(std::abs(double(got) - double(wanted)), kMaxError * double(step))
            << (&ours - &pairs[0].first) << ": " << x << ", " << y << " gives " << got
            << ", expected " << wanted;
      }
    }
  }
}

TYPED_TEST(MathTest, RemainderHasTheSignOfTheDivisor) {
  using F = TypeParam;
  EXPECT_TRUE(same(m::remainder(F(5), F(3)), F(2)));
  EXPECT_TRUE(same(m::remainder(F(-5), F(3)), F(1)));
  EXPECT_TRUE(same(m::remainder(F(5), F(-3)), F(-1)));
  EXPECT_TRUE(same(m::remainder(F(-6), F(3)), F(-0.0)));
  EXPECT_TRUE(std::isnan(m::remainder(F(1), F(0))));
  EXPECT_TRUE(std::isnan(m::remainder(F(kInf), F(2))));
}

TYPED_TEST(MathTest, LogaddexpHandlesInfinities) {
  using F = TypeParam;
  EXPECT_TRUE(same(m::logaddexp(F(-kInf), F(-kInf)), F(-kInf)));
  EXPECT_TRUE(same(m::logaddexp(F(kInf), F(kInf)), F(kInf)));
  EXPECT_TRUE(same(m::logaddexp(F(kInf), F(-kInf)), F(kInf)));
  EXPECT_TRUE(same(m::logaddexp(F(-kInf), F(3)), F(3)));
  EXPECT_TRUE(same(m::logaddexp(F(3), F(-kInf)), F(3)));
}

TYPED_TEST(MathTest, ExactAtIntegersAndPowersOfTwo) {
  using F = TypeParam;
  const int last = std::is_same_v<F, float> ? 127 : 1023;
  const int first = std::is_same_v<F, float> ? -149 : -1074;
  for (int k = first; k <= last; ++k) {
    F power = std::ldexp(F(1), k);
    EXPECT_EQ(m::exp2(F(k)), power) << k;
    EXPECT_EQ(m::log2(power), F(k)) << k;
  }
  for (int k = 0; k < 20; ++k) EXPECT_EQ(m::pow(F(3), F(k % 13)), std::pow(3.0, k % 13));
}

TYPED_TEST(MathTest, RisingFunctionsRise) {
  using F = TypeParam;
  const Unary<F> rising[] = {one_exp<F>,  one_expm1<F>,   one_atan<F>,
                             one_sinh<F>, one_tanh<F>,    one_asinh<F>,
                             one_erf<F>,  one_sigmoid<F>, one_softplus<F>};
  for (auto f : rising) {
    F previous = F(-kInf);
    for (int i = -12 * 1024; i <= 12 * 1024; ++i) {
      F value = f(static_cast<F>(i / 1024.0));
      ASSERT_GE(value, previous) << i / 1024.0;
      previous = value;
    }
  }
}

TYPED_TEST(MathTest, CloseToLongDouble) {
  using F = TypeParam;
  // The table in docs/numerics.md has the measured errors; this guards against slips.
  constexpr double kMaxError = 1.01;
  const std::pair<Unary<F>, long double (*)(long double)> pairs[] = {
      {one_exp<F>, expl},     {one_exp2<F>, exp2l},   {one_expm1<F>, expm1l},
      {one_log<F>, logl},     {one_log2<F>, log2l},   {one_log10<F>, log10l},
      {one_log1p<F>, log1pl}, {one_sin<F>, sinl},     {one_cos<F>, cosl},
      {one_tan<F>, tanl},     {one_asin<F>, asinl},   {one_acos<F>, acosl},
      {one_atan<F>, atanl},   {one_sinh<F>, sinhl},   {one_cosh<F>, coshl},
      {one_tanh<F>, tanhl},   {one_asinh<F>, asinhl}, {one_acosh<F>, acoshl},
      {one_atanh<F>, atanhl}, {one_erf<F>, erfl},     {one_erfc<F>, erfcl}};
  int idx = 0;
  for (auto [ours, reference] : pairs) {
    for (F x : random_values<F>(20000, 5)) {
      F got = ours(x);
      long double wanted = reference(x);
      if (std::isnan(wanted)) {
        ASSERT_TRUE(std::isnan(got)) << idx << " of " << x;
        continue;
      }
      F rounded = static_cast<F>(wanted);
      if (same(got, rounded) || std::isinf(rounded)) {
        ASSERT_TRUE(same(got, rounded)) << idx << " of " << x;
        continue;
      }
      int exponent =
          std::max(std::ilogb(wanted), std::numeric_limits<F>::min_exponent - 1);
      long double unit = std::ldexp(1.0L, exponent - std::numeric_limits<F>::digits + 1);
      ASSERT_LE(std::abs(got - wanted) / unit, kMaxError) << idx << " of " << x;
    }
    ++idx;
  }
}

TEST(Math, HugeAngles) {
  EXPECT_EQ(m::sin(1e22), -0.8522008497671888);
  EXPECT_EQ(m::cos(0x1p1023), static_cast<double>(cosl(0x1p1023L)));
  // The double closest to a multiple of pi/2.
  EXPECT_NEAR(m::cos(0x1.6ac5b262ca1ffp+849) / -0x1.14ae72e6ba22fp-61, 1.0, 1e-15);
  EXPECT_EQ(m::sin(0x1p127f), static_cast<float>(std::sin(0x1p127)));
}

}  // namespace
