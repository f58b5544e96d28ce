// BackwardGraph: the nodes that one backward pass runs over, counted and judged.
#pragma once

#include <c10/core/Stream.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/node.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace neuron::lazy {

/// Why PyTorch's engine has to run a backward pass; the rows of original_engine.def.
enum class OriginalEngine : uint8_t {
#define NEURON_ORIGINAL_ENGINE(reason, name, help) reason,
#include "lazy/torch/autograd/original_engine.def"
#undef NEURON_ORIGINAL_ENGINE
  kCount
};

const char* original_engine_name(OriginalEngine reason);
const char* original_engine_help(OriginalEngine reason);

/// What the caller of an engine asks for.
struct BackwardCall {
  torch::autograd::edge_list roots;
  torch::autograd::variable_list grads;  // one a root
  torch::autograd::edge_list inputs;     // empty: every leaf; null edge: unreachable
  bool keep_graph = false;
  bool create_graph = false;
  bool accumulate = true;  // into `.grad`; false: the gradients of `inputs` are returned
};

/// From a node to its number; forgets all nodes in constant time.
class NodeNumbers {
 public:
  /// The number of `node`; `next` and true when it has not been seen before.
  std::pair<uint32_t, bool> add(const torch::autograd::Node* node, uint32_t next) {
    if (2 * (used_ + 1) > cells_.size()) grow();
    Cell* cell = find(node);
    if (cell->epoch == epoch_) return {cell->number, false};
    *cell = {node, epoch_, next};
    ++used_;
    return {next, true};
  }

  /// The number of `node`, if it was added.
  std::optional<uint32_t> number_of(const torch::autograd::Node* node);
  void clear();

 private:
  struct Cell {
    const torch::autograd::Node* node = nullptr;
    uint32_t epoch = 0;  // the cell is empty unless this is the table's epoch
    uint32_t number = 0;
  };
  Cell* find(const torch::autograd::Node* node) {
    const size_t mask = cells_.size() - 1;
    size_t at = (reinterpret_cast<uintptr_t>(node) * 0x9E3779B97F4A7C15ull) >> shift_;
    while (cells_[at].epoch == epoch_ && cells_[at].node != node) at = (at + 1) & mask;
    return &cells_[at];
  }
  void grow();

  std::vector<Cell> cells_;
  uint32_t epoch_ = 1;
  uint32_t used_ = 0;
  int shift_ = 64;
};

/// Built once a pass, by one thread. Nodes are borrowed: the roots keep them alive.
class BackwardGraph {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Vertex {
    torch::autograd::Node* node = nullptr;
    uint64_t sequence = 0;
    torch::autograd::variable_list grads;  // what has arrived so far
    uint32_t first_edge = 0;               // into `targets`
    uint32_t pending = 0;                  // edges that have not delivered
    uint32_t first_capture = kNone;        // into `captures`
    bool is_needed = true;
    bool should_execute() const { return is_needed || first_capture != kNone; }
  };

  /// A gradient to return: what arrives at an input of a vertex.
  struct Capture {
    uint32_t vertex;
    uint32_t input;
    uint32_t output;
  };

  /// Counts the graph of `call`. Returns the first thing that PyTorch's engine must see
  /// to, if there is one; the graph is then of no use. Changes nothing in the graph.
  std::optional<OriginalEngine> build(const BackwardCall& call);

  /// Forgets everything; a huge graph's memory goes back.
  void clear();

  std::vector<Vertex> vertices;
  std::vector<uint32_t> targets;       // the vertex at the end of each edge, or kNone
  std::vector<uint32_t> root_targets;  // the same for the roots
  std::vector<Capture> captures;       // by vertex
  std::optional<c10::Stream> stream;   // of all vertices
  bool has_hooks = false;

 private:
  uint32_t add_vertex(torch::autograd::Node* node);
  std::optional<OriginalEngine> find_objection(torch::autograd::Node& node);
  void mark_needed(const BackwardCall& call);

  NodeNumbers numbers_;
  bool is_partial_ = false;
};

/// True if Python code runs when `node` is called.
bool is_python_node(const torch::autograd::Node& node);

/// Graphs that are used again by the calling thread; re-entrant passes take several.
class GraphLease {
 public:
  GraphLease();
  ~GraphLease();
  GraphLease(const GraphLease&) = delete;
  GraphLease& operator=(const GraphLease&) = delete;
  BackwardGraph& operator*() { return *graph_; }
  BackwardGraph* operator->() { return graph_.get(); }

 private:
  std::unique_ptr<BackwardGraph> graph_;
};

}  // namespace neuron::lazy
