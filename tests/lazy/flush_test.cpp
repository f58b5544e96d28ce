#include "lazy/flush.h"

#include <gtest/gtest.h>

#include "lazy/fake_core.h"

namespace neuron::lazy {
namespace {

// One window and everything that its road needs.
class FlushTest : public testing::Test {
 protected:
  void TearDown() override {
    for (device::Buffer* buffer : buffers_) memory_.release_storage(buffer);
    queue_.shut_down();
  }

  // A window with one buffer per entry of `nodes`' operands, numbered as in `nodes`.
  WindowProgramPtr window_of(const std::vector<std::vector<uint32_t>>& nodes,
                             std::vector<int>* order = nullptr) {
    WindowProgramPtr program = pool_.take();
    program->sequence = ++last_;
    ir::Graph& graph = program->graph;
    for (const auto& operands : nodes) {
      const int number = static_cast<int>(graph.nodes.size());
      ir::Node& node = graph.nodes.emplace_back();
      node.first_operand = static_cast<uint32_t>(graph.operands.size());
      node.num_operands = static_cast<uint32_t>(operands.size());
      graph.calls.push_back(std::make_unique<Action>([order, number] {
        if (order != nullptr) order->push_back(number);
        return Status();
      }));
      node.call = static_cast<uint32_t>(graph.calls.size());
      for (const uint32_t buffer : operands) {
        ir::Operand operand;
        operand.buffer = buffer;
        operand.flags = ir::Operand::kReads | ir::Operand::kContiguous;
        graph.operands.push_back(operand);
        graph.num_buffers = std::max(graph.num_buffers, buffer + 1);
      }
    }
    while (program->buffers.size() < graph.num_buffers) {
      device::Buffer* buffer = memory_.allocate(64);
      device::Memory::retain(buffer);
      program->buffers.push_back(buffer);
      buffers_.push_back(buffer);
    }
    return program;
  }

  void submit(WindowProgramPtr program) {
    queue_.submit(device::ProgramPtr(program.release()), state_);
  }

  Road road_{&find_action, {}};
  ProgramPool pool_{road_};
  device::Memory memory_{device::next_index(), 1 << 20};
  device::StreamState state_;
  device::Queue queue_;
  std::vector<device::Buffer*> buffers_;
  uint64_t last_ = 0;
};

TEST_F(FlushTest, NodesRunInRecordedOrder) {
  std::vector<int> order;
  submit(window_of({{0}, {0, 1}, {1}}, &order));
  queue_.wait(state_, 1);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST_F(FlushTest, EveryBufferIsReleasedOnce) {
  submit(window_of({{0, 1}, {1, 2, 1}, {0}, {3}}));
  queue_.wait(state_, 1);
  for (const device::Buffer* buffer : buffers_) EXPECT_EQ(buffer->refs, 1);
}

TEST_F(FlushTest, AKernelSeenBeforeIsACacheHit) {
  prepare_program(*window_of({{0, 1}, {2, 3}}), road_);
  EXPECT_EQ(road_.executables.misses(), 1u);
  EXPECT_EQ(road_.executables.hits(), 1u);
  prepare_program(*window_of({{0, 1}}), road_);
  EXPECT_EQ(road_.executables.misses(), 1u);
  EXPECT_EQ(road_.executables.hits(), 2u);
}

TEST_F(FlushTest, AKernelOfAnotherOpIsAMiss) {
  const WindowProgramPtr program = window_of({{0, 1}, {0, 1}});
  program->graph.nodes[1].op = ir::Op::kNeg;
  prepare_program(*program, road_);
  EXPECT_EQ(road_.executables.misses(), 2u);
  EXPECT_EQ(road_.executables.size(), 2u);
}

TEST_F(FlushTest, AStepNamesItsNodeItsAccessesAndWhatItReleases) {
  const WindowProgramPtr program = window_of({{0, 1}, {1, 2}});
  program->graph.operands[3].flags = ir::Operand::kWrites | ir::Operand::kContiguous;
  prepare_program(*program, road_);
  ASSERT_EQ(program->steps.size(), 2u);
  const device::Step& step = program->steps[1];
  EXPECT_EQ(step.node, 1u);
  ASSERT_EQ(step.num_accesses, 2u);
  EXPECT_TRUE(program->accesses[step.first_access].reads);
  EXPECT_TRUE(program->accesses[step.first_access + 1].writes);
  EXPECT_EQ(program->steps[0].num_releases, 1u);
  EXPECT_EQ(program->releases, (std::vector<uint32_t>{0, 1, 2}));
}

TEST_F(FlushTest, ANodeWithoutOperandsRuns) {
  std::vector<int> order;
  submit(window_of({{}, {0}}, &order));
  queue_.wait(state_, 1);
  EXPECT_EQ(order, (std::vector<int>{0, 1}));
}

}  // namespace
}  // namespace neuron::lazy
