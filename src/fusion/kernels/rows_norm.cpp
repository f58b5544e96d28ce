// Layer norm and its gradients.
//
// With n = (x - mean) * rstd and g = grad * weight, for a row of `size` elements:
//   out         = n * weight + bias
//   grad_in     = (g - sum(g) / size - n * (sum(g * n) / size)) * rstd
//   grad_weight = the sum over rows of grad * n,  grad_bias = the sum over rows of grad
// All sums are those of law 2.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "fusion/kernels/rows.h"
#include "fusion/kernels/rows_float.h"
#include "fusion/kernels/rows_tree.h"

namespace neuron::fusion {
namespace {

using ir::DType;

/// A vector widened once for all rows; empty for nullptr.
template <class T>
std::vector<AccOf<T>> widen_all(const T* from, int64_t count) {
  if (from == nullptr) return {};
  std::vector<AccOf<T>> result(count);
  for (int64_t i = 0; i < count; ++i) result[i] = widen(from[i]);
  return result;
}

template <class Acc>
std::vector<Acc> load_all(DType dtype, const void* from, int64_t count) {
  std::vector<Acc> result(count);
  for (int64_t i = 0; i < count; ++i) result[i] = load_as<Acc>(dtype, from, i);
  return result;
}

/// The mean of a row and 1 / sqrt(variance + eps).
template <class T>
struct RowStats {
  AccOf<T> mean;
  AccOf<T> rstd;

  RowStats(const T* x, int64_t size, AccOf<T> eps) {
    using Acc = AccOf<T>;
    const Acc count = static_cast<Acc>(size);
    const Acc centre =
        tree_sum<Acc>(size, [=](int64_t k) { return Acc{widen(x[k])}; }) / count;
    const Acc squares = tree_sum<Acc>(size, [=](int64_t k) {
      const Acc distance = Acc{widen(x[k])} - centre;
      return distance * distance;
    });
    mean = centre;
    rstd = Acc{1} / std::sqrt(squares / count + eps);
  }
};

template <class T>
void normalize_row(const T* x, const RowStats<T>& stats, const AccOf<T>* weight,
                   const AccOf<T>* bias, int64_t size, T* out) {
  using Acc = AccOf<T>;
  const Acc mean = stats.mean;
  const Acc rstd = stats.rstd;
  const auto write = [=](const auto& affine) {
    for (int64_t k = 0; k < size; ++k) {
      out[k] = narrow<T>(one_nan(affine((Acc{widen(x[k])} - mean) * rstd, k)));
    }
  };
  if (weight != nullptr && bias != nullptr) {
    return write([=](Acc normal, int64_t k) { return normal * weight[k] + bias[k]; });
  }
  if (weight != nullptr)
    return write([=](Acc normal, int64_t k) { return normal * weight[k]; });
  if (bias != nullptr)
    return write([=](Acc normal, int64_t k) { return normal + bias[k]; });
  write([](Acc normal, int64_t) { return normal; });
}

template <class T>
const AccOf<T>* data_or_null(const std::vector<AccOf<T>>& values, const void* original) {
  return original == nullptr ? nullptr : values.data();
}

template <class T>
void forward_of_type(const T* in, const T* weight, const T* bias, double eps,
                     int64_t rows, int64_t size, T* out, DType stats_dtype, void* mean,
                     void* rstd) {
  using Acc = AccOf<T>;
  const auto wide_weight = widen_all(weight, size);
  const auto wide_bias = widen_all(bias, size);
  parallel_for(rows, grain_of(size), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* x = in + r * size;
      const RowStats<T> stats(x, size, static_cast<Acc>(eps));
      store_as(stats_dtype, mean, r, stats.mean);
      store_as(stats_dtype, rstd, r, stats.rstd);
      normalize_row(x, stats, data_or_null<T>(wide_weight, weight),
                    data_or_null<T>(wide_bias, bias), size, out + r * size);
    }
  });
}

// ------------------------------------------------------------------ gradients
template <class T, bool kWeight>
void backward_row(const T* grad, const T* x, const AccOf<T>* weight, AccOf<T> mean,
                  AccOf<T> rstd, int64_t size, T* grad_in) {
  using Acc = AccOf<T>;
  const auto normal = [=](int64_t k) { return (Acc{widen(x[k])} - mean) * rstd; };
  const auto slope = [=](int64_t k) {
    const Acc g = widen(grad[k]);
    return kWeight ? g * weight[k] : g;
  };
  const Acc count = static_cast<Acc>(size);
  const Acc level = tree_sum<Acc>(size, slope) / count;
  const Acc tilt =
      tree_sum<Acc>(size, [=](int64_t k) { return slope(k) * normal(k); }) / count;
  for (int64_t k = 0; k < size; ++k) {
    grad_in[k] = narrow<T>(one_nan(((slope(k) - level) - normal(k) * tilt) * rstd));
  }
}

/// grad_weight and grad_bias of `count` columns; either may be nullptr.
template <class T>
void backward_columns(const T* grad, const T* x, const AccOf<T>* mean,
                      const AccOf<T>* rstd, int64_t rows, int64_t size, int64_t count,
                      T* grad_weight, T* grad_bias) {
  using Acc = AccOf<T>;
  ColumnLanes<Acc> lanes;
  alignas(64) Acc sums[kColumns];
  const auto store = [&](T* to) {
    for (int64_t c = 0; c < count; ++c) to[c] = narrow<T>(one_nan(sums[c]));
  };
  ColumnLanes<Acc> bias_lanes;
  alignas(64) Acc bias_sums[kColumns];
  std::fill_n(bias_sums, count, Acc{0});
  if (grad_weight == nullptr) {
    column_sums(rows, count, lanes, sums, [&](int64_t r, Acc* lane) {
      const T* g = grad + r * size;
      each_column(count, [=](int64_t c) { lane[c] += Acc{widen(g[c])}; });
    });
    return store(grad_bias);
  }
  // Both at once, as they read the same gradient.
  column_sums(rows, count, lanes, sums, [&](int64_t r, Acc* lane) {
    const T* g = grad + r * size;
    const T* from = x + r * size;
    const Acc centre = mean[r];
    const Acc scale = rstd[r];
    if (r % kChunk == 0) {
      if (r > 0) bias_lanes.fold_into(bias_sums, count);
      bias_lanes.clear(rows - r, count);
    }
    Acc* bias_lane = bias_lanes.of(r);
    each_column(count, [=](int64_t c) {
      const Acc slope = widen(g[c]);
      lane[c] += slope * ((Acc{widen(from[c])} - centre) * scale);
      bias_lane[c] += slope;
    });
  });
  store(grad_weight);
  if (grad_bias == nullptr) return;
  if (rows > 0) bias_lanes.fold_into(bias_sums, count);
  std::copy_n(bias_sums, count, sums);
  store(grad_bias);
}

template <class T>
void backward_of_type(const T* grad, const T* in, DType stats_dtype, const void* mean,
                      const void* rstd, const T* weight, int64_t rows, int64_t size,
                      T* grad_in, T* grad_weight, T* grad_bias) {
  using Acc = AccOf<T>;
  const auto means = load_all<Acc>(stats_dtype, mean, rows);
  const auto rstds = load_all<Acc>(stats_dtype, rstd, rows);
  const auto wide_weight = widen_all(weight, size);
  if (grad_in != nullptr) {
    const auto row = weight != nullptr ? backward_row<T, true> : backward_row<T, false>;
    parallel_for(rows, grain_of(2 * size), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        row(grad + r * size, in + r * size, wide_weight.data(), means[r], rstds[r], size,
            grad_in + r * size);
      }
    });
  }
  if (grad_weight == nullptr && grad_bias == nullptr) return;
  const int64_t share = size / (2 * num_threads()) / 16 * 16;
  const int64_t width = std::clamp<int64_t>(share, 64, kColumns);
  parallel_for((size + width - 1) / width, grain_of(2 * width * rows),
               [&](int64_t begin, int64_t end) {
                 for (int64_t c = begin * width; c < std::min(size, end * width);
                      c += width) {
                   backward_columns(grad + c, in + c, means.data(), rstds.data(), rows,
                                    size, std::min(width, size - c),
                                    grad_weight == nullptr ? nullptr : grad_weight + c,
                                    grad_bias == nullptr ? nullptr : grad_bias + c);
                 }
               });
}

}  // namespace

void layer_norm(DType dtype, const void* in, const void* weight, const void* bias,
                double eps, int64_t rows, int64_t size, void* out, DType stats_dtype,
                void* mean, void* rstd) {
  with_float(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    forward_of_type(static_cast<const T*>(in), static_cast<const T*>(weight),
                    static_cast<const T*>(bias), eps, rows, size, static_cast<T*>(out),
                    stats_dtype, mean, rstd);
  });
}

void layer_norm_backward(DType dtype, const void* grad, const void* in, DType stats_dtype,
                         const void* mean, const void* rstd, const void* weight,
                         int64_t rows, int64_t size, void* grad_in, void* grad_weight,
                         void* grad_bias) {
  with_float(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    backward_of_type(static_cast<const T*>(grad), static_cast<const T*>(in), stats_dtype,
                     mean, rstd, static_cast<const T*>(weight), rows, size,
                     static_cast<T*>(grad_in), static_cast<T*>(grad_weight),
                     static_cast<T*>(grad_bias));
  });
}

}  // namespace neuron::fusion
