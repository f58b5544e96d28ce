// Elements of any dtype, a matrix of them and the laws of rows.h written literally, for
// the tests of the row kernels.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "base/parallel.h"
#include "fusion/kernels/rows.h"

namespace neuron::fusion {

using ir::DType;

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline const std::vector<DType> kFloats = {DType::kFloat16, DType::kBFloat16,
                                           DType::kFloat32, DType::kFloat64};
inline const std::vector<DType> kIntegers = {DType::kBool,  DType::kUInt8, DType::kInt8,
                                             DType::kInt16, DType::kInt32, DType::kInt64};
inline const std::vector<int64_t> kSizes = {1,  2,    7,    15,   16,   17,
                                            64, 1000, 4095, 4096, 4097, 9000};

inline bool is_float(DType dtype) {
  return std::find(kFloats.begin(), kFloats.end(), dtype) != kFloats.end();
}

inline int64_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt16:
      return 2;
    default:
      return 1;
  }
}

/// Half a unit in the last place, relative.
inline double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 0x1p-11;
    case DType::kBFloat16:
      return 0x1p-8;
    case DType::kFloat32:
      return 0x1p-24;
    default:
      return 0x1p-53;
  }
}

// Conversions by their definition: slow, and written without a look at the kernels'.
inline double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? kNan : sign * kInf;
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24)
                               : std::ldexp(mantissa + 1024, exponent - 25));
}
inline uint16_t half_bits(double x) {
  if (std::isnan(x)) return 0x7e00;
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  x = std::abs(x);
  if (x >= 65520) return sign | 0x7c00;
  const int exponent = x < 0x1p-14 ? -14 : std::ilogb(x);
  const double mantissa = std::nearbyint(std::ldexp(x, 10 - exponent));  // may be 2048
  return static_cast<uint16_t>(sign |
                               (static_cast<int>(mantissa) + ((exponent + 14) << 10)));
}
inline uint16_t bfloat_bits(float x) {
  if (std::isnan(x)) return 0x7fc0;
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t rest = bits & 0xffff;
  const bool up = rest > 0x8000 || (rest == 0x8000 && (bits >> 16 & 1) != 0);
  return static_cast<uint16_t>((bits >> 16) + (up ? 1 : 0));
}

/// Elements of any dtype, read and written as doubles.
class Elements {
 public:
  Elements(DType dtype, int64_t count)
      : dtype_(dtype), bytes_(count * bytes_of(dtype) + 8) {
    count_ = count;
  }
  Elements(DType dtype, const std::vector<double>& values)
      : Elements(dtype, static_cast<int64_t>(values.size())) {
    for (int64_t i = 0; i < count_; ++i) set(i, values[i]);
  }
  int64_t size() const { return count_; }
  DType dtype() const { return dtype_; }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  double operator[](int64_t i) const {
    switch (dtype_) {
      case DType::kFloat64:
        return get<double>(i);
      case DType::kFloat32:
        return get<float>(i);
      case DType::kFloat16:
        return half_value(get<uint16_t>(i));
      case DType::kBFloat16:
        return std::bit_cast<float>(static_cast<uint32_t>(get<uint16_t>(i)) << 16);
      case DType::kInt64:
        return static_cast<double>(get<int64_t>(i));
      case DType::kInt32:
        return get<int32_t>(i);
      case DType::kInt16:
        return get<int16_t>(i);
      case DType::kInt8:
        return get<int8_t>(i);
      default:
        return get<uint8_t>(i);
    }
  }
  void set(int64_t i, double x) {
    switch (dtype_) {
      case DType::kFloat64:
        return put<double>(i, x);
      case DType::kFloat32:
        return put<float>(i, static_cast<float>(x));
      case DType::kFloat16:
        return put<uint16_t>(i, half_bits(x));
      case DType::kBFloat16:
        return put<uint16_t>(i, bfloat_bits(static_cast<float>(x)));
      case DType::kInt64:
        return put<int64_t>(i, static_cast<int64_t>(x));
      case DType::kInt32:
        return put<int32_t>(i, static_cast<int32_t>(x));
      case DType::kInt16:
        return put<int16_t>(i, static_cast<int16_t>(x));
      case DType::kInt8:
        return put<int8_t>(i, static_cast<int8_t>(x));
      case DType::kBool:
        return put<uint8_t>(i, x != 0 ? 1 : 0);
      default:
        return put<uint8_t>(i, static_cast<uint8_t>(x));
    }
  }
  std::vector<double> values() const {
    std::vector<double> result(count_);
    for (int64_t i = 0; i < count_; ++i) result[i] = (*this)[i];
    return result;
  }
  friend bool operator==(const Elements& a, const Elements& b) {
    return std::memcmp(a.data(), b.data(), a.count_ * bytes_of(a.dtype_)) == 0;
  }

 private:
  template <class T>
  T get(int64_t i) const {
    T result;
    std::memcpy(&result, bytes_.data() + i * sizeof(T), sizeof(T));
    return result;
  }
  template <class T>
  void put(int64_t i, T x) {
    std::memcpy(bytes_.data() + i * sizeof(T), &x, sizeof(T));
  }
  DType dtype_;
  int64_t count_;
  std::vector<unsigned char> bytes_;
};

/// Numbers of a fixed sequence, between -1 and 1.
inline std::vector<double> numbers(int64_t count, uint64_t seed = 1) {
  std::vector<double> result(count);
  uint64_t state = seed * 0x9e3779b97f4a7c15;
  for (double& x : result) {
    state = state * 6364136223846793005 + 1442695040888963407;
    x = static_cast<double>(static_cast<int32_t>(state >> 32)) * 0x1p-31;
  }
  return result;
}

/// Values that `dtype` can hold: small integers for integers.
inline Elements elements(DType dtype, int64_t count, uint64_t seed = 1) {
  std::vector<double> values = numbers(count, seed);
  if (!is_float(dtype)) {
    const bool is_signed = dtype != DType::kBool && dtype != DType::kUInt8;
    for (double& x : values) x = std::round(is_signed ? x * 50 : std::abs(x) * 1.4);
  }
  return {dtype, values};
}

/// A row-major matrix [rows, size] whose rows are reduced.
inline ReduceShape rows_of(int64_t rows, int64_t size) {
  ReduceShape shape;
  shape.num_kept = shape.num_reduced = 1;
  shape.sizes[0] = rows;
  shape.sizes[1] = size;
  shape.in_strides[0] = size;
  shape.in_strides[1] = 1;
  shape.out_strides[0] = 1;
  return shape;
}

/// The same values stored [size, rows].
inline Elements transposed(const Elements& matrix, int64_t rows, int64_t size) {
  Elements result(matrix.dtype(), matrix.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < size; ++k) result.set(k * rows + r, matrix[r * size + k]);
  }
  return result;
}

inline Elements reduced(Reduce op, const Elements& in, DType out_dtype,
                        const ReduceShape& shape, int64_t rows, double correction = 1) {
  Elements out(out_dtype, rows);
  reduce(op, in.dtype(), in.data(), out_dtype, out.data(), shape, correction);
  return out;
}

class Threads {
 public:
  explicit Threads(int count) { set_num_threads(count); }
  ~Threads() { set_num_threads(0); }
};

// ------------------------------------------------------------------ law 2, literally
template <class Acc>
Acc law_2(const std::vector<Acc>& terms) {
  Acc sum = 0;
  for (size_t chunk = 0; chunk < terms.size(); chunk += 4096) {
    Acc lanes[16] = {};
    for (size_t k = chunk; k < std::min(terms.size(), chunk + 4096); ++k) {
      lanes[k % 16] += terms[k];
    }
    for (int half : {8, 4, 2, 1}) {
      for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
    }
    sum += lanes[0];
  }
  return sum;
}

template <class Acc>
std::vector<Acc> row_as(const Elements& in, int64_t row, int64_t size) {
  std::vector<Acc> result(size);
  for (int64_t k = 0; k < size; ++k) result[k] = static_cast<Acc>(in[row * size + k]);
  return result;
}

template <class Acc>
inline Elements sums_by_law(const Elements& in, DType out, int64_t rows, int64_t size) {
  Elements result(out, rows);
  for (int64_t r = 0; r < rows; ++r) {
    result.set(r, static_cast<double>(law_2(row_as<Acc>(in, r, size))));
  }
  return result;
}

/// What a reduction of a row is by definition.
inline double reference(Reduce op, const std::vector<double>& row, double correction) {
  const double size = static_cast<double>(row.size());
  const auto fold = [&](double start, auto&& step) {
    return std::accumulate(row.begin(), row.end(), start, step);
  };
  const double sum = fold(0, [](double a, double x) { return a + x; });
  switch (op) {
    case Reduce::kSum:
      return sum;
    case Reduce::kMean:
      return sum / size;
    case Reduce::kAmax:
      return *std::max_element(row.begin(), row.end());
    case Reduce::kAmin:
      return *std::min_element(row.begin(), row.end());
    case Reduce::kProd:
      return fold(1, [](double a, double x) { return a * x; });
    case Reduce::kAny:
      return fold(0, [](double a, double x) { return a + (x != 0); }) > 0;
    case Reduce::kAll:
      return fold(0, [](double a, double x) { return a + (x == 0); }) == 0;
    case Reduce::kNorm2:
      return std::sqrt(fold(0, [](double a, double x) { return a + x * x; }));
    case Reduce::kNorm1:
      return fold(0, [](double a, double x) { return a + std::abs(x); });
    case Reduce::kNormInf:
      return fold(0, [](double a, double x) { return std::max(a, std::abs(x)); });
    case Reduce::kArgmax:
      return std::max_element(row.begin(), row.end()) - row.begin();
    case Reduce::kArgmin:
      return std::min_element(row.begin(), row.end()) - row.begin();
    default:
      break;
  }
  const double mean = sum / size;
  const double squares =
      fold(0, [=](double a, double x) { return a + (x - mean) * (x - mean); });
  const double variance = squares / (size - correction);
  return op == Reduce::kStd ? std::sqrt(variance) : variance;
}

/// Larger than any error of a function of rows worked out in float or double.
inline double tolerance_of(DType dtype) {
  return 2 * epsilon_of(dtype) + (dtype == DType::kFloat64 ? 1e-13 : 2e-6);
}

}  // namespace neuron::fusion
