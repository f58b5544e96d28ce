#include "lazy/torch/autograd/graph.h"

#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <typeinfo>

namespace neuron::lazy {
namespace {

using torch::autograd::Edge;
using torch::autograd::InputMetadata;
using torch::autograd::Node;

struct Row {
  const char* name;
  const char* help;
};

constexpr Row kRows[] = {
#define NEURON_ORIGINAL_ENGINE(reason, name, help) {name, help},
#include "lazy/torch/autograd/original_engine.def"
#undef NEURON_ORIGINAL_ENGINE
};

// A graph with more vertices gives its memory back.
constexpr size_t kKeepVertices = 1 << 16;

// Whether somebody watches or changes every op of this thread.
std::optional<OriginalEngine> find_thread_objection() {
  if (torch::autograd::AnomalyMode::is_enabled()) return OriginalEngine::kAnomalyMode;
  if (at::hasCallbacks()) return OriginalEngine::kProfiler;
  const c10::DispatchKeySet included = c10::impl::tls_local_dispatch_key_set().included_;
  const c10::DispatchKeySet ordinary =
      c10::default_included_set | c10::autocast_dispatch_keyset;
  if (!(included - ordinary).empty() || c10::impl::dispatch_mode_enabled()) {
    return OriginalEngine::kMode;
  }
  return std::nullopt;
}

bool is_hooked(Node& node) {
  return !node.tensor_pre_hooks().empty() || !node.retains_grad_hooks().empty() ||
         !node.post_hooks().empty() || node.tensor_post_acc_grad_hooks() != nullptr;
}

}  // namespace

const char* original_engine_name(OriginalEngine reason) {
  return kRows[static_cast<size_t>(reason)].name;
}

const char* original_engine_help(OriginalEngine reason) {
  return kRows[static_cast<size_t>(reason)].help;
}

// The class is not exported, but its name is.
bool is_python_node(const Node& node) {
  return node.pyobj_slot()->load_pyobj() != nullptr &&
         std::strcmp(typeid(node).name(), "N5torch8autograd6PyNodeE") == 0;
}

std::optional<uint32_t> NodeNumbers::number_of(const Node* node) {
  if (cells_.empty()) return std::nullopt;
  const Cell* cell = find(node);
  if (cell->epoch != epoch_) return std::nullopt;
  return cell->number;
}

void NodeNumbers::clear() {
  used_ = 0;
  if (++epoch_ != 0 && cells_.size() <= 4 * kKeepVertices) return;
  cells_ = {};
  epoch_ = 1;
}

void NodeNumbers::grow() {
  std::vector<Cell> old(std::max<size_t>(64, 2 * cells_.size()));
  old.swap(cells_);
  shift_ = 64 - std::countr_zero(cells_.size());
  for (const Cell& cell : old) {
    if (cell.epoch == epoch_) *find(cell.node) = cell;
  }
}

uint32_t BackwardGraph::add_vertex(Node* node) {
  const auto [number, is_new] =
      numbers_.add(node, static_cast<uint32_t>(vertices.size()));
  if (is_new) {
    Vertex& vertex = vertices.emplace_back();
    vertex.node = node;
    vertex.sequence = node->sequence_nr();
  }
  return number;
}

std::optional<OriginalEngine> BackwardGraph::find_objection(Node& node) {
  for (uint32_t i = 0; i < node.num_inputs(); ++i) {
    const InputMetadata& input = node.input_metadata(i);
    if (input.was_default_constructed()) continue;
    if (input.device() != stream->device()) return OriginalEngine::kMixedDevices;
    if (input.stream() != *stream) return OriginalEngine::kOtherStream;
    if (input.is_tensor_subclass() || input.is_nested_tensor()) {
      return OriginalEngine::kSubclass;
    }
  }
  if (!node.pre_hooks().empty()) return OriginalEngine::kNodePreHook;
  const bool hooked = is_hooked(node);
  has_hooks |= hooked;
  if (is_partial_ && (hooked || is_python_node(node))) {
    return OriginalEngine::kPythonWithInputs;
  }
  return std::nullopt;
}

std::optional<OriginalEngine> BackwardGraph::build(const BackwardCall& call) {
  if (const auto objection = find_thread_objection()) return objection;
  for (const at::Tensor& grad : call.grads) {
    if (at::isTensorSubclassLike(grad)) return OriginalEngine::kSubclass;
  }
  is_partial_ = !call.inputs.empty();
  const Edge& first = call.roots.front();
  const InputMetadata& root = first.function->input_metadata(first.input_nr);
  if (root.was_default_constructed()) return OriginalEngine::kArguments;
  stream = c10::impl::VirtualGuardImpl(root.device().type()).getStream(root.device());

  // Nothing that was made before the first input can lead to it.
  uint64_t least_height = is_partial_ ? UINT64_MAX : 0;
  for (const Edge& input : call.inputs) {
    if (!input.is_valid()) continue;
    least_height = std::min(least_height, input.function->topological_nr());
  }
  for (const Edge& edge : call.roots) {
    const uint32_t number = add_vertex(edge.function.get());
    ++vertices[number].pending;
    root_targets.push_back(number);
  }
  for (size_t i = 0; i < vertices.size(); ++i) {
    Node& node = *vertices[i].node;
    if (const auto objection = find_objection(node)) return objection;
    vertices[i].first_edge = static_cast<uint32_t>(targets.size());
    const bool is_expanded = !is_partial_ || node.topological_nr() >= least_height;
    for (const Edge& edge : node.next_edges()) {
      uint32_t number = kNone;
      if (is_expanded && edge.is_valid()) {
        number = add_vertex(edge.function.get());
        ++vertices[number].pending;
      }
      targets.push_back(number);
    }
  }
  if (is_partial_) mark_needed(call);
  return std::nullopt;
}

// Needed is what leads to an input. A node's topological number is larger than those of
// all it leads to, so that one pass from the leaves up is enough.
void BackwardGraph::mark_needed(const BackwardCall& call) {
  for (Vertex& vertex : vertices) vertex.is_needed = false;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Edge& input = call.inputs[i];
    const auto number = numbers_.number_of(input.function.get());
    if (!number) continue;
    if (call.accumulate) {
      vertices[*number].is_needed = true;
    } else {
      captures.push_back({*number, input.input_nr, static_cast<uint32_t>(i)});
    }
  }
  std::stable_sort(captures.begin(), captures.end(),
                   [](const auto& a, const auto& b) { return a.vertex < b.vertex; });
  for (size_t i = captures.size(); i-- > 0;) {
    vertices[captures[i].vertex].first_capture = static_cast<uint32_t>(i);
  }
  std::vector<std::pair<uint64_t, uint32_t>> by_height;
  by_height.reserve(vertices.size());
  for (uint32_t i = 0; i < vertices.size(); ++i) {
    by_height.emplace_back(vertices[i].node->topological_nr(), i);
  }
  std::sort(by_height.begin(), by_height.end());
  for (const auto& [height, number] : by_height) {
    Vertex& vertex = vertices[number];
    const uint32_t count = vertex.node->num_outputs();
    for (uint32_t i = 0; i < count && !vertex.is_needed; ++i) {
      const uint32_t target = targets[vertex.first_edge + i];
      vertex.is_needed = target != kNone && vertices[target].should_execute();
    }
  }
}

void BackwardGraph::clear() {
  if (vertices.size() > kKeepVertices) {
    vertices = {};
    targets = {};
  }
  vertices.clear();
  targets.clear();
  root_targets.clear();
  captures.clear();
  stream.reset();
  has_hooks = false;
  numbers_.clear();
}

namespace {
std::vector<std::unique_ptr<BackwardGraph>>& idle_graphs() {
  thread_local std::vector<std::unique_ptr<BackwardGraph>> graphs;
  return graphs;
}
}  // namespace

GraphLease::GraphLease() {
  auto& idle = idle_graphs();
  if (idle.empty()) {
    graph_ = std::make_unique<BackwardGraph>();
  } else {
    graph_ = std::move(idle.back());
    idle.pop_back();
  }
}

GraphLease::~GraphLease() {
  graph_->clear();
  idle_graphs().push_back(std::move(graph_));
}

}  // namespace neuron::lazy
