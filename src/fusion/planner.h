// Planning: which nodes of a closed window run together.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "ir/graph.h"
#include "ir/plan.h"

namespace neuron::fusion {

/// Turns graphs into plans. Keeps its memory from one graph to the next; one thread.
class Planner {
 public:
  Planner();
  ~Planner();

  /// Writes the plan of `graph` into `plan`, which may hold an older one. Nodes may
  /// change places as long as every buffer sees its reads and writes in recorded order.
  /// `is_visible[b]` tells whether anybody can see buffer b after this graph; what nobody
  /// sees is not stored.
  void plan(const ir::Graph& graph, std::span<const uint8_t> is_visible, ir::Plan& plan);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace neuron::fusion
