// A recurrent layer over a whole sequence, in one direction.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace neuron::lazy {

enum class RecurrentKind : uint8_t { kLstm, kGru };

/// How many gates a cell has.
constexpr int64_t gates_of(RecurrentKind kind) {
  return kind == RecurrentKind::kLstm ? 4 : 3;
}

/// The inputs of a layer in one direction, in the order of the node's edges: sequence
/// [length, batch, features], initial states [batch, size] (no cell state for a GRU),
/// weights, and biases or undefined tensors.
enum LayerInput {
  kSequence,
  kHx,
  kCx,
  kInputWeight,
  kHiddenWeight,
  kInputBias,
  kHiddenBias
};
inline constexpr int kNumLayerInputs = 7;
using LayerInputs = std::array<at::Tensor, kNumLayerInputs>;

/// What a layer gives: `sequence` is [length, batch, size], the others [batch, size].
struct LayerOutputs {
  at::Tensor sequence;
  at::Tensor hn;
  at::Tensor cn;  // undefined for a GRU
};

/// Records the layer; where a gradient is wanted the results have one node,
/// LstmLayerBackward or GruLayerBackward. Sizes and types must fit.
LayerOutputs apply_layer(RecurrentKind kind, bool is_reverse, LayerInputs inputs);

}  // namespace neuron::lazy
