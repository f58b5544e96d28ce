// The inner loops of matrix products for one instruction set.
//
// Laws:
//  1. An element of a tile is one chain of `fma` over k in order, started at +0, whatever
//  the tile's size. The order of operations after the chain is that of Tile's comment.
//  2. The accumulators of the largest tile, the vectors of b and two broadcasts of a just
//  fit the registers, and a core must issue two products a cycle while its other thread
//  takes half of its slots. So a broadcast is one load that all products of a row use
//  (the compiler would fold it into each), and a product is the one instruction that adds
//  to its accumulator in place (the compiler would add moves).
//  3. Only the last vector of a row can be partial. Its other lanes are never touched.
#include <immintrin.h>

#include <cstdint>

#include "fusion/kernels/matmul_table.h"

// GCC 12 takes the undefined operand of its own intrinsics for a mistake.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace neuron::fusion {
namespace {

// The vocabulary: vectors of one type. To transpose, kGroup lines are gathered so that
// the 128-bit lanes of vector r hold 16 bytes each of the lines r, r + 4 (floats) or r,
// r + 2, ... (doubles); floats go on with the next 16 bytes of the same lines.
#if defined(__AVX512F__)

constexpr int kTileRows = 8;
constexpr int kGroup = 8;
constexpr bool kMasksAreFree = true;

struct F32 {
  using Scalar = float;
  using Vector = __m512;
  using Mask = __mmask16;
  static constexpr int kLanes = 16;
  // `count` lanes from `first` on.
  static Mask mask(int64_t count, int first = 0) {
    return static_cast<Mask>(((1U << count) - 1) << first);
  }
  static Vector zero() { return _mm512_setzero_ps(); }
  static Vector load(const float* p) { return _mm512_loadu_ps(p); }
  static Vector load(const float* p, Mask m) { return _mm512_maskz_loadu_ps(m, p); }
  static void store(float* p, Vector x) { _mm512_storeu_ps(p, x); }
  static void store(float* p, Mask m, Vector x) { _mm512_mask_storeu_ps(p, m, x); }
  static Vector broadcast(const float* p) {
    Vector x = _mm512_set1_ps(*p);
    asm("" : "+v"(x));  // law 2
    return x;
  }
  static void accumulate(Vector& sum, Vector x, Vector y) {
    asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
  }
  static void store_halves(float* low, float* high, Vector x) {
    _mm256_storeu_ps(low, _mm512_castps512_ps256(x));
    _mm256_storeu_ps(high, _mm512_extractf32x8_ps(x, 1));
  }
  static Vector gather(const float* const* lines, int r, int64_t at) {
    const float* p = lines[r] + at;
    const float* q = lines[r + 4] + at;
    Vector x = _mm512_castps128_ps512(_mm_loadu_ps(p));
    x = _mm512_insertf32x4(x, _mm_loadu_ps(q), 1);
    x = _mm512_insertf32x4(x, _mm_loadu_ps(p + 4), 2);
    return _mm512_insertf32x4(x, _mm_loadu_ps(q + 4), 3);
  }
  static Vector low(Vector x, Vector y) { return _mm512_unpacklo_ps(x, y); }
  static Vector high(Vector x, Vector y) { return _mm512_unpackhi_ps(x, y); }
  static Vector low_pairs(Vector x, Vector y) {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
  }
  static Vector high_pairs(Vector x, Vector y) {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
  }
};

struct F64 {
  using Scalar = double;
  using Vector = __m512d;
  using Mask = __mmask8;
  static constexpr int kLanes = 8;
  static Mask mask(int64_t count) { return static_cast<Mask>((1U << count) - 1); }
  static Vector zero() { return _mm512_setzero_pd(); }
  static Vector load(const double* p) { return _mm512_loadu_pd(p); }
  static Vector load(const double* p, Mask m) { return _mm512_maskz_loadu_pd(m, p); }
  static void store(double* p, Vector x) { _mm512_storeu_pd(p, x); }
  static void store(double* p, Mask m, Vector x) { _mm512_mask_storeu_pd(p, m, x); }
  static Vector broadcast(const double* p) {
    Vector x = _mm512_set1_pd(*p);
    asm("" : "+v"(x));
    return x;
  }
  static void accumulate(Vector& sum, Vector x, Vector y) {
    asm("vfmadd231pd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
  }
  static Vector gather(const double* const* lines, int r, int64_t at) {
    Vector x = _mm512_castpd128_pd512(_mm_loadu_pd(lines[r] + at));
    x = _mm512_insertf64x2(x, _mm_loadu_pd(lines[r + 2] + at), 1);
    x = _mm512_insertf64x2(x, _mm_loadu_pd(lines[r + 4] + at), 2);
    return _mm512_insertf64x2(x, _mm_loadu_pd(lines[r + 6] + at), 3);
  }
  static Vector low(Vector x, Vector y) { return _mm512_unpacklo_pd(x, y); }
  static Vector high(Vector x, Vector y) { return _mm512_unpackhi_pd(x, y); }
};

#else

constexpr int kTileRows = 4;
constexpr int kGroup = 4;
constexpr bool kMasksAreFree = false;

struct F32 {
  using Scalar = float;
  using Vector = __m256;
  using Mask = __m256i;
  static constexpr int kLanes = 8;
  static Mask mask(int64_t count, int first = 0) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const int end = static_cast<int>(count) + first;
    return _mm256_and_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(end), lane),
                            _mm256_cmpgt_epi32(lane, _mm256_set1_epi32(first - 1)));
  }
  static Vector zero() { return _mm256_setzero_ps(); }
  static Vector load(const float* p) { return _mm256_loadu_ps(p); }
  static Vector load(const float* p, Mask m) { return _mm256_maskload_ps(p, m); }
  static void store(float* p, Vector x) { _mm256_storeu_ps(p, x); }
  static void store(float* p, Mask m, Vector x) { _mm256_maskstore_ps(p, m, x); }
  static Vector broadcast(const float* p) { return _mm256_broadcast_ss(p); }
  static void accumulate(Vector& sum, Vector x, Vector y) {
    asm("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(x), "x"(y));
  }
  static void store_halves(float* low, float* high, Vector x) {
    _mm_storeu_ps(low, _mm256_castps256_ps128(x));
    _mm_storeu_ps(high, _mm256_extractf128_ps(x, 1));
  }
  static Vector gather(const float* const* lines, int r, int64_t at) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(lines[r] + at)),
                                _mm_loadu_ps(lines[r] + at + 4), 1);
  }
  static Vector low(Vector x, Vector y) { return _mm256_unpacklo_ps(x, y); }
  static Vector high(Vector x, Vector y) { return _mm256_unpackhi_ps(x, y); }
  static Vector low_pairs(Vector x, Vector y) {
    return _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(x), _mm256_castps_pd(y)));
  }
  static Vector high_pairs(Vector x, Vector y) {
    return _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(x), _mm256_castps_pd(y)));
  }
};

struct F64 {
  using Scalar = double;
  using Vector = __m256d;
  using Mask = __m256i;
  static constexpr int kLanes = 4;
  static Mask mask(int64_t count) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
  }
  static Vector zero() { return _mm256_setzero_pd(); }
  static Vector load(const double* p) { return _mm256_loadu_pd(p); }
  static Vector load(const double* p, Mask m) { return _mm256_maskload_pd(p, m); }
  static void store(double* p, Vector x) { _mm256_storeu_pd(p, x); }
  static void store(double* p, Mask m, Vector x) { _mm256_maskstore_pd(p, m, x); }
  static Vector broadcast(const double* p) { return _mm256_broadcast_sd(p); }
  static void accumulate(Vector& sum, Vector x, Vector y) {
    asm("vfmadd231pd %2, %1, %0" : "+x"(sum) : "x"(x), "x"(y));
  }
  static Vector gather(const double* const* lines, int r, int64_t at) {
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(lines[r] + at)),
                                _mm_loadu_pd(lines[r + 2] + at), 1);
  }
  static Vector low(Vector x, Vector y) { return _mm256_unpacklo_pd(x, y); }
  static Vector high(Vector x, Vector y) { return _mm256_unpackhi_pd(x, y); }
};

#endif

// ------------------------------------------------------------------ tiles
// The vectors of one row, the last of them perhaps partial (law 3).
template <class F, int kVectors, bool kIsPartial>
struct Row {
  using Scalar = typename F::Scalar;
  using Vector = typename F::Vector;
  static Vector load(const Scalar* row, int v, typename F::Mask mask) {
    const Scalar* p = row + v * F::kLanes;
    return kIsPartial && v == kVectors - 1 ? F::load(p, mask) : F::load(p);
  }
  static void store(Scalar* row, int v, typename F::Mask mask, Vector x) {
    Scalar* p = row + v * F::kLanes;
    if (kIsPartial && v == kVectors - 1) {
      F::store(p, mask, x);
    } else {
      F::store(p, x);
    }
  }
};

// Element (row, k) of a: rows in groups of four, so that few registers hold addresses.
template <class Scalar, bool kIsAlongRows>
struct Left {
  const Scalar* base[2];
  int64_t stride;
  Left(const Scalar* a, int64_t a_stride)
      : base{a, a + (kIsAlongRows ? 0 : 4 * a_stride)}, stride(a_stride) {}
  const Scalar* at(int row) const {
    return kIsAlongRows ? base[0] + row : base[row / 4] + (row % 4) * stride;
  }
  void advance() {
    for (const Scalar*& p : base) p += kIsAlongRows ? stride : 1;
  }
};

// Steps of k by which b is fetched ahead: its panels stream from the second cache, or
// from further away if few rows use them. A step takes about as many cycles as there are
// rows.
constexpr int64_t steps_ahead(int rows) { return rows >= 8 ? 8 : 64 / rows; }

// Steps of k that are worth fetching c for while they run.
constexpr int64_t kLongChain = 16;

template <class F, int kRows, int kVectors, bool kIsPartial, bool kIsAlongRows>
void run_tile(const Tile& tile) {
  using Scalar = typename F::Scalar;
  using Vector = typename F::Vector;
  using Line = Row<F, kVectors, kIsPartial>;
  const auto mask = F::mask(tile.columns - (kVectors - 1) * F::kLanes);
  Vector sums[kRows][kVectors];
  auto* c = static_cast<Scalar*>(tile.c);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) sums[r][v] = F::zero();
  }
  if (tile.k >= kLongChain) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) {
        _mm_prefetch(c + r * tile.c_stride + v * F::kLanes, _MM_HINT_T0);
      }
    }
  }
  Left<Scalar, kIsAlongRows> left(static_cast<const Scalar*>(tile.a), tile.a_stride);
  const auto* b = static_cast<const Scalar*>(tile.b);
  const int64_t b_stride = tile.b_stride;
  const int64_t ahead = steps_ahead(kRows) * b_stride;
  const auto step = [&]() __attribute__((always_inline)) {
    Vector right[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      right[v] = Line::load(b, v, mask);
      _mm_prefetch(b + ahead + v * F::kLanes, _MM_HINT_T0);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vector x = F::broadcast(left.at(r));
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) F::accumulate(sums[r][v], x, right[v]);
    }
    b += b_stride;
    left.advance();
  };
  int64_t k = tile.k;
  for (; k >= 4; k -= 4) {
    step();
    step();
    step();
    step();
  }
  for (; k > 0; --k) step();
  const auto for_sums = [&](const auto& body) __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) body(r, v, sums[r][v]);
    }
  };
  if (tile.accumulates) {
    for_sums([&](int r, int v, Vector& x) __attribute__((always_inline)) {
      x = Line::load(c + r * tile.c_stride, v, mask) + x;
    });
  }
  if (tile.addend != nullptr) {
    const auto* addend = static_cast<const Scalar*>(tile.addend);
    for_sums([&](int r, int v, Vector& x) __attribute__((always_inline)) {
      x = x + Line::load(addend + r * tile.addend_stride, v, mask);
    });
  }
  for_sums([&](int r, int v, Vector& x) __attribute__((always_inline)) {
    Line::store(c + r * tile.c_stride, v, mask, x);
  });
}

template <class F, int kRows, int kVectors, bool kIsAlongRows>
void choose_tile(const Tile& tile) {
  if constexpr (!kMasksAreFree && kVectors > 1) {
    if (tile.columns == kVectors * F::kLanes) {
      run_tile<F, kRows, kVectors, false, kIsAlongRows>(tile);
      return;
    }
  }
  run_tile<F, kRows, kVectors, true, kIsAlongRows>(tile);
}

// ------------------------------------------------------------------ packing
template <class F>
void pack_copy(const void* source, int64_t stride, int64_t lines, int64_t k, void* packed,
               int64_t pitch) {
  using Scalar = typename F::Scalar;
  const auto* from = static_cast<const Scalar*>(source);
  auto* to = static_cast<Scalar*>(packed);
  const int64_t whole = lines / F::kLanes * F::kLanes;
  const auto mask = F::mask(lines - whole);
  for (int64_t i = 0; i < k; ++i, from += stride, to += pitch) {
    for (int64_t j = 0; j < whole; j += F::kLanes) F::store(to + j, F::load(from + j));
    if (whole < lines) F::store(to + whole, mask, F::load(from + whole, mask));
  }
}

// Some steps of k of kGroup lines: `columns[q]` has step q, and behind it, if a vector is
// longer than a group, step q + kUnit.
template <class F, int kUnit>
void transpose_unit(const typename F::Scalar* const* lines,
                    typename F::Vector (&columns)[kUnit], int64_t at) {
  const auto x = F::gather(lines, 0, at);
  const auto y = F::gather(lines, 1, at);
  if constexpr (kUnit == 2) {
    columns[0] = F::low(x, y);
    columns[1] = F::high(x, y);
  } else {
    const auto z = F::gather(lines, 2, at);
    const auto w = F::gather(lines, 3, at);
    columns[0] = F::low_pairs(F::low(x, y), F::low(z, w));
    columns[1] = F::high_pairs(F::low(x, y), F::low(z, w));
    columns[2] = F::low_pairs(F::high(x, y), F::high(z, w));
    columns[3] = F::high_pairs(F::high(x, y), F::high(z, w));
  }
}

// Stores `count` lines of the steps that transpose_unit made.
template <class F, int kUnit>
void store_unit(const typename F::Vector (&columns)[kUnit], int64_t count, int64_t pitch,
                typename F::Scalar* to) {
  for (int q = 0; q < kUnit; ++q, to += pitch) {
    if constexpr (F::kLanes == kGroup) {
      if (count == kGroup) {
        F::store(to, columns[q]);
      } else {
        F::store(to, F::mask(count), columns[q]);
      }
    } else {
      auto* next = to + kUnit * pitch;
      if (count == kGroup) {
        F::store_halves(to, next, columns[q]);
      } else {
        F::store(to, F::mask(count), columns[q]);
        F::store(next - kGroup, F::mask(count, kGroup), columns[q]);
      }
    }
  }
}

// Only a group of lines at once: they may all fall into one set of the first cache.
template <class F>
void pack_transpose(const void* source, int64_t stride, int64_t lines, int64_t k,
                    void* packed, int64_t pitch) {
  using Scalar = typename F::Scalar;
  constexpr int kUnit = 16 / sizeof(Scalar);
  constexpr int kSteps = kUnit * (F::kLanes / kGroup);
  for (int64_t first = 0; first < lines; first += kGroup) {
    const int64_t count = lines - first < kGroup ? lines - first : kGroup;
    const Scalar* line[kGroup];
    for (int64_t j = 0; j < kGroup; ++j) {
      const int64_t index = first + (j < count ? j : count - 1);
      line[j] = static_cast<const Scalar*>(source) + index * stride;
    }
    Scalar* to = static_cast<Scalar*>(packed) + first;
    int64_t i = 0;
    for (; i + kSteps <= k; i += kSteps, to += kSteps * pitch) {
      typename F::Vector columns[kUnit];
      transpose_unit<F, kUnit>(line, columns, i);
      store_unit<F, kUnit>(columns, count, pitch, to);
    }
    for (; i < k; ++i, to += pitch) {
      for (int64_t j = 0; j < count; ++j) to[j] = line[j][i];
    }
  }
}

// ------------------------------------------------------------------ the table
template <class F, int kRows, bool kIsAlongRows>
void add_tiles(TileFns& fns) {
  auto& tiles = fns.tiles[kIsAlongRows ? 1 : 0];
  tiles[0][kRows] = &choose_tile<F, kRows, 1, kIsAlongRows>;
  tiles[1][kRows] = &choose_tile<F, kRows, 2, kIsAlongRows>;
  tiles[2][kRows] = &choose_tile<F, kRows, 3, kIsAlongRows>;
  if constexpr (kRows > 1) add_tiles<F, kRows - 1, kIsAlongRows>(fns);
}

template <class F>
TileFns make_fns() {
  static_assert(kTileRows <= TileFns::kMaxRows);
  TileFns fns = {};
  fns.max_rows = kTileRows;
  fns.lanes = F::kLanes;
  add_tiles<F, kTileRows, false>(fns);
  add_tiles<F, kTileRows, true>(fns);
  fns.copy = &pack_copy<F>;
  fns.transpose = &pack_transpose<F>;
  return fns;
}

}  // namespace
}  // namespace neuron::fusion

extern "C" const void* NEURON_MATMUL_TABLE_NAME() {
  static const neuron::fusion::MatmulTable table{
      neuron::fusion::make_fns<neuron::fusion::F32>(),
      neuron::fusion::make_fns<neuron::fusion::F64>()};
  return &table;
}
