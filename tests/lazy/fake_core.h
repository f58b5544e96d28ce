// A core whose ops are functions given by the test, for tests of the recorder.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "base/knobs.h"
#include "device/next_index.h"
#include "lazy/core.h"

namespace neuron::lazy {

/// A call that does what the test says.
class Action final : public ir::Call {
 public:
  using Body = std::function<Status()>;
  explicit Action(Body body) : body_(std::move(body)) {}
  const char* name() const override { return "test::action"; }
  Status run() { return body_(); }

 private:
  Body body_;
};

/// FindExecutable for actions.
inline const device::Executable* find_action(const ir::Graph&, const ir::Node&) {
  static const device::Executable executable{
      [](const device::Executable&, device::Program& program, const device::Step& step) {
        ir::Graph& graph = static_cast<WindowProgram&>(program).graph;
        const ir::Node& node = graph.nodes[step.node];
        return static_cast<Action&>(*graph.calls[node.call - 1]).run();
      },
      nullptr};
  return &executable;
}

inline Status do_nothing() { return {}; }
inline Status fail() { return {ErrorKind::kRuntime, "broken"}; }

/// Adaptive eager on one core of 1 MiB.
class CoreTest : public testing::Test {
 protected:
  static constexpr uint64_t kCapacity = 1 << 20;
  static constexpr uint32_t kFirstLimit = 16;  // ops in a window after a read

  void SetUp() override { modes().adaptive = true; }
  void TearDown() override {
    core_.queue().drain();
    core_.shut_down();
    modes().adaptive = false;
  }

  device::Buffer* new_buffer(uint64_t nbytes = 64) {
    device::Buffer* buffer = nullptr;
    EXPECT_TRUE(core_.allocate(nbytes, buffer).is_ok());
    return buffer;
  }
  void drop(device::Buffer* buffer) { core_.memory().release_storage(buffer); }

  void record(uint32_t stream, Action::Body body,
              const std::vector<device::Buffer*>& reads = {},
              const std::vector<device::Buffer*>& writes = {}) {
    constexpr int64_t kSize = 4;
    std::vector<OperandSpec> operands;
    const auto add = [&](device::Buffer* buffer, uint8_t flags) {
      OperandSpec spec;
      spec.buffer = buffer;
      spec.sizes = &kSize;
      spec.rank = 1;
      spec.flags = flags;
      operands.push_back(spec);
    };
    for (device::Buffer* buffer : reads) add(buffer, ir::Operand::kReads);
    for (device::Buffer* buffer : writes) add(buffer, ir::Operand::kWrites);
    OpSpec op;
    op.operands = operands;
    op.call = std::make_unique<Action>(std::move(body));
    core_.record(stream, std::move(op));
  }
  void record_many(uint32_t stream, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) record(stream, &do_nothing);
  }

  uint64_t windows() { return core_.stats().windows(); }
  uint64_t ends(WindowEnd end) { return core_.stats().ends(end); }
  int64_t active_bytes() { return core_.memory().active_bytes(); }

  Core core_{device::next_index(), kCapacity, &find_action};
};

}  // namespace neuron::lazy
