// Programs whose steps are functions given by a test.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/memory.h"
#include "device/program.h"

namespace neuron::device {

/// A program under construction. Steps are added in order; `close` ends it.
class ScriptedProgram final : public Program {
 public:
  using Body = std::function<Status()>;

  explicit ScriptedProgram(uint64_t number) { sequence = number; }

  void prepare() override { ++prepared; }
  int prepared = 0;

  std::string describe(const Step& step) const override {
    return "step " + std::to_string(step.node);
  }

  void add(Body body, const std::vector<Buffer*>& reads = {},
           const std::vector<Buffer*>& writes = {}) {
    bodies_.push_back(std::move(body));
    executables_.push_back({&run_body, &bodies_.back()});
    Step step;
    step.executable = &executables_.back();
    step.node = static_cast<uint32_t>(steps.size());
    step.first_access = static_cast<uint32_t>(accesses.size());
    for (Buffer* buffer : reads) {
      accesses.push_back({index_of(buffer), true, has(writes, buffer)});
    }
    for (Buffer* buffer : writes) {
      if (!has(reads, buffer)) accesses.push_back({index_of(buffer), false, true});
    }
    step.num_accesses = static_cast<uint32_t>(accesses.size()) - step.first_access;
    steps.push_back(step);
  }

  /// From now on the program lets go of `buffer` after the step added last.
  void release_here(Buffer* buffer) {
    Step& step = steps.back();
    const auto next = static_cast<uint32_t>(releases.size());
    if (step.num_releases == 0) step.first_release = next;
    releases.push_back(index_of(buffer));
    ++step.num_releases;
  }

  /// The last step lets go of every buffer that no earlier step has let go of.
  ProgramPtr close() {
    const std::vector<uint32_t> gone = releases;
    for (uint32_t i = 0; i < buffers.size(); ++i) {
      if (std::find(gone.begin(), gone.end(), i) == gone.end()) release_here(buffers[i]);
    }
    return ProgramPtr(this);
  }

 private:
  static bool has(const std::vector<Buffer*>& buffers, const Buffer* buffer) {
    return std::find(buffers.begin(), buffers.end(), buffer) != buffers.end();
  }

  static Status run_body(const Executable& executable, Program&, const Step&) {
    return (*static_cast<const Body*>(executable.context))();
  }

  uint32_t index_of(Buffer* buffer) {
    const auto found = std::find(buffers.begin(), buffers.end(), buffer);
    if (found == buffers.end()) {
      Memory::retain(buffer);
      buffers.push_back(buffer);
      return static_cast<uint32_t>(buffers.size()) - 1;
    }
    return static_cast<uint32_t>(found - buffers.begin());
  }

  std::deque<Body> bodies_;
  std::deque<Executable> executables_;
};

/// A program of one step.
inline ProgramPtr one_step(uint64_t number, ScriptedProgram::Body body,
                           const std::vector<Buffer*>& reads = {},
                           const std::vector<Buffer*>& writes = {}) {
  auto* program = new ScriptedProgram(number);
  program->add(std::move(body), reads, writes);
  return program->close();
}

}  // namespace neuron::device
