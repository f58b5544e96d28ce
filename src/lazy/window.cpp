#include "lazy/window.h"

#include "ir/print.h"
#include "lazy/flush.h"

namespace neuron::lazy {
namespace {

struct EndInfo {
  const char* name;
  const char* help;
};

constexpr EndInfo kEnds[] = {
#define NEURON_WINDOW_END(end, name, help) {name, help},
#include "lazy/window_end.def"
#undef NEURON_WINDOW_END
};

}  // namespace

const char* window_end_name(WindowEnd end) { return kEnds[static_cast<int>(end)].name; }
const char* window_end_help(WindowEnd end) { return kEnds[static_cast<int>(end)].help; }

void WindowProgram::close() {
  is_visible.resize(buffers.size());
  for (size_t b = 0; b < buffers.size(); ++b) {
    is_visible[b] = buffers[b]->storage_alive.load(std::memory_order_acquire);
  }
}

void WindowProgram::prepare() { prepare_program(*this, road_); }

std::string WindowProgram::describe(const device::Step& step) const {
  const ir::Node& node = graph.nodes[step.node];
  return "while running " + ir::print_node(graph, node) + " on stream " +
         std::to_string(stream) + ", recorded at " + describe_site(node.site);
}

void WindowProgram::retire() { pool_.put(this); }

WindowProgramPtr ProgramPool::take() {
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      WindowProgram* program = free_.back();
      free_.pop_back();
      return WindowProgramPtr(program);
    }
  }
  return WindowProgramPtr(new WindowProgram(*this, road_));
}

void ProgramPool::put(WindowProgram* program) {
  program->graph.clear();
  program->buffers.clear();
  program->steps.clear();
  program->accesses.clear();
  program->releases.clear();
  program->is_visible.clear();
  program->is_timed = false;
  program->host_log.clear();
  program->after.clear();
  {
    std::lock_guard lock(mutex_);
    if (free_.size() < kKeep) {
      free_.push_back(program);
      return;
    }
  }
  delete program;
}

}  // namespace neuron::lazy
