// Negative log likelihood and its gradient.
#include <algorithm>
#include <string>
#include <type_traits>

#include "base/parallel.h"
#include "fusion/kernels/rows.h"
#include "fusion/kernels/rows_float.h"
#include "fusion/kernels/rows_tree.h"

namespace neuron::fusion {
namespace {

/// The targets of a loss with the weights of their classes.
template <class T>
struct Targets {
  const int64_t* targets;
  const T* weight;
  int64_t ignored;

  bool has(int64_t r) const { return targets[r] != ignored; }
  AccOf<T> weight_of(int64_t r) const {
    return weight == nullptr ? AccOf<T>{1} : AccOf<T>{widen(weight[targets[r]])};
  }
};

Status check_targets(const int64_t* targets, int64_t ignored, int64_t rows,
                     int64_t classes) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t target = targets[r];
    if ((target >= 0 && target < classes) || target == ignored) continue;
    return Status(ErrorKind::kIndex,
                  "Target " + std::to_string(target) + " is out of bounds.");
  }
  return {};
}

template <class T>
void loss_of_type(const T* log_probs, const Targets<T>& targets, LossReduction reduction,
                  int64_t rows, int64_t classes, T* out, T* total_weight) {
  using Acc = AccOf<T>;
  const auto loss = [&](int64_t r) {
    if (!targets.has(r)) return Acc{0};
    return -Acc{widen(log_probs[r * classes + targets.targets[r]])} *
           targets.weight_of(r);
  };
  if (reduction == LossReduction::kNone) {
    *total_weight = narrow<T>(Acc{0});
    return parallel_for(rows, kGrain / 4, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) out[r] = narrow<T>(one_nan(loss(r)));
    });
  }
  const Acc sum = tree_sum<Acc>(rows, loss);
  const Acc total = tree_sum<Acc>(
      rows, [&](int64_t r) { return targets.has(r) ? targets.weight_of(r) : Acc{0}; });
  *total_weight = narrow<T>(one_nan(total));
  *out = narrow<T>(one_nan(reduction == LossReduction::kMean ? sum / total : sum));
}

template <class T>
void backward_of_type(const T* grad, int64_t grad_stride, const Targets<T>& targets,
                      LossReduction reduction, const T* total_weight, int64_t rows,
                      int64_t classes, T* grad_in) {
  using Acc = AccOf<T>;
  const bool is_mean = reduction == LossReduction::kMean;
  const int64_t stride = reduction == LossReduction::kNone ? grad_stride : 0;
  const Acc total = is_mean ? Acc{widen(*total_weight)} : Acc{1};
  parallel_for(rows, grain_of(classes), [&](int64_t begin, int64_t end) {
    std::fill(grad_in + begin * classes, grad_in + end * classes, narrow<T>(Acc{0}));
    for (int64_t r = begin; r < end; ++r) {
      if (!targets.has(r)) continue;
      const Acc g = widen(grad[r * stride]);
      const Acc share = is_mean ? g / total : g;
      grad_in[r * classes + targets.targets[r]] =
          narrow<T>(one_nan(-share * targets.weight_of(r)));
    }
  });
}

}  // namespace

Status nll_loss(ir::DType dtype, const void* log_probs, const int64_t* targets,
                const void* weight, LossReduction reduction, int64_t ignore_index,
                int64_t rows, int64_t classes, void* out, void* total_weight) {
  Status status = check_targets(targets, ignore_index, rows, classes);
  if (!status.is_ok()) return status;
  with_float(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    loss_of_type(static_cast<const T*>(log_probs),
                 Targets<T>{targets, static_cast<const T*>(weight), ignore_index},
                 reduction, rows, classes, static_cast<T*>(out),
                 static_cast<T*>(total_weight));
  });
  return {};
}

Status nll_loss_backward(ir::DType dtype, const void* grad, int64_t grad_stride,
                         const int64_t* targets, const void* weight,
                         LossReduction reduction, int64_t ignore_index,
                         const void* total_weight, int64_t rows, int64_t classes,
                         void* grad_in) {
  Status status = check_targets(targets, ignore_index, rows, classes);
  if (!status.is_ok()) return status;
  with_float(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    backward_of_type(static_cast<const T*>(grad), grad_stride,
                     Targets<T>{targets, static_cast<const T*>(weight), ignore_index},
                     reduction, static_cast<const T*>(total_weight), rows, classes,
                     static_cast<T*>(grad_in));
  });
  return {};
}

}  // namespace neuron::fusion
