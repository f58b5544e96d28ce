// reduce(): which types it takes, and the reductions that follow the tree of law 2.
#include <cmath>

#include "base/check.h"
#include "fusion/kernels/rows.h"
#include "fusion/kernels/rows_dispatch.h"
#include "fusion/kernels/rows_float.h"
#include "fusion/kernels/rows_plan.h"
#include "fusion/kernels/rows_tree.h"

namespace neuron::fusion {
namespace {

using ir::DType;

struct Itself : Plus {
  template <class Acc>
  static Acc map(Acc x, Acc) {
    return x;
  }
};
struct Square : Plus {
  template <class Acc>
  static Acc map(Acc x, Acc) {
    return x * x;
  }
};
struct Magnitude : Plus {
  template <class Acc>
  static Acc map(Acc x, Acc) {
    return std::abs(x);
  }
};
struct SquaredDistance : Plus {
  template <class Acc>
  static Acc map(Acc x, Acc mean) {
    return (x - mean) * (x - mean);
  }
};
struct Factor : Times {
  template <class Acc>
  static Acc map(Acc x, Acc) {
    return x;
  }
};

/// Folds op.map(x, params[row]); `params` may be nullptr.
template <class T, class Acc, class Op>
struct TreeKernel {
  using Value = T;
  using State = Acc;
  using Columns = ColumnLanes<Acc, Op>;

  const Acc* params = nullptr;

  State identity() const { return Op::template kIdentity<Acc>; }
  State row(const T* x, int64_t count, int64_t, int64_t r) const {
    const Acc param = params == nullptr ? Acc{0} : params[r];
    return chunk_tree<Acc, Op>(
        count, [=](int64_t k) { return Op::map(static_cast<Acc>(widen(x[k])), param); });
  }
  void clear(Columns& columns, int64_t size, int64_t count) const {
    columns.clear(size, count);
  }
  void add(Columns& columns, int64_t k, const T* x, int64_t count) const {
    Acc* lane = columns.of(k);
    if constexpr (std::is_same_v<Op, SquaredDistance>) {
      const Acc* mean = params;
      each_column(count, [=](int64_t c) {
        lane[c] = Op::fold(lane[c], Op::map(static_cast<Acc>(widen(x[c])), mean[c]));
      });
    } else {
      each_column(count, [=](int64_t c) {
        lane[c] = Op::fold(lane[c], Op::map(static_cast<Acc>(widen(x[c])), Acc{0}));
      });
    }
  }
  void finish(Columns& columns, int64_t, State* states, int64_t count) const {
    std::fill_n(states, count, identity());
    columns.fold_into(states, count);
  }
  State combine(State before, State chunk) const { return Op::fold(before, chunk); }
};

/// Folds with one kernel and writes last(fold) for each row.
template <class T, class Acc, class Op, class Last>
void fold_rows(const ReducePlan& plan, const T* in, DType out_dtype, void* out,
               const Last& last) {
  for_each_block(plan, [&](const RowBlock& block) {
    Acc sums[kColumns];
    evaluate(plan, TreeKernel<T, Acc, Op>{}, in, block, sums);
    for (int64_t r = 0; r < block.count; ++r) {
      store_as(out_dtype, out, block.out + r * plan.inner.out, last(sums[r]));
    }
  });
}

/// Means first, then the squared distances from them.
template <class T, class Acc>
void spread_rows(const ReducePlan& plan, const T* in, DType out_dtype, void* out,
                 double correction, bool is_std) {
  const Acc size = static_cast<Acc>(plan.size);
  const Acc freedom =
      static_cast<Acc>(std::max(0.0, static_cast<double>(plan.size) - correction));
  for_each_block(plan, [&](const RowBlock& block) {
    Acc means[kColumns];
    evaluate(plan, TreeKernel<T, Acc, Itself>{}, in, block, means);
    for (int64_t r = 0; r < block.count; ++r) means[r] /= size;
    Acc sums[kColumns];
    evaluate(plan, TreeKernel<T, Acc, SquaredDistance>{means}, in, block, sums);
    for (int64_t r = 0; r < block.count; ++r) {
      const Acc variance = sums[r] / freedom;
      store_as(out_dtype, out, block.out + r * plan.inner.out,
               is_std ? std::sqrt(variance) : variance);
    }
  });
}

template <class T, class Acc>
void tree_of_type(Reduce op, const ReducePlan& plan, const T* in, DType out_dtype,
                  void* out, double correction) {
  const Acc size = static_cast<Acc>(plan.size);
  const auto same = [](Acc x) { return x; };
  switch (op) {
    case Reduce::kSum:
      return fold_rows<T, Acc, Itself>(plan, in, out_dtype, out, same);
    case Reduce::kMean:
      return fold_rows<T, Acc, Itself>(plan, in, out_dtype, out,
                                       [=](Acc x) { return x / size; });
    case Reduce::kProd:
      return fold_rows<T, Acc, Factor>(plan, in, out_dtype, out, same);
    case Reduce::kNorm1:
      return fold_rows<T, Acc, Magnitude>(plan, in, out_dtype, out, same);
    case Reduce::kNorm2:
      return fold_rows<T, Acc, Square>(plan, in, out_dtype, out,
                                       [](Acc x) { return std::sqrt(x); });
    case Reduce::kVar:
    case Reduce::kStd:
      return spread_rows<T, Acc>(plan, in, out_dtype, out, correction,
                                 op == Reduce::kStd);
    default:
      NEURON_CHECK(false, "not a reduction by the tree");
  }
}

bool is_integer(DType dtype) {
  return dtype == DType::kBool ||
         static_cast<int>(dtype) <= static_cast<int>(DType::kInt64);
}

}  // namespace

void reduce_by_tree(Reduce op, DType in_dtype, const void* in, DType out_dtype, void* out,
                    const ReduceShape& shape, double correction) {
  const ReducePlan plan(shape);
  if (plan.num_rows == 0) return;
  with_float(in_dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* from = static_cast<const T*>(in);
    if (std::is_same_v<T, double> || out_dtype == DType::kFloat64) {
      return tree_of_type<T, double>(op, plan, from, out_dtype, out, correction);
    }
    if constexpr (!std::is_same_v<T, double>) {
      tree_of_type<T, float>(op, plan, from, out_dtype, out, correction);
    }
  });
}

bool can_reduce(Reduce op, DType in, DType out) {
  if (!is_float(in) && !is_integer(in)) return false;
  switch (op) {
    case Reduce::kAny:
    case Reduce::kAll:
      return out == DType::kBool;
    case Reduce::kArgmax:
    case Reduce::kArgmin:
      return out == DType::kInt64;
    default:
      break;
  }
  if (is_float(in)) return out == in || out == DType::kFloat32 || out == DType::kFloat64;
  switch (op) {
    case Reduce::kSum:
    case Reduce::kProd:
      return out == DType::kInt64;
    case Reduce::kAmax:
    case Reduce::kAmin:
      return out == in;
    default:
      return false;
  }
}

void reduce(Reduce op, DType in_dtype, const void* in, DType out_dtype, void* out,
            const ReduceShape& shape, double correction) {
  NEURON_CHECK(can_reduce(op, in_dtype, out_dtype), "[reduce] no kernel for these types");
  switch (op) {
    case Reduce::kArgmax:
    case Reduce::kArgmin:
      return find_extremes(op == Reduce::kArgmax, in_dtype, in, nullptr,
                           static_cast<int64_t*>(out), shape);
    case Reduce::kAmax:
    case Reduce::kAmin:
    case Reduce::kNormInf:
      return reduce_to_extreme(op, in_dtype, in, out_dtype, out, shape);
    case Reduce::kAny:
    case Reduce::kAll:
      return reduce_exactly(op, in_dtype, in, out, shape);
    default:
      break;
  }
  if (is_integer(in_dtype)) return reduce_exactly(op, in_dtype, in, out, shape);
  reduce_by_tree(op, in_dtype, in, out_dtype, out, shape, correction);
}

void reduce_with_index(bool is_max, DType dtype, const void* in, void* out,
                       int64_t* indices, const ReduceShape& shape) {
  find_extremes(is_max, dtype, in, out, indices, shape);
}

}  // namespace neuron::fusion
