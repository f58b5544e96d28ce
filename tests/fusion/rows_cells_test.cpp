// The cells of recurrent layers against naive references.
#include <gtest/gtest.h>

#include <cmath>

#include "fusion/kernels/rows.h"
#include "fusion/rows_elements.h"

namespace neuron::fusion {
namespace {

constexpr CellShape kShapes[] = {{1, 1}, {3, 7}, {5, 64}, {300, 33}};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Inputs of a cell with `gates` gates; without biases where `has_bias` is false.
struct Inputs {
  Inputs(DType dtype, const CellShape& shape, int64_t gates, bool has_bias)
      : width(gates * shape.size),
        input(elements(dtype, shape.rows * width, 3)),
        hidden(elements(dtype, shape.rows * width, 5)),
        input_bias(elements(dtype, width, 7)),
        hidden_bias(elements(dtype, width, 11)),
        has_bias(has_bias) {}

  CellInputs pointers() const {
    return {input.data(), hidden.data(), has_bias ? input_bias.data() : nullptr,
            has_bias ? hidden_bias.data() : nullptr};
  }
  double from_input(int64_t row, int64_t k) const {
    return input[row * width + k] + (has_bias ? input_bias[k] : 0);
  }
  double from_hidden(int64_t row, int64_t k) const {
    return hidden[row * width + k] + (has_bias ? hidden_bias[k] : 0);
  }
  double sum(int64_t row, int64_t k) const {
    return from_input(row, k) + from_hidden(row, k);
  }

  int64_t width;
  Elements input, hidden, input_bias, hidden_bias;
  bool has_bias;
};

struct Lstm {
  Lstm(DType dtype, const CellShape& shape, bool has_bias = true)
      : in(dtype, shape, 4, has_bias),
        cx(elements(dtype, shape.rows * shape.size, 13)),
        hy(dtype, cx.size()),
        cy(dtype, cx.size()),
        workspace(dtype, 4 * cx.size()) {
    lstm_cell(dtype, shape, in.pointers(), cx.data(), hy.data(), cy.data(),
              workspace.data());
  }
  Inputs in;
  Elements cx, hy, cy, workspace;
};

TEST(RowsCells, LstmIsNearItsDefinition) {
  for (DType dtype : kFloats) {
    for (const CellShape& shape : kShapes) {
      for (bool has_bias : {false, true}) {
        const Lstm cell(dtype, shape, has_bias);
        for (int64_t i = 0; i < cell.cx.size(); ++i) {
          const int64_t row = i / shape.size, k = i % shape.size, size = shape.size;
          const double in = sigmoid(cell.in.sum(row, k));
          const double forget = sigmoid(cell.in.sum(row, size + k));
          const double fresh = std::tanh(cell.in.sum(row, 2 * size + k));
          const double out = sigmoid(cell.in.sum(row, 3 * size + k));
          const double state = forget * cell.cx[i] + in * fresh;
          const double near = 4 * tolerance_of(dtype);
          ASSERT_NEAR(cell.cy[i], state, near);
          ASSERT_NEAR(cell.hy[i], out * std::tanh(state), near);
          const int64_t first = row * 4 * size + k;
          EXPECT_NEAR(cell.workspace[first], in, near);
          EXPECT_NEAR(cell.workspace[first + size], forget, near);
          EXPECT_NEAR(cell.workspace[first + 2 * size], fresh, near);
          EXPECT_NEAR(cell.workspace[first + 3 * size], out, near);
        }
      }
    }
  }
}

struct LstmGradients {
  LstmGradients(const Lstm& cell, const CellShape& shape, const Elements* of_hy,
                const Elements* of_cy)
      : gates(cell.cx.dtype(), 4 * cell.cx.size()), cx(cell.cx.dtype(), cell.cx.size()) {
    lstm_cell_backward(cell.cx.dtype(), shape, of_hy == nullptr ? nullptr : of_hy->data(),
                       of_cy == nullptr ? nullptr : of_cy->data(), cell.cx.data(),
                       cell.cy.data(), cell.workspace.data(), gates.data(), cx.data());
  }
  Elements gates, cx;
};

// The derivative of a sum of results by each input, from differences of the forward's
// formula, would be too coarse for 16 bits; so in double alone.
TEST(RowsCells, LstmGradientIsTheSlope) {
  const CellShape shape{3, 5};
  const DType dtype = DType::kFloat64;
  const Elements of_hy = elements(dtype, 15, 17), of_cy = elements(dtype, 15, 19);
  const auto value = [&](const Inputs& in, const Elements& cx) {
    Elements hy(dtype, 15), cy(dtype, 15), workspace(dtype, 60);
    lstm_cell(dtype, shape, in.pointers(), cx.data(), hy.data(), cy.data(),
              workspace.data());
    double sum = 0;
    for (int64_t i = 0; i < 15; ++i) sum += of_hy[i] * hy[i] + of_cy[i] * cy[i];
    return sum;
  };
  const Lstm cell(dtype, shape);
  const LstmGradients result(cell, shape, &of_hy, &of_cy);
  const double step = 0x1p-20;
  for (int64_t i = 0; i < 60; ++i) {
    Inputs up = cell.in, down = cell.in;
    up.input.set(i, cell.in.input[i] + step);
    down.input.set(i, cell.in.input[i] - step);
    const double slope = (value(up, cell.cx) - value(down, cell.cx)) / (2 * step);
    EXPECT_NEAR(result.gates[i], slope, 1e-9);
  }
  for (int64_t i = 0; i < 15; ++i) {
    Elements up = cell.cx, down = cell.cx;
    up.set(i, cell.cx[i] + step);
    down.set(i, cell.cx[i] - step);
    EXPECT_NEAR(result.cx[i], (value(cell.in, up) - value(cell.in, down)) / (2 * step),
                1e-9);
  }
}

TEST(RowsCells, LstmGradientOfOneResultIsThatOfZerosForTheOther) {
  const CellShape shape{3, 20};
  for (DType dtype : kFloats) {
    const Lstm cell(dtype, shape);
    const Elements some = elements(dtype, 60, 23);
    const Elements none(dtype, std::vector<double>(60));
    EXPECT_EQ(LstmGradients(cell, shape, &some, nullptr).gates,
              LstmGradients(cell, shape, &some, &none).gates);
    EXPECT_EQ(LstmGradients(cell, shape, nullptr, &some).cx,
              LstmGradients(cell, shape, &none, &some).cx);
  }
}

struct Gru {
  Gru(DType dtype, const CellShape& shape, bool has_bias = true)
      : in(dtype, shape, 3, has_bias),
        hx(elements(dtype, shape.rows * shape.size, 29)),
        hy(dtype, hx.size()),
        workspace(dtype, 5 * hx.size()) {
    gru_cell(dtype, shape, in.pointers(), hx.data(), hy.data(), workspace.data());
  }
  Inputs in;
  Elements hx, hy, workspace;
};

TEST(RowsCells, GruIsNearItsDefinition) {
  for (DType dtype : kFloats) {
    for (const CellShape& shape : kShapes) {
      for (bool has_bias : {false, true}) {
        const Gru cell(dtype, shape, has_bias);
        for (int64_t i = 0; i < cell.hx.size(); ++i) {
          const int64_t row = i / shape.size, k = i % shape.size, size = shape.size;
          const double reset = sigmoid(cell.in.sum(row, k));
          const double update = sigmoid(cell.in.sum(row, size + k));
          const double fresh = std::tanh(cell.in.from_input(row, 2 * size + k) +
                                         reset * cell.in.from_hidden(row, 2 * size + k));
          ASSERT_NEAR(cell.hy[i], (1 - update) * fresh + update * cell.hx[i],
                      4 * tolerance_of(dtype));
        }
      }
    }
  }
}

struct GruGradients {
  GruGradients(const Gru& cell, const CellShape& shape, const Elements& grad)
      : input(grad.dtype(), 3 * grad.size()),
        hidden(grad.dtype(), 3 * grad.size()),
        hx(grad.dtype(), grad.size()) {
    gru_cell_backward(grad.dtype(), shape, grad.data(), cell.workspace.data(),
                      input.data(), hidden.data(), hx.data());
  }
  Elements input, hidden, hx;
};

TEST(RowsCells, GruGradientIsTheSlope) {
  const CellShape shape{2, 6};
  const DType dtype = DType::kFloat64;
  const Elements grad = elements(dtype, 12, 31);
  const auto value = [&](const Inputs& in, const Elements& hx) {
    Elements hy(dtype, 12), workspace(dtype, 60);
    gru_cell(dtype, shape, in.pointers(), hx.data(), hy.data(), workspace.data());
    double sum = 0;
    for (int64_t i = 0; i < 12; ++i) sum += grad[i] * hy[i];
    return sum;
  };
  const Gru cell(dtype, shape);
  const GruGradients result(cell, shape, grad);
  const double step = 0x1p-20;
  const auto slope = [&](Elements Inputs::* part, int64_t i) {
    Inputs up = cell.in, down = cell.in;
    (up.*part).set(i, (cell.in.*part)[i] + step);
    (down.*part).set(i, (cell.in.*part)[i] - step);
    return (value(up, cell.hx) - value(down, cell.hx)) / (2 * step);
  };
  for (int64_t i = 0; i < 36; ++i) {
    EXPECT_NEAR(result.input[i], slope(&Inputs::input, i), 1e-9);
    EXPECT_NEAR(result.hidden[i], slope(&Inputs::hidden, i), 1e-9);
  }
  for (int64_t i = 0; i < 12; ++i) {
    Elements up = cell.hx, down = cell.hx;
    up.set(i, cell.hx[i] + step);
    down.set(i, cell.hx[i] - step);
    EXPECT_NEAR(result.hx[i], (value(cell.in, up) - value(cell.in, down)) / (2 * step),
                1e-9);
  }
}

TEST(RowsCells, ThreadsChangeNoBit) {
  const CellShape shape{700, 65};
  for (DType dtype : kFloats) {
    const Elements grad = elements(dtype, shape.rows * shape.size, 37);
    const Lstm lstm(dtype, shape);
    const LstmGradients of_lstm(lstm, shape, &grad, &grad);
    const Gru gru(dtype, shape);
    const GruGradients of_gru(gru, shape, grad);
    for (int count : {1, 3}) {
      const Threads threads(count);
      const Lstm lstm_again(dtype, shape);
      EXPECT_EQ(lstm_again.hy, lstm.hy);
      EXPECT_EQ(lstm_again.workspace, lstm.workspace);
      EXPECT_EQ(LstmGradients(lstm, shape, &grad, &grad).gates, of_lstm.gates);
      EXPECT_EQ(Gru(dtype, shape).hy, gru.hy);
      EXPECT_EQ(GruGradients(gru, shape, grad).hidden, of_gru.hidden);
    }
  }
}

TEST(RowsCells, NanComesOutAsTheOneNan) {
  const CellShape shape{1, 1};
  for (DType dtype : kFloats) {
    Lstm cell(dtype, shape);
    cell.cx.set(0, -kNan);
    lstm_cell(dtype, shape, cell.in.pointers(), cell.cx.data(), cell.hy.data(),
              cell.cy.data(), cell.workspace.data());
    EXPECT_EQ(cell.hy, Elements(dtype, std::vector<double>{kNan}));
    EXPECT_EQ(cell.cy, Elements(dtype, std::vector<double>{kNan}));
  }
}

}  // namespace
}  // namespace neuron::fusion
