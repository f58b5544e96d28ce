// softmax and log_softmax with their gradients.
//
// Rows of contiguous elements are done one by one; for inner > 1 a block of columns is
// done at once, along memory. A row is three steps (largest, sum of exponentials, result)
// in pieces of a chunk; a few large rows share out the pieces. The sum is that of law 2.
#include <algorithm>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "fusion/kernels/rows.h"
#include "fusion/kernels/rows_float.h"
#include "fusion/kernels/rows_tree.h"
#include "ir/math.h"

namespace neuron::fusion {
namespace {

/// An exponential is worth so many elements of simple work.
constexpr int64_t kExpWork = 8;
/// Exponentials are made in pieces short enough to overlap with their addition.
constexpr int64_t kPiece = 64;
static_assert(kChunk % kPiece == 0 && kPiece % kLanes == 0);

template <class Acc>
inline Acc larger(Acc best, Acc x) {
  return (x > best) | (x != x) ? x : best;
}

/// The largest of a chunk; NaN if it has one. Its sign of zero does not matter here.
template <class T>
AccOf<T> chunk_max(const T* x, int64_t count) {
  using Acc = AccOf<T>;
  constexpr int kMaxLanes = 32;
  if (count < kMaxLanes) {
    Acc max = widen(x[0]);
    for (int64_t k = 1; k < count; ++k) max = larger(max, Acc{widen(x[k])});
    return max;
  }
  alignas(64) Acc lanes[kMaxLanes];
  const auto fold = [&](int64_t begin) {
    for (int j = 0; j < kMaxLanes; ++j)
      lanes[j] = larger(lanes[j], Acc{widen(x[begin + j])});
  };
  for (int j = 0; j < kMaxLanes; ++j) lanes[j] = widen(x[j]);
  for (int64_t k = kMaxLanes; k + kMaxLanes <= count; k += kMaxLanes) fold(k);
  fold(count - kMaxLanes);  // the last ones; some for the second time, which is no matter
  for (int j = 0; j < 16; ++j) lanes[j] = larger(lanes[j], lanes[j + 16]);
  for (int j = 0; j < 8; ++j) lanes[j] = larger(lanes[j], lanes[j + 8]);
  for (int j = 1; j < 8; ++j) lanes[0] = larger(lanes[0], lanes[j]);
  return lanes[0];
}

/// Sums exp(x - max) of a chunk; the terms go to `terms` unless it is nullptr.
template <class T>
AccOf<T> chunk_exp_sum(const T* x, int64_t count, AccOf<T> max, AccOf<T>* terms) {
  using Acc = AccOf<T>;
  alignas(64) Acc lanes[kLanes] = {};
  alignas(64) Acc own[kPiece];
  int64_t k = 0;
  for (; k + kPiece <= count; k += kPiece) {
    Acc* piece = terms == nullptr ? own : terms + k;
    for (int64_t i = 0; i < kPiece; ++i) {
      piece[i] = ir::math::exp<Acc>(Acc{widen(x[k + i])} - max);
    }
    for (int64_t i = 0; i < kPiece; i += kLanes) {
      for (int j = 0; j < kLanes; ++j) lanes[j] += piece[i + j];
    }
  }
  if (k < count) {
    // Made up to whole lanes, so that no exponential is worked out by itself; a term of
    // zero changes no lane.
    const int64_t rest = count - k;
    const int64_t padded = (rest + kLanes - 1) / kLanes * kLanes;
    for (int64_t i = 0; i < rest; ++i) own[i] = Acc{widen(x[k + i])} - max;
    std::fill(own + rest, own + padded, Acc{0});
    for (int64_t i = 0; i < padded; i += kLanes) {
      for (int j = 0; j < kLanes; ++j) own[i + j] = ir::math::exp<Acc>(own[i + j]);
    }
    std::fill(own + rest, own + padded, Acc{0});
    for (int64_t i = 0; i < padded; i += kLanes) {
      for (int j = 0; j < kLanes; ++j) lanes[j] += own[i + j];
    }
    if (terms != nullptr) std::copy(own, own + rest, terms + k);
  }
  return fold_lanes<Plus>(lanes);
}

template <class T>
void fill_nan(T* out, int64_t count) {
  using Acc = AccOf<T>;
  std::fill_n(out, count, narrow<T>(std::numeric_limits<Acc>::quiet_NaN()));
}

/// The last step for elements of one row.
template <class T>
void finish_elements(bool is_log, const T* x, const AccOf<T>* terms, int64_t count,
                     AccOf<T> max, AccOf<T> sum, AccOf<T> log_sum, T* out) {
  using Acc = AccOf<T>;
  if (sum != sum) return fill_nan(out, count);
  if (is_log) {
    for (int64_t k = 0; k < count; ++k) {
      out[k] = narrow<T>((Acc{widen(x[k])} - max) - log_sum);
    }
  } else {
    for (int64_t k = 0; k < count; ++k) out[k] = narrow<T>(terms[k] / sum);
  }
}

/// Calls body(begin, count) for each chunk, shared out when `parallel`.
template <class Body>
void for_each_chunk(bool parallel, int64_t size, int64_t work, const Body& body) {
  const int64_t chunks = (size + kChunk - 1) / kChunk;
  const auto range = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      body(i * kChunk, std::min(kChunk, size - i * kChunk));
    }
  };
  if (!parallel) return range(0, chunks);
  parallel_for(chunks, grain_of(kChunk * work), range);
}

/// Room for a row's terms: in the output when it is of their type.
template <class T>
class Terms {
 public:
  explicit Terms(int64_t size) {
    if constexpr (!kInPlace) buffer_ = std::make_unique_for_overwrite<AccOf<T>[]>(size);
  }
  AccOf<T>* of(T* out) {
    if constexpr (kInPlace)
      return out;
    else
      return buffer_.get();
  }
  static constexpr bool kInPlace = std::is_same_v<T, AccOf<T>>;

 private:
  std::unique_ptr<AccOf<T>[]> buffer_;
};

/// One row of contiguous elements; `maxima` and `sums` have room for one of each chunk.
template <class T>
void softmax_row(bool is_log, bool parallel, const T* x, T* out, int64_t size,
                 AccOf<T>* terms, AccOf<T>* maxima, AccOf<T>* sums) {
  using Acc = AccOf<T>;
  const int64_t chunks = (size + kChunk - 1) / kChunk;
  for_each_chunk(parallel, size, 1, [&](int64_t begin, int64_t count) {
    maxima[begin / kChunk] = chunk_max(x + begin, count);
  });
  Acc max = maxima[0];
  for (int64_t i = 1; i < chunks; ++i) max = larger(max, maxima[i]);
  for_each_chunk(parallel, size, kExpWork, [&](int64_t begin, int64_t count) {
    Acc* to = is_log ? nullptr : terms + begin;
    sums[begin / kChunk] = chunk_exp_sum(x + begin, count, max, to);
  });
  Acc sum = 0;
  for (int64_t i = 0; i < chunks; ++i) sum += sums[i];
  const Acc log_sum = ir::math::log<Acc>(sum);
  for_each_chunk(parallel, size, 1, [&](int64_t begin, int64_t count) {
    finish_elements<T>(is_log, x + begin, terms + begin, count, max, sum, log_sum,
                       out + begin);
  });
}

/// `count` neighbouring columns; `terms` has `terms_stride` elements between its rows.
template <class T>
void softmax_columns(bool is_log, const T* x, T* out, const RowShape& shape,
                     int64_t count, AccOf<T>* terms, int64_t terms_stride) {
  using Acc = AccOf<T>;
  alignas(64) Acc max[kColumns];
  alignas(64) Acc sums[kColumns];
  ColumnLanes<Acc> lanes;
  std::fill_n(max, count, -std::numeric_limits<Acc>::infinity());
  for (int64_t k = 0; k < shape.size; ++k) {
    const T* from = x + k * shape.inner;
    each_column(count, [&](int64_t c) { max[c] = larger(max[c], Acc{widen(from[c])}); });
  }
  alignas(64) Acc own[kColumns];
  column_sums(shape.size, count, lanes, sums, [&](int64_t k, Acc* lane) {
    const T* from = x + k * shape.inner;
    Acc* to = is_log ? own : terms + k * terms_stride;
    each_column(count, [&](int64_t c) {
      const Acc term = ir::math::exp<Acc>(Acc{widen(from[c])} - max[c]);
      to[c] = term;
      lane[c] += term;
    });
  });
  alignas(64) Acc log_sums[kColumns];
  for (int64_t c = 0; c < count; ++c) log_sums[c] = ir::math::log<Acc>(sums[c]);
  for (int64_t k = 0; k < shape.size; ++k) {
    const T* from = x + k * shape.inner;
    const Acc* term = terms + k * terms_stride;
    T* to = out + k * shape.inner;
    if (is_log) {
      each_column(count, [&](int64_t c) {
        to[c] = narrow<T>(one_nan((Acc{widen(from[c])} - max[c]) - log_sums[c]));
      });
    } else {
      each_column(count,
                  [&](int64_t c) { to[c] = narrow<T>(one_nan(term[c] / sums[c])); });
    }
  }
}

/// How many of the `inner` columns are done at once, for the cache and all threads.
int64_t column_width(const RowShape& shape) {
  const int64_t wanted = 4 * static_cast<int64_t>(num_threads());
  const int64_t share = shape.outer * shape.inner / wanted / 16 * 16;
  return std::min({shape.inner, kColumns, std::max<int64_t>(share, 16)});
}

/// Calls body(first element, columns) for blocks of columns of inner > 1, on any thread.
template <class Body>
void for_each_column_block(const RowShape& shape, int64_t work, const Body& body) {
  const int64_t width = column_width(shape);
  const int64_t blocks = (shape.inner + width - 1) / width;
  parallel_for(shape.outer * blocks, grain_of(width * shape.size * work),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t first = i % blocks * width;
                   body(i / blocks * shape.size * shape.inner + first,
                        std::min(width, shape.inner - first));
                 }
               });
}

/// Rows too few for the threads and long enough to be shared out themselves.
bool is_split(const RowShape& shape) {
  return shape.outer < num_threads() && shape.size >= 2 * kChunk;
}

/// Calls body(first row, last row, parallel inside) for rows of inner == 1.
template <class Body>
void for_each_row(const RowShape& shape, int64_t work, const Body& body) {
  if (is_split(shape)) return body(0, shape.outer, true);
  parallel_for(shape.outer, grain_of(shape.size * work),
               [&](int64_t begin, int64_t end) { body(begin, end, false); });
}

template <class T>
void softmax_of_type(bool is_log, const T* in, T* out, const RowShape& shape) {
  using Acc = AccOf<T>;
  if (shape.inner == 1) {
    const int64_t chunks = (shape.size + kChunk - 1) / kChunk;
    return for_each_row(shape, kExpWork, [&](int64_t begin, int64_t end, bool parallel) {
      Terms<T> terms(is_log ? 0 : shape.size);
      std::vector<Acc> maxima(chunks), sums(chunks);
      for (int64_t r = begin; r < end; ++r) {
        T* to = out + r * shape.size;
        softmax_row(is_log, parallel, in + r * shape.size, to, shape.size, terms.of(to),
                    maxima.data(), sums.data());
      }
    });
  }
  for_each_column_block(shape, kExpWork, [&](int64_t first, int64_t count) {
    Terms<T> terms(is_log ? 0 : shape.size * count);
    softmax_columns(is_log, in + first, out + first, shape, count, terms.of(out + first),
                    Terms<T>::kInPlace ? shape.inner : count);
  });
}

// ------------------------------------------------------------------ gradients
template <class Acc>
inline Acc slope(bool is_log, Acc grad, Acc out, Acc sum) {
  return one_nan(is_log ? grad - ir::math::exp<Acc>(out) * sum : out * (grad - sum));
}

template <class T, bool kLog>
void backward_row(bool parallel, const T* grad, const T* out, T* grad_in, int64_t size,
                  AccOf<T>* sums) {
  using Acc = AccOf<T>;
  const int64_t chunks = (size + kChunk - 1) / kChunk;
  for_each_chunk(parallel, size, 1, [&](int64_t begin, int64_t count) {
    const T* g = grad + begin;
    const T* y = out + begin;
    sums[begin / kChunk] = chunk_tree<Acc>(count, [=](int64_t k) {
      return kLog ? Acc{widen(g[k])} : Acc{widen(g[k])} * Acc{widen(y[k])};
    });
  });
  Acc sum = 0;
  for (int64_t i = 0; i < chunks; ++i) sum += sums[i];
  for_each_chunk(parallel, size, kLog ? kExpWork : 1, [&](int64_t begin, int64_t count) {
    for (int64_t k = begin; k < begin + count; ++k) {
      grad_in[k] = narrow<T>(slope(kLog, Acc{widen(grad[k])}, Acc{widen(out[k])}, sum));
    }
  });
}

template <class T, bool kLog>
void backward_columns(const T* grad, const T* out, T* grad_in, const RowShape& shape,
                      int64_t count) {
  using Acc = AccOf<T>;
  alignas(64) Acc sums[kColumns];
  ColumnLanes<Acc> lanes;
  column_sums(shape.size, count, lanes, sums, [&](int64_t k, Acc* lane) {
    const T* g = grad + k * shape.inner;
    const T* y = out + k * shape.inner;
    each_column(count, [&](int64_t c) {
      lane[c] += kLog ? Acc{widen(g[c])} : Acc{widen(g[c])} * Acc{widen(y[c])};
    });
  });
  for (int64_t k = 0; k < shape.size; ++k) {
    const T* g = grad + k * shape.inner;
    const T* y = out + k * shape.inner;
    T* to = grad_in + k * shape.inner;
    each_column(count, [&](int64_t c) {
      to[c] = narrow<T>(slope(kLog, Acc{widen(g[c])}, Acc{widen(y[c])}, sums[c]));
    });
  }
}

template <class T, bool kLog>
void backward_of_type(const T* grad, const T* out, T* grad_in, const RowShape& shape) {
  const int64_t work = kLog ? kExpWork : 2;
  if (shape.inner == 1) {
    const int64_t chunks = (shape.size + kChunk - 1) / kChunk;
    return for_each_row(shape, work, [&](int64_t begin, int64_t end, bool parallel) {
      std::vector<AccOf<T>> sums(chunks);
      for (int64_t r = begin; r < end; ++r) {
        const int64_t at = r * shape.size;
        backward_row<T, kLog>(parallel, grad + at, out + at, grad_in + at, shape.size,
                              sums.data());
      }
    });
  }
  for_each_column_block(shape, work, [&](int64_t first, int64_t count) {
    backward_columns<T, kLog>(grad + first, out + first, grad_in + first, shape, count);
  });
}

}  // namespace

void softmax(bool is_log, ir::DType dtype, const void* in, void* out,
             const RowShape& shape) {
  if (shape.outer * shape.size * shape.inner == 0) return;
  with_float(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    softmax_of_type(is_log, static_cast<const T*>(in), static_cast<T*>(out), shape);
  });
}

void softmax_backward(bool is_log, ir::DType dtype, const void* grad, const void* out,
                      void* grad_in, const RowShape& shape) {
  if (shape.outer * shape.size * shape.inner == 0) return;
  with_float(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto run = is_log ? backward_of_type<T, true> : backward_of_type<T, false>;
    run(static_cast<const T*>(grad), static_cast<const T*>(out), static_cast<T*>(grad_in),
        shape);
  });
}

}  // namespace neuron::fusion
