// Law 2 of rows.h: the one tree of a sum, for values along a row and for many columns at
// once. Both give the same bits.
//
// A lane starts at zero and so is never -0; adding +0 to it changes nothing. Hence lanes
// that got no element need no care.
#pragma once

#include <algorithm>
#include <cstdint>

namespace neuron::fusion {
namespace {

constexpr int kLanes = 16;
constexpr int64_t kChunk = 4096;
/// Elements of simple work below which another thread costs more than it gains.
constexpr int64_t kGrain = 32768;
/// The most columns that are summed together: their lanes must stay in the first cache.
constexpr int64_t kColumns = 256;

static_assert(kChunk % kLanes == 0, "lane of k is k mod 16 in every chunk");

struct Plus {
  template <class Acc>
  static constexpr Acc kIdentity = Acc{0};
  template <class Acc>
  static Acc fold(Acc a, Acc b) {
    return a + b;
  }
};
struct Times {
  template <class Acc>
  static constexpr Acc kIdentity = Acc{1};
  template <class Acc>
  static Acc fold(Acc a, Acc b) {
    return a * b;
  }
};

/// Adds the lanes pairwise.
template <class Fold, class Acc>
inline Acc fold_lanes(Acc* lanes) {
  for (int j = 0; j < 8; ++j) lanes[j] = Fold::fold(lanes[j], lanes[j + 8]);
  for (int j = 0; j < 4; ++j) lanes[j] = Fold::fold(lanes[j], lanes[j + 4]);
  for (int j = 0; j < 2; ++j) lanes[j] = Fold::fold(lanes[j], lanes[j + 2]);
  return Fold::fold(lanes[0], lanes[1]);
}

/// The fold of value(0), ..., value(count - 1), at most a chunk.
template <class Acc, class Fold = Plus, class Value>
inline Acc chunk_tree(int64_t count, const Value& value) {
  alignas(64) Acc lanes[kLanes];
  for (int j = 0; j < kLanes; ++j) lanes[j] = Fold::template kIdentity<Acc>;
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    for (int j = 0; j < kLanes; ++j) lanes[j] = Fold::fold(lanes[j], value(k + j));
  }
  for (int j = 0; k < count; ++k, ++j) lanes[j] = Fold::fold(lanes[j], value(k));
  return fold_lanes<Fold>(lanes);
}

/// The sum of value(0), ..., value(count - 1).
template <class Acc, class Value>
inline Acc tree_sum(int64_t count, const Value& value) {
  Acc sum = 0;
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    sum += chunk_tree<Acc>(std::min(kChunk, count - begin),
                           [&](int64_t k) { return value(begin + k); });
  }
  return sum;
}

/// Calls body(c) for all columns c < count, most of them in pieces of a fixed length,
/// which become vector code without a tail. `body` must touch column c alone.
template <class Body>
inline void each_column(int64_t count, const Body& body) {
  constexpr int64_t kPiece = 32;
  int64_t c = 0;
  for (; c + kPiece <= count; c += kPiece) {
#pragma GCC ivdep
    for (int64_t i = 0; i < kPiece; ++i) body(c + i);
  }
#pragma GCC ivdep
  for (int64_t i = c; i < count; ++i) body(i);
}

/// The lanes of up to kColumns sums that grow together, a row of elements at a time.
template <class Acc, class Fold = Plus>
struct ColumnLanes {
  alignas(64) Acc lanes[kLanes][kColumns];

  /// Makes room for rows of `count` columns; no more than `size` will come.
  void clear(int64_t size, int64_t count) {
    used = static_cast<int>(std::min<int64_t>(size, kLanes));
    for (int j = 0; j < used; ++j)
      std::fill_n(lanes[j], count, Fold::template kIdentity<Acc>);
  }
  /// Where elements k of the columns go.
  Acc* of(int64_t k) { return lanes[k % kLanes]; }
  /// Folds the chunk's sums into `sums`. A lane without elements would change nothing.
  void fold_into(Acc* sums, int64_t count) {
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int j = 0; j < half && j + half < used; ++j) {
        Acc* low = lanes[j];
        const Acc* high = lanes[j + half];
        each_column(count, [=](int64_t c) { low[c] = Fold::fold(low[c], high[c]); });
      }
    }
    const Acc* total = lanes[0];
    each_column(count, [=](int64_t c) { sums[c] = Fold::fold(sums[c], total[c]); });
  }

  int used = 0;
};

/// Sums of columns over rows k = 0, ..., size - 1: `add(k, lane)` adds element k of each
/// column to lane[0 .. count). Results are left in `sums`.
template <class Acc, class Add>
inline void column_sums(int64_t size, int64_t count, ColumnLanes<Acc>& lanes, Acc* sums,
                        const Add& add) {
  std::fill_n(sums, count, Acc{0});
  for (int64_t begin = 0; begin < size; begin += kChunk) {
    const int64_t end = std::min(size, begin + kChunk);
    lanes.clear(end - begin, count);
    for (int64_t k = begin; k < end; ++k) add(k, lanes.of(k));
    lanes.fold_into(sums, count);
  }
}

/// How many pieces of `work` elements make a grain.
inline int64_t grain_of(int64_t work) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work));
}

}  // namespace
}  // namespace neuron::fusion
