#include "fusion/explain_plan.h"

#include <gtest/gtest.h>

#include "base/bisect.h"
#include "fusion/planner.h"
#include "ir/graph_maker.h"
#include "ir/print.h"

namespace neuron::fusion {
namespace {

using ir::add_node;
using ir::Code;
using ir::Op;
using ir::Operand;
using ir::OperandText;

constexpr uint8_t kWrites = Operand::kWrites;

void add_pointwise(ir::Graph& graph, Op op, Code code,
                   std::vector<OperandText> operands) {
  operands.back().flags = kWrites;
  add_node(graph, op, operands).code = code;
}

std::vector<Apart> explain(const ir::Graph& graph) {
  Planner planner;
  ir::Plan plan;
  planner.plan(graph, std::vector<uint8_t>(graph.num_buffers, 1), plan);
  return explain_plan(graph, plan);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ExplainPlan, AFusedChainNeedsNoExplanation) {
  ir::Graph graph;
  add_pointwise(graph, Op::kExp, Code::kExp, {{0}, {1}});
  add_pointwise(graph, Op::kNeg, Code::kNeg, {{1}, {2}});
  EXPECT_TRUE(explain(graph).empty());
}

TEST(ExplainPlan, AnOpThatIsNotPointwiseIsNamed) {
  ir::Graph graph;
  add_pointwise(graph, Op::kExp, Code::kExp, {{0}, {1}});
  add_node(graph, Op::kSum, {{1}, {2, {}, {}, kWrites}});
  add_node(graph, Op::kHost, {{2, {}}, {3, {}, {}, kWrites}}, "aten::sort");
  const auto apart = explain(graph);
  ASSERT_EQ(apart.size(), 2u);
  EXPECT_EQ(apart[0].producer, 0u);
  EXPECT_EQ(apart[0].consumer, 1u);
  EXPECT_TRUE(has(apart[0].reason, "aten::sum is not pointwise")) << apart[0].reason;
  EXPECT_TRUE(has(apart[1].reason, "aten::sum is not pointwise")) << apart[1].reason;
}

TEST(ExplainPlan, OtherSizesAreShown) {
  ir::Graph graph;
  add_pointwise(graph, Op::kExp, Code::kExp, {{0, {4}}, {1, {4}}});
  add_pointwise(graph, Op::kNeg, Code::kNeg, {{1, {2, 4}, {0, 1}}, {2, {2, 4}}});
  const auto apart = explain(graph);
  ASSERT_EQ(apart.size(), 1u);
  EXPECT_EQ(apart[0].reason, "they have other sizes: 4 elements and strided [2, 4]");
}

TEST(ExplainPlan, OverlapIsToldFromSize) {
  ir::Graph graph;
  add_pointwise(graph, Op::kExp, Code::kExp, {{0}, {1, {4}}});
  add_pointwise(graph, Op::kNeg, Code::kNeg,
                {{1, {4}, {}, Operand::kReads, ir::DType::kFloat32, 4}, {2}});
  const auto apart = explain(graph);
  ASSERT_EQ(apart.size(), 1u);
  EXPECT_TRUE(has(apart[0].reason, "overlap")) << apart[0].reason;
}

TEST(ExplainPlan, TheOpInBetweenIsNamed) {
  ir::Graph graph;
  add_pointwise(graph, Op::kExp, Code::kExp, {{0}, {1}});
  add_node(graph, Op::kSum, {{1}, {2, {}, {}, kWrites}});
  add_pointwise(graph, Op::kNeg, Code::kNeg, {{1}, {3}});
  const auto apart = explain(graph);
  ASSERT_EQ(apart.size(), 2u);
  EXPECT_EQ(apart[1].consumer, 2u);
  EXPECT_TRUE(has(apart[1].reason, "another op stood between")) << apart[1].reason;
  EXPECT_TRUE(has(apart[1].reason, "aten::sum")) << apart[1].reason;
}

TEST(ExplainPlan, TheLimitOfOpsIsNamedAndHolds) {
  ir::Graph graph;
  add_pointwise(graph, Op::kExp, Code::kExp, {{0}, {1}});
  add_pointwise(graph, Op::kNeg, Code::kNeg, {{1}, {2}});
  add_pointwise(graph, Op::kNeg, Code::kNeg, {{2}, {3}});
  bisect_switches().max_fused_ops = 2;
  const auto apart = explain(graph);
  bisect_switches().max_fused_ops = 0;
  ASSERT_EQ(apart.size(), 1u);
  EXPECT_EQ(apart[0].producer, 1u);
  EXPECT_TRUE(has(apart[0].reason, "NEURON_MAX_FUSED_OPS")) << apart[0].reason;
}

TEST(ExplainPlan, AFullKernelIsSaidToBeFull) {
  ir::Graph graph;
  const uint32_t count = 200;
  for (uint32_t i = 0; i < count; ++i) {
    add_pointwise(graph, Op::kExp, Code::kExp, {{i}, {i + 1}});
  }
  const auto apart = explain(graph);
  ASSERT_FALSE(apart.empty());
  EXPECT_TRUE(has(apart[0].reason, "the kernel is full")) << apart[0].reason;
}

TEST(ExplainPlan, ThePlanIsPrintedWithWhatIsLeftOut) {
  ir::Graph graph;
  add_pointwise(graph, Op::kExp, Code::kExp, {{0}, {1}});
  add_pointwise(graph, Op::kNeg, Code::kNeg, {{1}, {2}});
  add_node(graph, Op::kSum, {{2}, {3, {}, {}, kWrites}});
  add_pointwise(graph, Op::kExp, Code::kExp, {{0}, {4}});
  Planner planner;
  ir::Plan plan;
  planner.plan(graph, std::vector<uint8_t>{1, 0, 0, 1, 0}, plan);
  EXPECT_EQ(ir::print_plan(graph, plan),
            "kernel 0: aten::exp, aten::neg, fused, 4 elements\n"
            "  node 0: aten::exp f32[4] b0 -> f32[4] b1\n"
            "  node 1: aten::neg f32[4] b1 -> f32[4] b2\n"
            "  r0 = load f32 linear\n"
            "  r1 = Exp.f32 r0\n"
            "  r1 = Neg.f32 r1\n"
            "  store r1 f32 linear\n"
            "kernel 1: aten::sum\n"
            "  node 2: aten::sum f32[4] b2 -> f32[] b3\n"
            "left out: node 3: aten::exp, nobody sees its result\n");
}

}  // namespace
}  // namespace neuron::fusion
