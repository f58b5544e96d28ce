// Extreme values of rows, alone and with their index.
//
// A row's extreme value is its first NaN, else the first of its extreme elements. Lanes
// do not know which element came first, which shows for zeros of different sign alone; so
// a row whose extreme is zero looks for its first zero. Along columns elements come in
// order.
#include <cmath>
#include <limits>

#include "base/check.h"
#include "fusion/kernels/rows.h"
#include "fusion/kernels/rows_dispatch.h"
#include "fusion/kernels/rows_float.h"
#include "fusion/kernels/rows_plan.h"

namespace neuron::fusion {
namespace {

using ir::DType;

/// Lanes without an order may be more than law 2 has.
constexpr int kFreeLanes = 64;

template <class A>
inline bool is_nan(A x) {
  return x != x;
}

/// Whether `x`, which comes after `best`, takes its place.
template <bool kMax, class A>
inline bool replaces(A x, A best) {
  const bool better = kMax ? x > best : x < best;
  return better | (is_nan(x) & !is_nan(best));
}

/// The identity: no element is worse.
template <bool kMax, class A>
constexpr A worst() {
  using Limits = std::numeric_limits<A>;
  if constexpr (Limits::has_infinity)
    return kMax ? -Limits::infinity() : Limits::infinity();
  return kMax ? Limits::lowest() : Limits::max();
}

template <bool kMax, class A, class Value>
inline A extreme_of(int64_t count, const Value& value) {
  alignas(64) A lanes[kFreeLanes];
  for (int j = 0; j < kFreeLanes; ++j) lanes[j] = worst<kMax, A>();
  const auto take = [](A& best, A x) {
    const bool better = kMax ? x > best : x < best;
    best = better | is_nan(x) ? x : best;
  };
  int64_t k = 0;
  for (; k + kFreeLanes <= count; k += kFreeLanes) {
    for (int j = 0; j < kFreeLanes; ++j) take(lanes[j], value(k + j));
  }
  for (int j = 0; k < count; ++k, ++j) take(lanes[j], value(k));
  for (int half = kFreeLanes / 2; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) take(lanes[j], lanes[j + half]);
  }
  return lanes[0];
}

/// The first k whose value equals `best`, or is NaN as `best` is.
template <class A, class Value>
inline int64_t find_first(int64_t count, A best, const Value& value) {
  const auto matches = [=](A x) { return (x == best) | (is_nan(x) & is_nan(best)); };
  int64_t k = 0;
  for (; k + kFreeLanes <= count; k += kFreeLanes) {
    int found = 0;
    for (int j = 0; j < kFreeLanes; ++j) found |= matches(value(k + j));
    if (found != 0) break;
  }
  while (k < count && !matches(value(k))) ++k;
  return k;
}

// ------------------------------------------------------------------ values
struct AsIs {
  template <class A>
  static A map(A x) {
    return x;
  }
};
struct Magnitude {
  template <class A>
  static A map(A x) {
    return std::abs(x);
  }
};

template <class T, bool kMax, class Map>
struct ExtremeKernel {
  using Value = T;
  using State = WideOf<T>;
  struct Columns {
    State best[kColumns];
  };

  State identity() const { return worst<kMax, State>(); }
  State row(const T* x, int64_t count, int64_t, int64_t) const {
    const auto value = [=](int64_t k) { return Map::map(widen(x[k])); };
    const State best = extreme_of<kMax, State>(count, value);
    if constexpr (std::is_floating_point_v<State>) {
      if (best == 0) return value(find_first(count, best, value));
    }
    return best;
  }
  void clear(Columns& columns, int64_t, int64_t count) const {
    std::fill_n(columns.best, count, identity());
  }
  void add(Columns& columns, int64_t, const T* x, int64_t count) const {
    State* best = columns.best;
    each_column(count, [=, this](int64_t c) {
      best[c] = combine(best[c], Map::map(widen(x[c])));
    });
  }
  void finish(Columns& columns, int64_t, State* states, int64_t count) const {
    std::copy_n(columns.best, count, states);
  }
  State combine(State before, State chunk) const {
    const bool better = kMax ? chunk > before : chunk < before;
    return better | is_nan(chunk) ? chunk : before;
  }
};

// ------------------------------------------------------------------ values with indices
template <class A>
struct Place {
  A value;
  int64_t idx;
};

template <class T, bool kMax>
struct PlaceKernel {
  using Value = T;
  using Wide = WideOf<T>;
  using State = Place<Wide>;
  /// As wide as the values, so that both are chosen by one mask; within a chunk.
  using Near = std::conditional_t<sizeof(Wide) == 8, int64_t, int32_t>;
  struct Columns {
    Wide best[kColumns];
    Near idx[kColumns];
  };

  State identity() const { return {worst<kMax, Wide>(), -1}; }
  State row(const T* x, int64_t count, int64_t k, int64_t) const {
    const auto value = [=](int64_t i) { return widen(x[i]); };
    const int64_t at = find_first(count, extreme_of<kMax, Wide>(count, value), value);
    return {value(at), k + at};
  }
  void clear(Columns& columns, int64_t, int64_t count) const {
    std::fill_n(columns.best, count, worst<kMax, Wide>());
    std::fill_n(columns.idx, count, Near{0});
  }
  void add(Columns& columns, int64_t k, const T* x, int64_t count) const {
    const Near here = static_cast<Near>(k);
    Wide* best = columns.best;
    Near* idx = columns.idx;
    each_column(count, [=](int64_t c) {
      const Wide value = widen(x[c]);
      const bool taken = replaces<kMax>(value, best[c]);
      best[c] = taken ? value : best[c];
      idx[c] = taken ? here : idx[c];
    });
  }
  void finish(Columns& columns, int64_t k, State* states, int64_t count) const {
    for (int64_t c = 0; c < count; ++c) states[c] = {columns.best[c], k + columns.idx[c]};
  }
  State combine(State before, State chunk) const {
    return before.idx < 0 || replaces<kMax>(chunk.value, before.value) ? chunk : before;
  }
};

template <class T>
void extreme_of_type(Reduce op, const ReducePlan& plan, const void* in, DType out_dtype,
                     void* out) {
  using Wide = WideOf<T>;
  const auto write = [&](int64_t idx, Wide value) {
    if constexpr (std::is_integral_v<Wide>) {
      static_cast<T*>(out)[idx] = value;
    } else {
      store_as(out_dtype, out, idx, value);
    }
  };
  if (op == Reduce::kAmax) {
    return for_each_state(plan, ExtremeKernel<T, true, AsIs>{}, in, write);
  }
  if (op == Reduce::kAmin) {
    return for_each_state(plan, ExtremeKernel<T, false, AsIs>{}, in, write);
  }
  if constexpr (std::is_floating_point_v<Wide>) {
    // The largest magnitude of nothing is 0.
    for_each_state(plan, ExtremeKernel<T, true, Magnitude>{}, in,
                   [&](int64_t idx, Wide value) { write(idx, value < 0 ? 0 : value); });
  }
}

template <class T, bool kMax>
void find_of_type(const ReducePlan& plan, const void* in, void* out, int64_t* indices) {
  using Wide = WideOf<T>;
  for_each_state(plan, PlaceKernel<T, kMax>{}, in,
                 [&](int64_t idx, const Place<Wide>& place) {
                   indices[idx] = place.idx;
                   if (out == nullptr) return;
                   if constexpr (std::is_integral_v<Wide>) {
                     static_cast<T*>(out)[idx] = place.value;
                   } else {
                     static_cast<T*>(out)[idx] = narrow<T>(one_nan(place.value));
                   }
                 });
}

}  // namespace

void reduce_to_extreme(Reduce op, DType in_dtype, const void* in, DType out_dtype,
                       void* out, const ReduceShape& shape) {
  const ReducePlan plan(shape);
  if (plan.num_rows == 0) return;
  with_type(in_dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    extreme_of_type<T>(op, plan, in, out_dtype, out);
  });
}

void find_extremes(bool is_max, DType dtype, const void* in, void* out, int64_t* indices,
                   const ReduceShape& shape) {
  const ReducePlan plan(shape);
  if (plan.num_rows == 0) return;
  with_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    is_max ? find_of_type<T, true>(plan, in, out, indices)
           : find_of_type<T, false>(plan, in, out, indices);
  });
}

}  // namespace neuron::fusion
