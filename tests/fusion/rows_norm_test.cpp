// Softmax, layer norm and losses of rows against naive references.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "fusion/kernels/rows.h"
#include "fusion/rows_elements.h"

namespace neuron::fusion {
namespace {

// ------------------------------------------------------------------ softmax
std::vector<double> softmax_reference(bool is_log, const std::vector<double>& row) {
  const double max = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (double x : row) sum += std::exp(x - max);
  std::vector<double> result;
  for (double x : row) {
    result.push_back(is_log ? x - max - std::log(sum) : std::exp(x - max) / sum);
  }
  return result;
}

/// Element k of row (o, i) of a tensor seen as [outer, size, inner].
int64_t place(const RowShape& shape, int64_t row, int64_t k) {
  return (row / shape.inner * shape.size + k) * shape.inner + row % shape.inner;
}

std::vector<double> row_at(const Elements& in, const RowShape& shape, int64_t row) {
  std::vector<double> result;
  for (int64_t k = 0; k < shape.size; ++k) result.push_back(in[place(shape, row, k)]);
  return result;
}

Elements softmaxed(bool is_log, const Elements& in, const RowShape& shape) {
  Elements out(in.dtype(), in.size());
  softmax(is_log, in.dtype(), in.data(), out.data(), shape);
  return out;
}

const std::vector<RowShape> kRowShapes = {{3, 1, 1},     {5, 17, 1},  {2, 4097, 1},
                                          {1, 30000, 1}, {2, 33, 7},  {3, 5, 200},
                                          {1, 4100, 3},  {400, 64, 1}};

TEST(RowsSoftmax, IsNearItsDefinition) {
  for (DType dtype : kFloats) {
    for (const RowShape& shape : kRowShapes) {
      Elements in = elements(dtype, shape.outer * shape.size * shape.inner, 23);
      for (int64_t i = 0; i < in.size(); ++i) in.set(i, in[i] * 8);
      for (bool is_log : {false, true}) {
        const Elements out = softmaxed(is_log, in, shape);
        for (int64_t row = 0; row < shape.outer * shape.inner; ++row) {
          const auto expected = softmax_reference(is_log, row_at(in, shape, row));
          for (int64_t k = 0; k < shape.size; ++k) {
            ASSERT_NEAR(out[place(shape, row, k)], expected[k],
                        tolerance_of(dtype) * (1 + std::abs(expected[k])));
          }
        }
      }
    }
  }
}

TEST(RowsSoftmax, InnerDimensionsAndThreadsGiveTheSameBits) {
  for (DType dtype : kFloats) {
    for (const int64_t size : {16, 33, 4097, 9000}) {
      const int64_t rows = 19;
      const Elements in = elements(dtype, rows * size, 29);
      const Elements grad = elements(dtype, rows * size, 31);
      const Elements columns = transposed(in, rows, size);
      const Elements grad_columns = transposed(grad, rows, size);
      for (bool is_log : {false, true}) {
        const RowShape by_rows{rows, size, 1}, by_columns{1, size, rows};
        const Elements out = softmaxed(is_log, in, by_rows);
        Elements grad_in(dtype, rows * size);
        softmax_backward(is_log, dtype, grad.data(), out.data(), grad_in.data(), by_rows);
        for (int count : {1, 2, 40}) {
          const Threads threads(count);
          EXPECT_EQ(softmaxed(is_log, in, by_rows), out);
          EXPECT_EQ(softmaxed(is_log, columns, by_columns), transposed(out, rows, size));
          Elements again(dtype, rows * size);
          softmax_backward(is_log, dtype, grad.data(), out.data(), again.data(), by_rows);
          EXPECT_EQ(again, grad_in);
          softmax_backward(is_log, dtype, grad_columns.data(),
                           transposed(out, rows, size).data(), again.data(), by_columns);
          EXPECT_EQ(again, transposed(grad_in, rows, size));
        }
      }
    }
  }
}

TEST(RowsSoftmax, SpecialRowsAreNanAsAWhole) {
  for (DType dtype : kFloats) {
    for (bool is_log : {false, true}) {
      for (int64_t inner : {1, 4}) {
        const RowShape shape{1, 70, inner};
        Elements in = elements(dtype, 70 * inner);
        for (double bad : {kNan, kInf}) {
          in.set(69 * inner, bad);
          const Elements out = softmaxed(is_log, in, shape);
          for (int64_t k = 0; k < 70; ++k) EXPECT_TRUE(std::isnan(out[k * inner]));
        }
        for (int64_t k = 0; k < 70; ++k) in.set(k * inner, -kInf);
        EXPECT_TRUE(std::isnan(softmaxed(is_log, in, shape)[0]));
        in.set(7 * inner, 2);
        const Elements out = softmaxed(is_log, in, shape);
        EXPECT_EQ(out[7 * inner], is_log ? 0 : 1);
        EXPECT_EQ(out[8 * inner], is_log ? -kInf : 0);
      }
    }
  }
}

TEST(RowsSoftmax, GradientIsNearItsDefinition) {
  for (DType dtype : kFloats) {
    for (const RowShape& shape : kRowShapes) {
      const int64_t count = shape.outer * shape.size * shape.inner;
      const Elements grad = elements(dtype, count, 37);
      for (bool is_log : {false, true}) {
        const Elements out = softmaxed(is_log, elements(dtype, count, 41), shape);
        Elements grad_in(dtype, count);
        softmax_backward(is_log, dtype, grad.data(), out.data(), grad_in.data(), shape);
        for (int64_t row = 0; row < shape.outer * shape.inner; ++row) {
          const auto g = row_at(grad, shape, row), y = row_at(out, shape, row);
          double sum = 0;
          for (int64_t k = 0; k < shape.size; ++k) sum += is_log ? g[k] : g[k] * y[k];
          for (int64_t k = 0; k < shape.size; ++k) {
            const double expected =
                is_log ? g[k] - std::exp(y[k]) * sum : y[k] * (g[k] - sum);
            ASSERT_NEAR(grad_in[place(shape, row, k)], expected, 2 * tolerance_of(dtype));
          }
        }
      }
    }
  }
}

TEST(RowsSoftmax, NothingIsNormalised) {
  for (const RowShape& shape : {RowShape{0, 3, 1}, {3, 0, 1}, {3, 2, 0}}) {
    softmax(false, DType::kFloat32, nullptr, nullptr, shape);
    softmax_backward(true, DType::kFloat32, nullptr, nullptr, nullptr, shape);
  }
}

// ------------------------------------------------------------------ layer norm
struct Norm {
  Elements in, weight, bias, out, mean, rstd;
  Norm(DType dtype, DType stats, int64_t rows, int64_t size, bool affine = true)
      : in(elements(dtype, rows * size, 43)),
        weight(elements(dtype, size, 47)),
        bias(elements(dtype, size, 53)),
        out(dtype, rows * size),
        mean(stats, rows),
        rstd(stats, rows) {
    layer_norm(dtype, in.data(), affine ? weight.data() : nullptr,
               affine ? bias.data() : nullptr, 1e-5, rows, size, out.data(), stats,
               mean.data(), rstd.data());
  }
};

TEST(RowsNorm, IsNearItsDefinition) {
  for (DType dtype : kFloats) {
    for (DType stats : {dtype, DType::kFloat32}) {
      for (int64_t size : {1, 17, 1000, 4097}) {
        for (bool affine : {true, false}) {
          const Norm norm(dtype, stats, 4, size, affine);
          for (int64_t r = 0; r < 4; ++r) {
            const auto row = row_as<double>(norm.in, r, size);
            const double mean = reference(Reduce::kMean, row, 0);
            const double rstd = 1 / std::sqrt(reference(Reduce::kVar, row, 0) + 1e-5);
            EXPECT_NEAR(norm.mean[r], mean, 4 * tolerance_of(stats));
            EXPECT_NEAR(norm.rstd[r], rstd, 4 * tolerance_of(stats) * rstd);
            for (int64_t k = 0; k < size; ++k) {
              const double normal = (row[k] - mean) * rstd;
              const double expected =
                  affine ? normal * norm.weight[k] + norm.bias[k] : normal;
              ASSERT_NEAR(norm.out[r * size + k], expected,
                          4 * tolerance_of(dtype) * (1 + std::abs(normal)));
            }
          }
        }
      }
    }
  }
}

struct NormGradients {
  Elements grad_in, grad_weight, grad_bias;
  NormGradients(const Norm& norm, const Elements& grad, int64_t rows, int64_t size,
                bool affine = true)
      : grad_in(grad.dtype(), rows * size),
        grad_weight(grad.dtype(), size),
        grad_bias(grad.dtype(), size) {
    layer_norm_backward(grad.dtype(), grad.data(), norm.in.data(), norm.mean.dtype(),
                        norm.mean.data(), norm.rstd.data(),
                        affine ? norm.weight.data() : nullptr, rows, size, grad_in.data(),
                        grad_weight.data(), grad_bias.data());
  }
};

TEST(RowsNorm, GradientIsNearItsDefinition) {
  for (DType dtype : kFloats) {
    for (auto [rows, size] : {std::pair<int64_t, int64_t>{3, 1}, {7, 100}, {4100, 19}}) {
      for (bool affine : {true, false}) {
        const DType stats = dtype == DType::kFloat64 ? dtype : DType::kFloat32;
        const Norm norm(dtype, stats, rows, size, affine);
        const Elements grad = elements(dtype, rows * size, 59);
        const NormGradients result(norm, grad, rows, size, affine);
        std::vector<double> weight_sum(size), bias_sum(size);
        for (int64_t r = 0; r < rows; ++r) {
          std::vector<double> slope(size), normal(size);
          double level = 0, tilt = 0;
          for (int64_t k = 0; k < size; ++k) {
            const double g = grad[r * size + k];
            slope[k] = affine ? g * norm.weight[k] : g;
            normal[k] = (norm.in[r * size + k] - norm.mean[r]) * norm.rstd[r];
            level += slope[k] / static_cast<double>(size);
            tilt += slope[k] * normal[k] / static_cast<double>(size);
            weight_sum[k] += g * normal[k];
            bias_sum[k] += g;
          }
          for (int64_t k = 0; k < size; ++k) {
            const double expected = norm.rstd[r] * (slope[k] - level - normal[k] * tilt);
            ASSERT_NEAR(result.grad_in[r * size + k], expected,
                        8 * tolerance_of(dtype) * (1 + norm.rstd[r]));
          }
        }
        const double tolerance =
            tolerance_of(dtype) * (2 + std::sqrt(static_cast<double>(rows)));
        for (int64_t k = 0; k < size; ++k) {
          EXPECT_NEAR(result.grad_weight[k], weight_sum[k], 2 * tolerance);
          EXPECT_NEAR(result.grad_bias[k], bias_sum[k], 2 * tolerance);
        }
      }
    }
  }
}

TEST(RowsNorm, GradientSumsFollowTheTreeToTheBit) {
  const int64_t rows = 4500, size = 3;
  const Norm norm(DType::kFloat32, DType::kFloat32, rows, size);
  const Elements grad = elements(DType::kFloat32, rows * size, 61);
  const NormGradients result(norm, grad, rows, size);
  for (int64_t k = 0; k < size; ++k) {
    std::vector<float> terms(rows), slopes(rows);
    for (int64_t r = 0; r < rows; ++r) {
      slopes[r] = static_cast<float>(grad[r * size + k]);
      const float distance =
          static_cast<float>(norm.in[r * size + k]) - static_cast<float>(norm.mean[r]);
      terms[r] = slopes[r] * (distance * static_cast<float>(norm.rstd[r]));
    }
    EXPECT_EQ(result.grad_weight[k], law_2(terms));
    EXPECT_EQ(result.grad_bias[k], law_2(slopes));
  }
}

TEST(RowsNorm, ThreadsAndMissingOutputsChangeNoBit) {
  for (DType dtype : kFloats) {
    const int64_t rows = 300, size = 333;
    const Elements grad = elements(dtype, rows * size, 67);
    const Norm norm(dtype, DType::kFloat32, rows, size);
    const NormGradients expected(norm, grad, rows, size);
    for (int count : {1, 2, 7}) {
      const Threads threads(count);
      EXPECT_EQ(Norm(dtype, DType::kFloat32, rows, size).out, norm.out);
      const NormGradients again(norm, grad, rows, size);
      EXPECT_EQ(again.grad_in, expected.grad_in);
      EXPECT_EQ(again.grad_weight, expected.grad_weight);
      EXPECT_EQ(again.grad_bias, expected.grad_bias);
    }
    Elements grad_weight(dtype, size), grad_bias(dtype, size);
    const auto backward = [&](void* to_weight, void* to_bias) {
      layer_norm_backward(dtype, grad.data(), norm.in.data(), DType::kFloat32,
                          norm.mean.data(), norm.rstd.data(), norm.weight.data(), rows,
                          size, nullptr, to_weight, to_bias);
    };
    backward(grad_weight.data(), nullptr);
    backward(nullptr, grad_bias.data());
    EXPECT_EQ(grad_weight, expected.grad_weight);
    EXPECT_EQ(grad_bias, expected.grad_bias);
  }
}

TEST(RowsNorm, NoRowsGiveZeroGradients) {
  const Norm norm(DType::kFloat32, DType::kFloat32, 0, 5);
  const NormGradients result(norm, Elements(DType::kFloat32, 0), 0, 5);
  EXPECT_EQ(result.grad_weight.values(), std::vector<double>(5, 0));
  EXPECT_EQ(result.grad_bias.values(), std::vector<double>(5, 0));
}

// ------------------------------------------------------------------ losses
constexpr int64_t kIgnored = -100;

struct Loss {
  Status status;
  Elements out, total;
  Loss(const Elements& in, const std::vector<int64_t>& targets, const Elements* weight,
       LossReduction reduction, int64_t classes)
      : out(in.dtype(),
            reduction == LossReduction::kNone ? static_cast<int64_t>(targets.size()) : 1),
        total(in.dtype(), 1) {
    status =
        nll_loss(in.dtype(), in.data(), targets.data(),
                 weight == nullptr ? nullptr : weight->data(), reduction, kIgnored,
                 static_cast<int64_t>(targets.size()), classes, out.data(), total.data());
  }
};

TEST(RowsLoss, IsNearItsDefinition) {
  const int64_t rows = 500, classes = 7;
  std::vector<int64_t> targets(rows);
  for (int64_t r = 0; r < rows; ++r)
    targets[r] = r % 11 == 3 ? kIgnored : r * 5 % classes;
  for (DType dtype : kFloats) {
    const Elements in = elements(dtype, rows * classes, 71);
    const Elements weight = elements(dtype, classes, 73);
    for (const Elements* w : {static_cast<const Elements*>(nullptr), &weight}) {
      const Loss none(in, targets, w, LossReduction::kNone, classes);
      const Loss sum(in, targets, w, LossReduction::kSum, classes);
      const Loss mean(in, targets, w, LossReduction::kMean, classes);
      double expected = 0, total = 0;
      for (int64_t r = 0; r < rows; ++r) {
        const bool has = targets[r] != kIgnored;
        const double share = !has ? 0 : w == nullptr ? 1 : weight[targets[r]];
        const double loss = has ? -share * in[r * classes + targets[r]] : 0;
        EXPECT_NEAR(none.out[r], loss, tolerance_of(dtype));
        expected += loss;
        total += share;
      }
      const double tolerance = 30 * tolerance_of(dtype);
      EXPECT_NEAR(sum.out[0], expected, tolerance * (1 + std::abs(expected)));
      EXPECT_NEAR(sum.total[0], total, tolerance * (1 + std::abs(total)));
      EXPECT_NEAR(mean.out[0], expected / total,
                  tolerance * (1 + std::abs(expected / total)));
      EXPECT_EQ(none.total[0], 0);
    }
  }
}

TEST(RowsLoss, MeanOverNoTargetIsNan) {
  const Elements in = elements(DType::kFloat32, 6);
  const std::vector<int64_t> targets = {kIgnored, kIgnored};
  EXPECT_TRUE(std::isnan(Loss(in, targets, nullptr, LossReduction::kMean, 3).out[0]));
  EXPECT_EQ(Loss(in, targets, nullptr, LossReduction::kSum, 3).out[0], 0);
  EXPECT_TRUE(std::isnan(Loss(in, {}, nullptr, LossReduction::kMean, 3).out[0]));
  EXPECT_EQ(Loss(in, {}, nullptr, LossReduction::kSum, 3).out[0], 0);
}

TEST(RowsLoss, ATargetOutOfBoundsIsAnError) {
  const Elements in = elements(DType::kFloat32, 6);
  for (int64_t target : {-1, 3}) {
    const std::vector<int64_t> targets = {0, target};
    const Loss loss(in, targets, nullptr, LossReduction::kMean, 3);
    ASSERT_FALSE(loss.status.is_ok());
    EXPECT_EQ(loss.status.error()->kind, ErrorKind::kIndex);
    EXPECT_EQ(loss.status.error()->message,
              "Target " + std::to_string(target) + " is out of bounds.");
    Elements grad_in(DType::kFloat32, 6);
    EXPECT_FALSE(nll_loss_backward(DType::kFloat32, in.data(), 1, targets.data(), nullptr,
                                   LossReduction::kNone, kIgnored, nullptr, 2, 3,
                                   grad_in.data())
                     .is_ok());
  }
}

TEST(RowsLoss, GradientIsAtTheTargetsAlone) {
  const std::vector<int64_t> targets = {2, kIgnored, 0};
  for (DType dtype : kFloats) {
    const Elements weight(dtype, {0.5, 4, 2});
    const Elements grad(dtype, {3, 9, 5, 9, 7});
    const Elements total(dtype, std::vector<double>{8});
    const auto gradient = [&](LossReduction reduction, const void* w) {
      Elements grad_in(dtype, std::vector<double>(9, 99));
      EXPECT_TRUE(nll_loss_backward(dtype, grad.data(), 2, targets.data(), w, reduction,
                                    kIgnored, total.data(), 3, 3, grad_in.data())
                      .is_ok());
      return grad_in.values();
    };
    using Values = std::vector<double>;
    EXPECT_EQ(gradient(LossReduction::kNone, nullptr),
              (Values{0, 0, -3, 0, 0, 0, -7, 0, 0}));
    EXPECT_EQ(gradient(LossReduction::kNone, weight.data()),
              (Values{0, 0, -6, 0, 0, 0, -3.5, 0, 0}));
    EXPECT_EQ(gradient(LossReduction::kSum, nullptr),
              (Values{0, 0, -3, 0, 0, 0, -3, 0, 0}));
    EXPECT_EQ(gradient(LossReduction::kMean, weight.data()),
              (Values{0, 0, -0.75, 0, 0, 0, -0.1875, 0, 0}));
  }
}

}  // namespace
}  // namespace neuron::fusion
