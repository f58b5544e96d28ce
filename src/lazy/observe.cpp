#include "lazy/observe.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "cache/difference.h"
#include "fusion/explain_plan.h"
#include "ir/print.h"
#include "lazy/capture.h"

namespace neuron::lazy {
namespace {

using Values = std::vector<std::pair<const char*, JournalEntry::Value>>;

thread_local int64_t num_blocks = 0;

template <class Number>
JournalEntry::Value number(Number value) {
  return static_cast<int64_t>(value);
}

void write(Topic topic, const char* event, Values values) {
  JournalEntry entry;
  entry.topic = topic;
  entry.event = event;
  entry.values = std::move(values);
  write_journal(std::move(entry));
}

Values place_of(const WindowProgram& program) {
  return {{"device", number(device_of(program))},
          {"stream", number(program.stream)},
          {"window", number(program.sequence)}};
}

void observe_fusion(const WindowProgram& program) {
  const ir::Graph& graph = program.graph;
  const ir::Plan& plan = program.plan;
  const std::vector<bool> is_computed = ir::computed_nodes(graph, plan);
  const auto left_out = std::count(is_computed.begin(), is_computed.end(), false);
  Values values = place_of(program);
  values.emplace_back("ops", number(graph.nodes.size()));
  values.emplace_back("kernels", number(plan.kernels.size()));
  values.emplace_back("left_out", number(left_out));
  write(Topic::kFusion, "plan", std::move(values));
  for (const ir::Kernel& kernel : plan.kernels) {
    if (kernel.num_nodes < 2) continue;
    const ir::PointwiseKernel& code = plan.pointwise[kernel.pointwise];
    values = place_of(program);
    values.emplace_back("ops", ir::print_ops(graph, plan, kernel));
    values.emplace_back("num_ops", number(kernel.num_nodes));
    values.emplace_back("elements", number(code.numel));
    values.emplace_back("instructions", number(code.code.instrs.size()));
    values.emplace_back("outputs", number(code.code.sinks.size()));
    values.emplace_back("line", graph.nodes[plan.nodes_of(kernel)[0]].site);
    write(Topic::kFusion, "group", std::move(values));
  }
  for (const fusion::Apart& apart : fusion::explain_plan(graph, plan)) {
    const ir::Node& producer = graph.nodes[apart.producer];
    const ir::Node& consumer = graph.nodes[apart.consumer];
    values = place_of(program);
    values.emplace_back("producer", ir::op_name(graph, producer));
    values.emplace_back("producer_line", producer.site);
    values.emplace_back("consumer", ir::op_name(graph, consumer));
    values.emplace_back("line", consumer.site);
    values.emplace_back("reason", apart.reason);
    write(Topic::kFusion, "apart", std::move(values));
  }
}

template <class Cache>
void observe_miss(const Cache& cache, const char* name, const cache::Key& key,
                  std::string (*difference)(const cache::Key&, const cache::Key&)) {
  const bool is_hit = cache.has(key);
  Values values = {{"cache", std::string(name)}};
  if (!is_hit) {
    const cache::Key* nearest = cache::nearest_key(cache, key);
    values.emplace_back("difference", nearest == nullptr ? "the cache is empty"
                                                         : difference(key, *nearest));
  }
  write(Topic::kCache, is_hit ? "hit" : "miss", std::move(values));
}

// The first line of a key on disk, and the kernel behind it.
std::pair<std::string, cache::Key> split_key(const std::string& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  cache::Key key;
  if (end < text.size()) {
    key.bytes.resize(text.size() - end - 1);
    std::memcpy(key.bytes.data(), text.data() + end + 1, key.bytes.size());
  }
  return {text.substr(0, end), std::move(key)};
}

std::string disk_difference(const cache::DiskCache& disk, const std::string& text) {
  constexpr size_t kMostFiles = 512;
  const auto [target, key] = split_key(text);
  std::string nearest_target;
  cache::Key nearest;
  size_t least = SIZE_MAX;
  for (const std::string& other_text : disk.keys(kMostFiles)) {
    auto [other_target, other] = split_key(other_text);
    const size_t now = 2 * cache::distance(key, other) + (other_target == target ? 0 : 1);
    if (now >= least) continue;
    least = now;
    nearest_target = std::move(other_target);
    nearest = std::move(other);
  }
  if (least == SIZE_MAX) return "the cache is empty";
  if (key.bytes != nearest.bytes) return cache::code_difference(key, nearest);
  return "compiler or processor: " + target + ", nearest has " + nearest_target;
}

void write_call(const std::string& op, bool is_fallback, bool is_at_once, Values values,
                std::chrono::nanoseconds time) {
  values.emplace_back("op", op);
  values.emplace_back("fallback", number(is_fallback));
  values.emplace_back("at_once", number(is_at_once));
  values.emplace_back("us", static_cast<double>(time.count()) / 1000.0);
  values.emplace_back("blocks", number(std::exchange(num_blocks, 0)));
  write(Topic::kFallback, "call", std::move(values));
}

}  // namespace

int device_of(const WindowProgram& program) {
  return program.buffers.empty() ? 0 : program.buffers[0]->device_index;
}

void observe_window_end(const WindowProgram& program, WindowEnd end, const Site& site) {
  Values values = place_of(program);
  values.emplace_back("reason", std::string(window_end_name(end)));
  values.emplace_back("line", site);
  values.emplace_back("ops", number(program.graph.nodes.size()));
  values.emplace_back("first_line", program.graph.nodes.front().site);
  write(Topic::kWindows, "window", std::move(values));
}

void observe_plan(const WindowProgram& program) {
  if (journal_wants(Topic::kFusion)) observe_fusion(program);
  if (!journal_wants(Topic::kCapture)) return;
  JournalEntry entry;
  entry.topic = Topic::kCapture;
  entry.event = "captured";
  entry.window = capture_window(program);
  write_journal(std::move(entry));
}

void observe_lookup(const cache::KernelCache& kernels, const cache::Key& key) {
  observe_miss(kernels, "kernels", key, &cache::code_difference);
}

void observe_lookup(const cache::ExecutableCache& executables, const cache::Key& key) {
  observe_miss(executables, "executables", key, &cache::node_difference);
}

void observe_disk_lookup(const cache::DiskCache& disk, const std::string& key,
                         bool is_hit) {
  Values values = {{"cache", std::string("disk")}};
  if (!is_hit) values.emplace_back("difference", disk_difference(disk, key));
  write(Topic::kCache, is_hit ? "hit" : "miss", std::move(values));
}

void observe_compile(const CompileEvent& event) {
  Values values = {{"instructions", number(event.num_instrs)},
                   {"ms", event.milliseconds},
                   {"tier", "compiled, level " + std::to_string(event.level)},
                   {"from", std::string(event.is_from_disk ? "disk" : "compiler")},
                   {"bytes", number(event.num_bytes)}};
  if (!event.failure.empty()) values.emplace_back("failure", event.failure);
  write(Topic::kCompile, event.failure.empty() ? "compiled" : "failed",
        std::move(values));
}

void observe_call(const WindowProgram& program, const ir::Node& node,
                  std::chrono::nanoseconds time) {
  Values values = place_of(program);
  values.emplace_back("line", node.site);
  write_call(ir::op_name(program.graph, node), ir::is_host_op(node.op), false,
             std::move(values), time);
}

void note_blocks(int64_t count) { num_blocks += count; }

void observe_call_at_once(const std::string& op, bool is_fallback, const Site& site,
                          std::chrono::nanoseconds time) {
  write_call(op, is_fallback, true, {{"line", site}}, time);
}

}  // namespace neuron::lazy
