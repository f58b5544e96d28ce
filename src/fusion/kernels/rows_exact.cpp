// Reductions without rounding: sums and products of integers, any and all.
#include <algorithm>

#include "base/check.h"
#include "fusion/kernels/rows.h"
#include "fusion/kernels/rows_dispatch.h"
#include "fusion/kernels/rows_float.h"
#include "fusion/kernels/rows_plan.h"

namespace neuron::fusion {
namespace {

using ir::DType;

struct IntegerSum {
  static constexpr uint64_t kIdentity = 0;
  static uint64_t fold(uint64_t a, uint64_t b) { return a + b; }
  template <class T>
  static uint64_t map(T x) {
    return static_cast<uint64_t>(static_cast<int64_t>(x));
  }
};
struct IntegerProduct : IntegerSum {
  static constexpr uint64_t kIdentity = 1;
  static uint64_t fold(uint64_t a, uint64_t b) { return a * b; }
};
/// Truth of the bits of a number: a float's sign does not count.
struct IsAny {
  static constexpr uint8_t kIdentity = 0;
  static uint8_t fold(uint8_t a, uint8_t b) { return a | b; }
  template <class Bits>
  static uint8_t map(Bits x) {
    return x != 0;
  }
};
struct IsAll : IsAny {
  static constexpr uint8_t kIdentity = 1;
  static uint8_t fold(uint8_t a, uint8_t b) { return a & b; }
};

/// Elements as bits, without the sign for floats.
template <class Word, bool kFloat>
struct Bits {
  Word word;
};
template <class Word, bool kFloat>
inline Word widen(Bits<Word, kFloat> x) {
  return kFloat ? static_cast<Word>(x.word << 1) : x.word;
}

template <class T, class Op>
struct FoldKernel {
  using Value = T;
  using State = std::remove_const_t<decltype(Op::kIdentity)>;
  struct Columns {
    State folds[kColumns];
  };

  State identity() const { return Op::kIdentity; }
  State row(const T* x, int64_t count, int64_t, int64_t) const {
    State result = Op::kIdentity;
    for (int64_t k = 0; k < count; ++k) result = Op::fold(result, Op::map(widen(x[k])));
    return result;
  }
  void clear(Columns& columns, int64_t, int64_t count) const {
    std::fill_n(columns.folds, count, identity());
  }
  void add(Columns& columns, int64_t, const T* x, int64_t count) const {
    State* folds = columns.folds;
    each_column(count,
                [=](int64_t c) { folds[c] = Op::fold(folds[c], Op::map(widen(x[c]))); });
  }
  void finish(Columns& columns, int64_t, State* states, int64_t count) const {
    std::copy_n(columns.folds, count, states);
  }
  State combine(State before, State chunk) const { return Op::fold(before, chunk); }
};

template <class Word, bool kFloat>
void truth_of_type(Reduce op, const ReducePlan& plan, const void* in, void* out) {
  using T = Bits<Word, kFloat>;
  const auto write = [&](int64_t idx, uint8_t x) { static_cast<uint8_t*>(out)[idx] = x; };
  if (op == Reduce::kAny) return for_each_state(plan, FoldKernel<T, IsAny>{}, in, write);
  for_each_state(plan, FoldKernel<T, IsAll>{}, in, write);
}

void reduce_truth(Reduce op, DType dtype, const ReducePlan& plan, const void* in,
                  void* out) {
  switch (dtype) {
    case DType::kFloat16:
    case DType::kBFloat16:
      return truth_of_type<uint16_t, true>(op, plan, in, out);
    case DType::kFloat32:
      return truth_of_type<uint32_t, true>(op, plan, in, out);
    case DType::kFloat64:
      return truth_of_type<uint64_t, true>(op, plan, in, out);
    case DType::kInt16:
      return truth_of_type<uint16_t, false>(op, plan, in, out);
    case DType::kInt32:
      return truth_of_type<uint32_t, false>(op, plan, in, out);
    case DType::kInt64:
      return truth_of_type<uint64_t, false>(op, plan, in, out);
    default:
      return truth_of_type<uint8_t, false>(op, plan, in, out);
  }
}

}  // namespace

void reduce_exactly(Reduce op, DType in_dtype, const void* in, void* out,
                    const ReduceShape& shape) {
  const ReducePlan plan(shape);
  if (plan.num_rows == 0) return;
  if (op == Reduce::kAny || op == Reduce::kAll) {
    return reduce_truth(op, in_dtype, plan, in, out);
  }
  const auto write = [&](int64_t idx, uint64_t x) {
    static_cast<uint64_t*>(out)[idx] = x;
  };
  with_type(in_dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    if constexpr (std::is_integral_v<T>) {
      if (op == Reduce::kSum) {
        return for_each_state(plan, FoldKernel<T, IntegerSum>{}, in, write);
      }
      for_each_state(plan, FoldKernel<T, IntegerProduct>{}, in, write);
    }
  });
}

}  // namespace neuron::fusion
