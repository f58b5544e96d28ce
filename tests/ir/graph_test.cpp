#include "ir/graph.h"

#include <gtest/gtest.h>

#include "ir/graph_maker.h"

namespace neuron::ir {
namespace {

TEST(Graph, ANodeHasItsOwnOperands) {
  Graph graph;
  add_node(graph, Op::kAdd, {{0}, {1}, {2}});
  const Node& node = add_node(graph, Op::kNeg, {{2}, {3}});
  const auto operands = graph.operands_of(node);
  ASSERT_EQ(operands.size(), 2u);
  EXPECT_EQ(operands[0].buffer, 2u);
  EXPECT_EQ(operands[1].buffer, 3u);
}

TEST(Graph, AContiguousOperandHasSizesAndNoStrides) {
  Graph graph;
  add_node(graph, Op::kNeg, {{0, {2, 3}}});
  const Operand& operand = graph.operands[0];
  EXPECT_EQ(graph.sizes_of(operand)[1], 3);
  EXPECT_TRUE(graph.strides_of(operand).empty());
}

TEST(Graph, StridesFollowTheSizes) {
  Graph graph;
  add_node(graph, Op::kNeg, {{0, {2, 3}}, {1, {2, 3}, {1, 2}}});
  const Operand& operand = graph.operands[1];
  ASSERT_EQ(graph.sizes_of(operand).size(), 2u);
  ASSERT_EQ(graph.strides_of(operand).size(), 2u);
  EXPECT_EQ(graph.sizes_of(operand)[0], 2);
  EXPECT_EQ(graph.strides_of(operand)[1], 2);
}

TEST(Graph, ANodeWithoutACallHasNone) {
  Graph graph;
  add_node(graph, Op::kNeg, {{0}});
  add_node(graph, Op::kHost, {{0}}, "aten::sort");
  EXPECT_EQ(graph.call_of(graph.nodes[0]), nullptr);
  EXPECT_STREQ(graph.call_of(graph.nodes[1])->name(), "aten::sort");
}

TEST(Graph, ClearingEmptiesItAndKeepsItsMemory) {
  Graph graph;
  add_node(graph, Op::kHost, {{0}}, "aten::sort");
  const size_t capacity = graph.nodes.capacity();
  graph.clear();
  EXPECT_TRUE(graph.nodes.empty() && graph.operands.empty() && graph.dims.empty());
  EXPECT_TRUE(graph.calls.empty());
  EXPECT_EQ(graph.num_buffers, 0u);
  EXPECT_EQ(graph.nodes.capacity(), capacity);
}

}  // namespace
}  // namespace neuron::ir
