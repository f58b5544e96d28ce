// One step of an LSTM and of a GRU and its gradient, all gates of an element at once.
//
// Every result depends on one element of each input; the loops over a row are vector
// code. Formulas: torch.nn.LSTMCell and torch.nn.GRUCell, gradients by the chain rule.
#include <type_traits>

#include "base/parallel.h"
#include "fusion/kernels/rows.h"
#include "fusion/kernels/rows_float.h"
#include "fusion/kernels/rows_tree.h"
#include "ir/math.h"

namespace neuron::fusion {
namespace {

/// An activation is worth so many elements of simple work.
constexpr int64_t kActivationWork = 8;

// Each in a loop of its own, which becomes vector code.
template <class Acc>
inline void sigmoid_all(Acc* x, int64_t count) {
  for (int64_t k = 0; k < count; ++k) x[k] = ir::math::sigmoid<Acc>(x[k]);
}
template <class Acc>
inline void tanh_all(Acc* x, int64_t count) {
  for (int64_t k = 0; k < count; ++k) x[k] = ir::math::tanh<Acc>(x[k]);
}

/// Elements that are worked on together, so that a loop over them has neither a tail nor
/// a choice in it.
constexpr int64_t kPiece = 64;

/// Some elements of a gate: the product in one row, and its bias or nullptr.
template <class T>
struct Term {
  const T* product;
  const T* bias;

  void write(int64_t count, AccOf<T>* out) const {
    if (bias == nullptr) {
      for (int64_t k = 0; k < count; ++k) out[k] = widen(product[k]);
    } else {
      for (int64_t k = 0; k < count; ++k) {
        out[k] = AccOf<T>{widen(product[k])} + AccOf<T>{widen(bias[k])};
      }
    }
  }
};

/// The gates of one row before their activation.
template <class T>
struct Gates {
  const T* input;
  const T* hidden;
  const T* input_bias;
  const T* hidden_bias;

  Term<T> of_input(int64_t k) const { return term(input, input_bias, k); }
  Term<T> of_hidden(int64_t k) const { return term(hidden, hidden_bias, k); }
  /// Both terms of `count` gates from `k` on.
  void sum(int64_t k, int64_t count, AccOf<T>* out) const {
    alignas(64) AccOf<T> second[kPiece];
    of_input(k).write(count, out);
    of_hidden(k).write(count, second);
    for (int64_t i = 0; i < count; ++i) out[i] += second[i];
  }

 private:
  static Term<T> term(const T* product, const T* bias, int64_t k) {
    return {product + k, bias == nullptr ? nullptr : bias + k};
  }
};

template <class T>
Gates<T> gates_of(const CellInputs& in, int64_t offset) {
  return {static_cast<const T*>(in.input_gates) + offset,
          static_cast<const T*>(in.hidden_gates) + offset,
          static_cast<const T*>(in.input_bias), static_cast<const T*>(in.hidden_bias)};
}

template <class T>
void store(T* out, int64_t k, AccOf<T> value) {
  out[k] = narrow<T>(one_nan(value));
}

/// Calls body(begin, count) for the pieces of a row; `count` is a constant for most.
template <class Body>
void each_piece(int64_t size, const Body& body) {
  int64_t begin = 0;
  for (; begin + kPiece <= size; begin += kPiece) body(begin, kPiece);
  if (begin < size) body(begin, size - begin);
}

// Order of the gates: input, forget, cell, output.
template <class T>
void lstm_row(const Gates<T>& gates, const T* cx, int64_t size, T* hy, T* cy,
              T* workspace) {
  using Acc = AccOf<T>;
  each_piece(size, [&](int64_t begin, int64_t count) __attribute__((always_inline)) {
    alignas(64) Acc sums[4][kPiece], state[kPiece], squashed[kPiece];
    for (int64_t g = 0; g < 4; ++g) gates.sum(g * size + begin, count, sums[g]);
    const T* before = cx + begin;
    T *of_hy = hy + begin, *of_cy = cy + begin, *kept = workspace + begin;
    for (const int g : {0, 1, 3}) sigmoid_all(sums[g], count);
    tanh_all(sums[2], count);
    for (int64_t k = 0; k < count; ++k) {
      state[k] = sums[1][k] * Acc{widen(before[k])} + sums[0][k] * sums[2][k];
      squashed[k] = state[k];
    }
    tanh_all(squashed, count);
    for (int64_t k = 0; k < count; ++k) store(of_hy, k, sums[3][k] * squashed[k]);
    for (int64_t k = 0; k < count; ++k) store(of_cy, k, state[k]);
    for (int64_t g = 0; g < 4; ++g) {
      T* out = kept + g * size;
      for (int64_t k = 0; k < count; ++k) store(out, k, sums[g][k]);
    }
  });
}

template <bool kHasHy, bool kHasCy, class T>
void lstm_row_backward(const T* grad_hy, const T* grad_cy, const T* cx, const T* cy,
                       const T* workspace, int64_t size, T* grad_gates, T* grad_cx) {
  using Acc = AccOf<T>;
#pragma GCC ivdep
  for (int64_t k = 0; k < size; ++k) {
    const Acc in = widen(workspace[k]), forget = widen(workspace[size + k]);
    const Acc cell = widen(workspace[2 * size + k]);
    const Acc out = widen(workspace[3 * size + k]);
    const Acc squashed = ir::math::tanh<Acc>(Acc{widen(cy[k])});
    const Acc from_hy = kHasHy ? Acc{widen(grad_hy[k])} : Acc{0};
    const Acc from_cy = kHasCy ? Acc{widen(grad_cy[k])} : Acc{0};
    const Acc state = from_hy * out * (1 - squashed * squashed) + from_cy;
    store(grad_gates, k, state * cell * (1 - in) * in);
    store(grad_gates, size + k, state * Acc{widen(cx[k])} * (1 - forget) * forget);
    store(grad_gates, 2 * size + k, state * in * (1 - cell * cell));
    store(grad_gates, 3 * size + k, from_hy * squashed * (1 - out) * out);
    store(grad_cx, k, state * forget);
  }
}

// Order of the gates: reset, update, new.
template <class T>
void gru_row(const Gates<T>& gates, const T* hx, int64_t size, T* hy, T* workspace) {
  using Acc = AccOf<T>;
  each_piece(size, [&](int64_t begin, int64_t count) __attribute__((always_inline)) {
    alignas(64) Acc sums[2][kPiece], fresh[kPiece], hidden[kPiece], before[kPiece];
    gates.sum(begin, count, sums[0]);
    gates.sum(size + begin, count, sums[1]);
    gates.of_input(2 * size + begin).write(count, fresh);
    gates.of_hidden(2 * size + begin).write(count, hidden);
    const T* state = hx + begin;
    T *of_hy = hy + begin, *kept = workspace + begin;
    for (Acc* gate : sums) sigmoid_all(gate, count);
    for (int64_t k = 0; k < count; ++k) fresh[k] = fresh[k] + sums[0][k] * hidden[k];
    tanh_all(fresh, count);
    for (int64_t k = 0; k < count; ++k) before[k] = widen(state[k]);
    for (int64_t k = 0; k < count; ++k) {
      store(of_hy, k, fresh[k] + sums[1][k] * (before[k] - fresh[k]));
    }
    const Acc* parts[] = {sums[0], sums[1], fresh, before, hidden};
    for (int64_t p = 0; p < 5; ++p) {
      T* out = kept + p * size;
      for (int64_t k = 0; k < count; ++k) store(out, k, parts[p][k]);
    }
  });
}

template <class T>
void gru_row_backward(const T* grad, const T* workspace, int64_t size, T* grad_input,
                      T* grad_hidden, T* grad_hx) {
  using Acc = AccOf<T>;
#pragma GCC ivdep
  for (int64_t k = 0; k < size; ++k) {
    const Acc reset = widen(workspace[k]), update = widen(workspace[size + k]);
    const Acc fresh = widen(workspace[2 * size + k]);
    const Acc before = widen(workspace[3 * size + k]);
    const Acc hidden = widen(workspace[4 * size + k]);
    const Acc g = widen(grad[k]);
    const Acc of_update = g * (before - fresh) * (1 - update) * update;
    const Acc of_fresh = g * (1 - update) * (1 - fresh * fresh);
    const Acc of_reset = of_fresh * hidden * (1 - reset) * reset;
    store(grad_input, k, of_reset);
    store(grad_input, size + k, of_update);
    store(grad_input, 2 * size + k, of_fresh);
    store(grad_hidden, k, of_reset);
    store(grad_hidden, size + k, of_update);
    store(grad_hidden, 2 * size + k, of_fresh * reset);
    store(grad_hx, k, g * update);
  }
}

/// Calls body(row) for all rows, shared out.
template <class Body>
void each_row(const CellShape& shape, const Body& body) {
  parallel_for(shape.rows, grain_of(shape.size * 4 * kActivationWork),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) body(row);
               });
}

template <class T>
const T* row_of(const void* data, int64_t offset) {
  return data == nullptr ? nullptr : static_cast<const T*>(data) + offset;
}

template <class T>
T* row_of(void* data, int64_t offset) {
  return static_cast<T*>(data) + offset;
}

}  // namespace

void lstm_cell(ir::DType dtype, const CellShape& shape, const CellInputs& in,
               const void* cx, void* hy, void* cy, void* workspace) {
  const int64_t size = shape.size;
  with_float(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    each_row(shape, [&](int64_t row) {
      const int64_t at = row * size;
      lstm_row(gates_of<T>(in, 4 * at), row_of<T>(cx, at), size, row_of<T>(hy, at),
               row_of<T>(cy, at), row_of<T>(workspace, 4 * at));
    });
  });
}

void lstm_cell_backward(ir::DType dtype, const CellShape& shape, const void* grad_hy,
                        const void* grad_cy, const void* cx, const void* cy,
                        const void* workspace, void* grad_gates, void* grad_cx) {
  const int64_t size = shape.size;
  with_float(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    each_row(shape, [&](int64_t row) {
      const int64_t at = row * size;
      const auto backward = grad_hy == nullptr   ? &lstm_row_backward<false, true, T>
                            : grad_cy == nullptr ? &lstm_row_backward<true, false, T>
                                                 : &lstm_row_backward<true, true, T>;
      backward(row_of<T>(grad_hy, at), row_of<T>(grad_cy, at), row_of<T>(cx, at),
               row_of<T>(cy, at), row_of<T>(workspace, 4 * at), size,
               row_of<T>(grad_gates, 4 * at), row_of<T>(grad_cx, at));
    });
  });
}

void gru_cell(ir::DType dtype, const CellShape& shape, const CellInputs& in,
              const void* hx, void* hy, void* workspace) {
  const int64_t size = shape.size;
  with_float(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    each_row(shape, [&](int64_t row) {
      const int64_t at = row * size;
      gru_row(gates_of<T>(in, 3 * at), row_of<T>(hx, at), size, row_of<T>(hy, at),
              row_of<T>(workspace, 5 * at));
    });
  });
}

void gru_cell_backward(ir::DType dtype, const CellShape& shape, const void* grad,
                       const void* workspace, void* grad_input, void* grad_hidden,
                       void* grad_hx) {
  const int64_t size = shape.size;
  with_float(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    each_row(shape, [&](int64_t row) {
      const int64_t at = row * size;
      gru_row_backward(row_of<T>(grad, at), row_of<T>(workspace, 5 * at), size,
                       row_of<T>(grad_input, 3 * at), row_of<T>(grad_hidden, 3 * at),
                       row_of<T>(grad_hx, at));
    });
  });
}

}  // namespace neuron::fusion
