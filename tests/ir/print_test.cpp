#include "ir/print.h"

#include <gtest/gtest.h>

#include "ir/graph_maker.h"

namespace neuron::ir {
namespace {

TEST(Print, ANodeShowsReadsThenWrites) {
  Graph graph;
  const Node& node =
      add_node(graph, Op::kAdd, {{0}, {1}, {2, {4}, {}, Operand::kWrites}});
  EXPECT_EQ(print_node(graph, node), "aten::add f32[4] b0, f32[4] b1 -> f32[4] b2");
}

TEST(Print, AnUpdatedOperandStandsWithTheWrites) {
  Graph graph;
  const uint8_t both = Operand::kReads | Operand::kWrites;
  const Node& node = add_node(graph, Op::kNeg, {{0, {}, {}, both}});
  EXPECT_EQ(print_node(graph, node), "aten::neg -> f32[] b0");
}

TEST(Print, StridesAndOffsetAreShown) {
  Graph graph;
  add_node(graph, Op::kNeg, {{0, {4, 8}, {1, 4}, Operand::kReads, DType::kBFloat16, 16}});
  EXPECT_EQ(print_operand(graph, graph.operands[0]), "bf16[4, 8]:[1, 4]+16");
}

TEST(Print, ConjugateAndNegativeAreShown) {
  Graph graph;
  add_node(graph, Op::kNeg,
           {{0, {2}, {}, Operand::kReads | Operand::kConjugate | Operand::kNegative}});
  EXPECT_EQ(print_operand(graph, graph.operands[0]), "f32[2] conj neg");
}

TEST(Print, ACallGivesItsOwnName) {
  Graph graph;
  const Node& node = add_node(graph, Op::kHost, {{0}}, "aten::sort");
  EXPECT_EQ(print_node(graph, node), "aten::sort f32[4] b0 -> ");
}

TEST(Print, AGraphIsALineANode) {
  Graph graph;
  add_node(graph, Op::kNeg, {{0}, {1, {4}, {}, Operand::kWrites}});
  add_node(graph, Op::kExp, {{1}, {2, {4}, {}, Operand::kWrites}});
  EXPECT_EQ(print_graph(graph),
            "aten::neg f32[4] b0 -> f32[4] b1\naten::exp f32[4] b1 -> f32[4] b2\n");
}

}  // namespace
}  // namespace neuron::ir
