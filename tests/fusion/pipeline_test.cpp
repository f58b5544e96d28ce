#include "fusion/pipeline.h"

#include <gtest/gtest.h>

#include "ir/graph_maker.h"

namespace neuron::fusion {
namespace {

using ir::add_node;
using ir::Op;

TEST(Pipeline, EachNodeIsAKernelOfItsOwnInRecordedOrder) {
  ir::Graph graph;
  add_node(graph, Op::kAdd, {{0}, {1}, {2}});
  add_node(graph, Op::kNeg, {{2}, {3}});
  add_node(graph, Op::kExp, {{3}, {4}});
  ir::Plan plan;
  make_plan(graph, plan);
  ASSERT_EQ(plan.kernels.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(plan.kernels[i].first_node, i);
    EXPECT_EQ(plan.kernels[i].num_nodes, 1u);
  }
}

TEST(Pipeline, TheLastKernelOfABufferIsTheLastThatTouchesIt) {
  ir::Graph graph;
  add_node(graph, Op::kAdd, {{0}, {1}, {2}});
  add_node(graph, Op::kNeg, {{2}, {3}});
  add_node(graph, Op::kAdd, {{0}, {3}, {4}});
  ir::Plan plan;
  make_plan(graph, plan);
  EXPECT_EQ(plan.last_kernel, (std::vector<uint32_t>{2, 0, 1, 2, 2}));
}

TEST(Pipeline, ANodeWithoutOperandsIsAKernelToo) {
  ir::Graph graph;
  add_node(graph, Op::kRecordEvent, {}, "record_event");
  ir::Plan plan;
  make_plan(graph, plan);
  EXPECT_EQ(plan.kernels.size(), 1u);
  EXPECT_TRUE(plan.last_kernel.empty());
}

TEST(Pipeline, NothingStaysOfThePlanBefore) {
  ir::Graph graph;
  add_node(graph, Op::kAdd, {{0}, {1}, {2}});
  ir::Plan plan;
  make_plan(graph, plan);
  graph.clear();
  make_plan(graph, plan);
  EXPECT_TRUE(plan.kernels.empty());
  EXPECT_TRUE(plan.last_kernel.empty());
}

}  // namespace
}  // namespace neuron::fusion
