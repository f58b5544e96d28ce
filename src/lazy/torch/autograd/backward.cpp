// A backward pass without the engine's price per node. Laws:
//  1. PyTorch's engine runs a graph of one node, and that node is our loop. So whatever a
//     thread can ask about a pass (its number, its inputs, whether it keeps the graph,
//     callbacks at its end, delayed warnings, thread-local state, depth of re-entrance)
//     is answered by the engine itself, at a price per pass and not per node.
//  2. The order is the engine's: a heap with its comparison and its pushes, so that even
//     nodes of equal sequence number (all AccumulateGrad) run in its order.
//  3. Gradients that meet are added as in the engine's input buffer, in place when nobody
//     else can see the first one. So the bits are the same.
//  4. Whatever the graph needs beyond that is found before anything runs (graph.h).
//  5. Python code may leave thread-local state behind it. The engine sets the state of
//     the pass for every node; the loop does so where Python is known to run.
#include "lazy/torch/autograd/backward.h"

#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <atomic>

#include "base/knobs.h"

namespace neuron::lazy {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::InputMetadata;
using torch::autograd::Node;
using torch::autograd::variable_list;

// Whether `validate_outputs` would leave `grad` as it is.
bool is_as_expected(const Edge& edge, const at::Tensor& grad) {
  if (!edge.is_valid() || !grad.defined()) return true;
  const InputMetadata& expected = edge.function->input_metadata(edge.input_nr);
  const c10::TensorImpl& impl = *grad.unsafeGetTensorImpl();
  if (expected.was_default_constructed() || expected.is_nested_tensor() ||
      expected.is_tensor_subclass() || impl.has_symbolic_sizes_strides() ||
      impl.is_python_dispatch()) {
    return false;
  }
  const c10::IntArrayRef sizes =
      c10::asIntArrayRefUnchecked(expected.shape_as_dim_vector());
  return impl.dtype() == expected.dtype() && impl.device() == expected.device() &&
         impl.layout() == c10::kStrided && expected.layout() == c10::kStrided &&
         expected.grad_dtype() == c10::typeMetaToScalarType(impl.dtype()) &&
         impl.sizes().equals(sizes);
}

void validate(Node& node, variable_list& outputs) {
  const edge_list& edges = node.next_edges();
  bool is_expected = outputs.size() == edges.size();
  for (size_t i = 0; is_expected && i < outputs.size(); ++i) {
    is_expected = is_as_expected(edges[i], outputs[i]);
  }
  if (is_expected) return;
  torch::autograd::validate_outputs(edges, outputs, [&node](const std::string& what) {
    return "Function " + node.name() + " returned an " + what;
  });
}

bool can_add_in_place(const at::Tensor& tensor) {
  return !at::isTensorSubclassLike(tensor) && !tensor._is_zerotensor() &&
         !tensor.is_nested() && tensor.is_non_overlapping_and_dense() &&
         tensor.use_count() == 1 && tensor.has_storage() &&
         tensor.storage().use_count() == 1;
}

void accumulate(at::Tensor& sum, at::Tensor&& grad) {
  if (at::GradMode::is_enabled()) {
    sum = at::add(sum, grad);
  } else if (can_add_in_place(sum) && !at::isTensorSubclassLike(grad)) {
    sum.add_(grad);
  } else {
    sum = at::add(sum, grad);
  }
}

class BackwardLoop {
 public:
  BackwardLoop(BackwardGraph& graph, const BackwardCall& call)
      : graph_(graph), call_(call) {}

  void run();
  variable_list captured;

 private:
  using Vertex = BackwardGraph::Vertex;
  struct Ready {
    uint64_t sequence;
    uint32_t number;
    bool operator<(const Ready& other) const { return sequence < other.sequence; }
  };

  void tell_engine();
  void evaluate(uint32_t number);
  void capture(const Vertex& vertex, uint32_t number, const variable_list& grads);
  variable_list call_plainly(Node& node, variable_list&& grads);
  variable_list call_with_hooks(Node& node, variable_list&& grads);
  void deliver(const uint32_t* targets, const edge_list& edges, variable_list& outputs);
  void add(Vertex& vertex, uint32_t position, at::Tensor&& grad);
  variable_list take_list(size_t size);
  void put_list(variable_list&& list);

  BackwardGraph& graph_;
  const BackwardCall& call_;
  std::vector<Ready> ready_;
  std::vector<variable_list> lists_;           // empty ones, for their memory
  std::optional<at::ThreadLocalState> state_;  // of the pass
};

void BackwardLoop::run() {
  const c10::StreamGuard stream(*graph_.stream);
  const at::AutoGradMode mode(call_.create_graph);
  tell_engine();
  captured.resize(call_.accumulate ? 0 : call_.inputs.size());
  variable_list grads = call_.grads;
  deliver(graph_.root_targets.data(), call_.roots, grads);
  while (!ready_.empty()) {
    if (ready_.size() > 1) std::pop_heap(ready_.begin(), ready_.end());
    const uint32_t number = ready_.back().number;
    ready_.pop_back();
    evaluate(number);
  }
}

// The engine counted a graph of one node (law 1), so two answers are ours to give: which
// of a node's gradients are needed, and, for hooks that ask, which nodes run. The tables
// belong to this pass alone and are not constant; the engine merely hands them out as
// such.
void BackwardLoop::tell_engine() {
  using ExecInfo =
      std::remove_cvref_t<decltype(*torch::autograd::get_current_graph_task_exec_info())>;
  using NodesInGraph = std::remove_cvref_t<
      decltype(*torch::autograd::get_current_graph_task_nodes_in_graph())>;
  if (!call_.inputs.empty()) {
    auto* info =
        const_cast<ExecInfo*>(torch::autograd::get_current_graph_task_exec_info());
    for (const Vertex& vertex : graph_.vertices) {
      if (vertex.should_execute()) (*info)[vertex.node].needed_ = true;
    }
  }
  if (graph_.has_hooks) {
    auto* nodes = const_cast<NodesInGraph*>(
        torch::autograd::get_current_graph_task_nodes_in_graph());
    // Of a single root the engine does not say that it will run.
    const size_t first = call_.roots.size() == 1 ? 1 : 0;
    for (size_t i = first; i < graph_.vertices.size(); ++i) {
      nodes->insert(graph_.vertices[i].node);
    }
  }
}

void BackwardLoop::evaluate(uint32_t number) {
  Vertex& vertex = graph_.vertices[number];
  Node& node = *vertex.node;
  variable_list grads = std::move(vertex.grads);
  if (vertex.first_capture != BackwardGraph::kNone) capture(vertex, number, grads);
  if (!vertex.is_needed) return put_list(std::move(grads));
  const bool is_plain = node.tensor_pre_hooks().empty() && node.pre_hooks().empty() &&
                        node.post_hooks().empty() && node.retains_grad_hooks().empty() &&
                        node.tensor_post_acc_grad_hooks() == nullptr &&
                        !is_python_node(node);
  variable_list outputs = is_plain ? call_plainly(node, std::move(grads))
                                   : call_with_hooks(node, std::move(grads));
  if (!call_.keep_graph) node.release_variables();
  deliver(graph_.targets.data() + vertex.first_edge, node.next_edges(), outputs);
  put_list(std::move(outputs));
}

void BackwardLoop::capture(const Vertex& vertex, uint32_t number,
                           const variable_list& grads) {
  for (size_t i = vertex.first_capture; i < graph_.captures.size(); ++i) {
    const BackwardGraph::Capture& wanted = graph_.captures[i];
    if (wanted.vertex != number) return;
    captured[wanted.output] = grads[wanted.input];
  }
}

variable_list BackwardLoop::call_plainly(Node& node, variable_list&& grads) {
  if (!call_.keep_graph) node.will_release_variables();
  variable_list outputs = node(std::move(grads));
  put_list(std::move(grads));
  // What unpacks a saved variable may be Python and may leave the mode changed.
  if (at::GradMode::is_enabled() != call_.create_graph) {
    at::GradMode::set_enabled(call_.create_graph);
  }
  validate(node, outputs);
  return outputs;
}

variable_list BackwardLoop::call_with_hooks(Node& node, variable_list&& given) {
  if (!state_) state_.emplace();
  const at::ThreadLocalStateGuard state(*state_);
  const c10::StreamGuard stream(*graph_.stream);
  variable_list grads = std::move(given);
  for (const auto& hook : node.tensor_pre_hooks()) grads = (*hook)(grads);
  for (const auto& [output, hook] : node.retains_grad_hooks()) grads = (*hook)(grads);
  for (const auto& hook : node.pre_hooks()) grads = (*hook)(grads);
  if (!call_.keep_graph) node.will_release_variables();
  if (node.post_hooks().empty()) {
    variable_list outputs = node(std::move(grads));
    validate(node, outputs);
    return outputs;
  }
  // AccumulateGrad knows that there is one more reference when there are post hooks.
  variable_list outputs = node(variable_list(grads));
  validate(node, outputs);
  for (const auto& hook : node.post_hooks()) outputs = (*hook)(outputs, grads);
  return outputs;
}

void BackwardLoop::deliver(const uint32_t* targets, const edge_list& edges,
                           variable_list& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (targets[i] == BackwardGraph::kNone) continue;
    Vertex& next = graph_.vertices[targets[i]];
    const bool is_ready = --next.pending == 0;
    if (!next.should_execute()) continue;
    add(next, edges[i].input_nr, std::move(outputs[i]));
    if (!is_ready) continue;
    ready_.push_back({next.sequence, targets[i]});
    std::push_heap(ready_.begin(), ready_.end());
  }
}

void BackwardLoop::add(Vertex& vertex, uint32_t position, at::Tensor&& grad) {
  if (vertex.grads.empty()) vertex.grads = take_list(vertex.node->num_inputs());
  if (!grad.defined()) return;
  TORCH_INTERNAL_ASSERT(position < vertex.grads.size());
  at::Tensor& held = vertex.grads[position];
  if (held.defined()) {
    accumulate(held, std::move(grad));
  } else {
    held = std::move(grad);
  }
}

variable_list BackwardLoop::take_list(size_t size) {
  variable_list list;
  if (!lists_.empty()) {
    list = std::move(lists_.back());
    lists_.pop_back();
  }
  list.resize(size);
  return list;
}

void BackwardLoop::put_list(variable_list&& list) {
  list.clear();
  // Few, so that the memory is still in the cache when it is taken.
  if (list.capacity() != 0 && lists_.size() < 4) lists_.push_back(std::move(list));
}

// Thrown when compiled autograd asks the loop to describe itself.
struct CompiledAutogradIsActive {};

// The one node that the engine runs (law 1).
class LoopNode final : public Node {
 public:
  explicit LoopNode(BackwardLoop& loop) : Node(/*sequence_nr=*/UINT64_MAX), loop_(&loop) {
    add_input_metadata(placeholder());
  }

  // The engine wants a gradient for its root.
  static const at::Tensor& placeholder() {
    static const at::Tensor* tensor = new at::Tensor(at::zeros({}, at::kFloat));
    return *tensor;
  }

  void end() { loop_ = nullptr; }  // a Python object may keep the node
  std::string name() const override { return "NeuronBackwardLoop"; }
  void compiled_args(torch::autograd::CompiledNodeArgs&) const override {
    throw CompiledAutogradIsActive{};
  }

 private:
  variable_list apply(variable_list&&) override {
    TORCH_CHECK(loop_ != nullptr,
                "[backward] the node of a backward pass was called after the pass; "
                "call backward() on a tensor");
    std::exchange(loop_, nullptr)->run();
    return {};
  }

  BackwardLoop* loop_;
};

struct Counters {
  std::atomic<uint64_t> graphs{0};
  std::atomic<uint64_t> nodes{0};
  std::array<std::atomic<uint64_t>, static_cast<size_t>(OriginalEngine::kCount)>
      original{};
};

Counters& counters() {
  static Counters counters;
  return counters;
}

std::atomic<bool>& lean_switch() {
  static std::atomic<bool> is_on{knobs().lean_autograd};
  return is_on;
}

// Returns false when compiled autograd has to take the pass; nothing has run then.
bool run_in_engine(BackwardLoop& loop, const BackwardCall& call) {
  const auto node = c10::make_intrusive<LoopNode>(loop);
  struct End {
    LoopNode& node;
    ~End() { node.end(); }
  } end{*node};
  try {
    // Gradients that are returned would need outputs; the loop sees to them, and to the
    // mode. What the engine says about `backward(create_graph=True)` it says itself.
    torch::autograd::Engine::get_default_engine().execute(
        {Edge(node, 0)}, {LoopNode::placeholder()}, call.keep_graph,
        /*create_graph=*/call.create_graph && call.accumulate, /*accumulate_grad=*/true);
  } catch (const CompiledAutogradIsActive&) {
    return false;
  }
  return true;
}

}  // namespace

std::optional<variable_list> run_lean_backward(BackwardCall& call) {
  if (!is_lean_autograd()) {
    count_original_engine(OriginalEngine::kSwitchedOff);
    return std::nullopt;
  }
  GraphLease graph;
  if (const auto objection = graph->build(call)) {
    count_original_engine(*objection);
    return std::nullopt;
  }
  torch::autograd::validate_outputs(call.roots, call.grads,
                                    [](const std::string& what) { return what; });
  BackwardLoop loop(*graph, call);
  if (!run_in_engine(loop, call)) {
    count_original_engine(OriginalEngine::kCompiledAutograd);
    return std::nullopt;
  }
  counters().graphs.fetch_add(1, std::memory_order_relaxed);
  counters().nodes.fetch_add(graph->vertices.size(), std::memory_order_relaxed);
  return std::move(loop.captured);
}

void count_original_engine(OriginalEngine reason) {
  counters().original[static_cast<size_t>(reason)].fetch_add(1,
                                                             std::memory_order_relaxed);
}

BackwardCounts backward_counts() {
  BackwardCounts counts;
  counts.graphs = counters().graphs.load();
  counts.nodes = counters().nodes.load();
  for (size_t i = 0; i < counts.original.size(); ++i) {
    counts.original[i] = counters().original[i].load();
  }
  return counts;
}

void reset_backward_counts() {
  counters().graphs = 0;
  counters().nodes = 0;
  for (auto& count : counters().original) count = 0;
}

bool is_lean_autograd() { return lean_switch().load(std::memory_order_relaxed); }
void set_lean_autograd(bool enabled) { lean_switch().store(enabled); }

}  // namespace neuron::lazy
