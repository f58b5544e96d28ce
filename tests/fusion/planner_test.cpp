#include "fusion/planner.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "fusion/kernels/pointwise_run.h"
#include "ir/graph_maker.h"
#include "ir/print.h"

namespace neuron::fusion {
namespace {

using ir::add_node;
using ir::Code;
using ir::DType;
using ir::Op;
using ir::Operand;
using ir::OperandText;

constexpr uint8_t kWrites = Operand::kWrites;

// A pointwise node over tensors of 4 floats unless the operands say otherwise.
ir::Node& add_pointwise(ir::Graph& graph, Code code, std::vector<OperandText> operands) {
  operands.back().flags = kWrites;
  ir::Node& node = add_node(graph, Op::kAdd, operands);
  node.code = code;
  return node;
}

struct Planned {
  explicit Planned(const ir::Graph& graph, std::vector<uint8_t> visible = {}) {
    if (visible.empty()) visible.assign(graph.num_buffers, 1);
    planner.plan(graph, visible, plan);
  }
  const ir::PointwiseKernel& pointwise(size_t kernel) const {
    return plan.pointwise[plan.kernels[kernel].pointwise];
  }
  Planner planner;
  ir::Plan plan;
};

TEST(Planner, AChainIsOneKernel) {
  ir::Graph graph;
  add_pointwise(graph, Code::kAdd, {{0}, {1}, {2}});
  add_pointwise(graph, Code::kExp, {{2}, {3}});
  add_pointwise(graph, Code::kMul, {{3}, {0}, {4}});
  const Planned planned(graph, {1, 1, 0, 0, 1});
  ASSERT_EQ(planned.plan.kernels.size(), 1u);
  EXPECT_EQ(print_code(planned.pointwise(0).code),
            "  r0 = load f32 linear\n"
            "  r1 = load f32 linear\n"
            "  r2 = Add.f32 r0, r1\n"
            "  r2 = Exp.f32 r2\n"
            "  r2 = Mul.f32 r2, r0\n"
            "  store r2 f32 linear\n");
}

TEST(Planner, WhatSomebodySeesIsStored) {
  ir::Graph graph;
  add_pointwise(graph, Code::kExp, {{0}, {1}});
  add_pointwise(graph, Code::kNeg, {{1}, {2}});
  EXPECT_EQ(Planned(graph).pointwise(0).code.sinks.size(), 2u);
  EXPECT_EQ(Planned(graph, {1, 0, 1}).pointwise(0).code.sinks.size(), 1u);
}

TEST(Planner, WhatNobodySeesIsNotComputed) {
  ir::Graph graph;
  add_pointwise(graph, Code::kExp, {{0}, {1}});
  const Planned planned(graph, {1, 0});
  EXPECT_TRUE(planned.plan.kernels.empty());
  EXPECT_EQ(planned.plan.last_kernel[1], ir::Plan::kUntouched);
}

TEST(Planner, AHostOpGetsItsInputsStored) {
  ir::Graph graph;
  add_pointwise(graph, Code::kExp, {{0}, {1}});
  add_node(graph, Op::kHost, {{1}, {2, {4}, {}, kWrites}}, "aten::host");
  add_pointwise(graph, Code::kNeg, {{2}, {3}});
  const Planned planned(graph, {1, 0, 0, 1});
  ASSERT_EQ(planned.plan.kernels.size(), 3u);
  EXPECT_TRUE(planned.plan.kernels[0].is_pointwise());
  EXPECT_FALSE(planned.plan.kernels[1].is_pointwise());
  EXPECT_EQ(planned.plan.last_kernel, (std::vector<uint32_t>{0, 1, 2, 2}));
}

TEST(Planner, AnIndependentHostOpDoesNotEndAGroup) {
  ir::Graph graph;
  add_pointwise(graph, Code::kExp, {{0}, {1}});
  add_node(graph, Op::kHost, {{4}, {5, {4}, {}, kWrites}}, "aten::host");
  add_pointwise(graph, Code::kNeg, {{1}, {2}});
  const Planned planned(graph);
  ASSERT_EQ(planned.plan.kernels.size(), 2u);
  EXPECT_EQ(planned.plan.kernels[1].num_nodes, 2u);
}

TEST(Planner, AnEventStandsBehindWhatWasRecordedBeforeIt) {
  ir::Graph graph;
  add_pointwise(graph, Code::kExp, {{0}, {1}});
  add_node(graph, Op::kRecordEvent, {}, "record_event");
  add_pointwise(graph, Code::kNeg, {{1}, {2}});
  const Planned planned(graph);
  ASSERT_EQ(planned.plan.kernels.size(), 3u);
  EXPECT_TRUE(planned.plan.kernels[0].is_pointwise());
  EXPECT_FALSE(planned.plan.kernels[1].is_pointwise());
}

TEST(Planner, AHostOpThatOverwritesAnInputWaitsForTheGroup) {
  ir::Graph graph;
  add_pointwise(graph, Code::kExp, {{0}, {1}});
  add_node(graph, Op::kHost, {{0, {4}, {}, kWrites}}, "aten::zero");
  const Planned planned(graph);
  ASSERT_EQ(planned.plan.kernels.size(), 2u);
  EXPECT_TRUE(planned.plan.kernels[0].is_pointwise());
}

TEST(Planner, AnotherViewOfAWrittenBufferIsNotFused) {
  ir::Graph graph;
  add_pointwise(graph, Code::kExp, {{0, {2, 2}}, {1, {2, 2}}});
  add_pointwise(graph, Code::kNeg, {{1, {2, 2}, {1, 2}}, {2, {2, 2}}});
  EXPECT_EQ(Planned(graph).plan.kernels.size(), 2u);
}

TEST(Planner, TwoChainsThatMeetAreOneKernel) {
  constexpr int64_t kLarge = 1 << 16;
  ir::Graph graph;
  add_pointwise(graph, Code::kExp, {{0, {kLarge}}, {1, {kLarge}}});
  add_pointwise(graph, Code::kNeg, {{2, {kLarge}}, {3, {kLarge}}});
  add_pointwise(graph, Code::kAdd, {{1, {kLarge}}, {3, {kLarge}}, {4, {kLarge}}});
  EXPECT_EQ(Planned(graph).plan.kernels.size(), 1u);
}

TEST(Planner, TheSameComputationIsDoneOnce) {
  ir::Graph graph;
  add_pointwise(graph, Code::kExp, {{0}, {1}});
  add_pointwise(graph, Code::kExp, {{0}, {2}});
  EXPECT_EQ(Planned(graph).pointwise(0).code.instrs.size(), 1u);
}

// --- random programs: any plan gives the bits of one node after the other --------------

struct Machine {
  explicit Machine(uint32_t num_buffers) : buffers(num_buffers) {
    std::mt19937 random(7);
    for (auto& buffer : buffers) {
      buffer.resize(64);
      for (float& x : buffer) x = static_cast<float>(random() % 1000) / 250.0f - 2.0f;
    }
  }
  void run(const ir::PointwiseKernel& kernel) {
    std::vector<ir::TensorArg> tensors;
    for (const ir::TensorRef& ref : kernel.tensors) {
      auto* bytes = reinterpret_cast<std::byte*>(buffers[ref.buffer].data());
      tensors.push_back({bytes + ref.offset, ref.strides});
    }
    ir::PointwiseArgs args{kernel.numel,   kernel.rank,         kernel.sizes,
                           tensors.data(), kernel.reals.data(), kernel.integers.data()};
    run_pointwise(kernel.code, args);
  }
  std::vector<std::vector<float>> buffers;
};

class RandomGraph {
 public:
  static constexpr uint32_t kBuffers = 9;
  explicit RandomGraph(uint32_t seed) : random_(seed) {
    const int num_nodes = 1 + static_cast<int>(seed % 40);
    for (int i = 0; i < num_nodes; ++i) add_random_node();
    graph.num_buffers = kBuffers;
  }
  ir::Graph graph;

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  // 16 elements of a buffer: dense, a transposed view, the later half, or one element.
  OperandText view(bool is_output) {
    OperandText text;
    text.buffer = static_cast<uint32_t>(pick(kBuffers));
    const int kind = pick(is_output ? 3 : 5);
    text.sizes = {4, 4};
    if (kind == 1) text.offset = 64;
    if (kind == 2) text.strides = {1, 4};
    if (kind == 3) text.strides = {0, 1};
    if (kind == 4) text.sizes = {};
    return text;
  }

  // As the recorder has it: an input that is not the output itself lies apart from it.
  static bool is_allowed(const OperandText& in, const OperandText& out) {
    if (in.buffer != out.buffer) return true;
    const bool same =
        in.offset == out.offset && in.strides == out.strides && in.sizes == out.sizes;
    const bool apart = in.offset != out.offset && in.strides.empty() &&
                       out.strides.empty() && !in.sizes.empty();
    return same || apart;
  }

  void add_random_node() {
    constexpr Code kCodes[] = {Code::kAdd,    Code::kMul,     Code::kSub,  Code::kNeg,
                               Code::kSquare, Code::kMaximum, Code::kCopy, Code::kWhere};
    const Code code = kCodes[pick(7)];
    const OperandText out = view(true);
    std::vector<OperandText> operands;
    while (operands.size() < ir::code_info(code).arity) {
      const OperandText in = view(false);
      if (is_allowed(in, out)) operands.push_back(in);
    }
    operands.push_back(out);
    add_pointwise(graph, code, operands);
  }

  std::mt19937 random_;
};

std::string text_of(const ir::Graph& graph, const ir::Plan& plan) {
  std::string text = ir::print_graph(graph);
  for (const ir::Kernel& kernel : plan.kernels) {
    text += "kernel of";
    for (const uint32_t node : plan.nodes_of(kernel)) text += " " + std::to_string(node);
    text += "\n" + print_code(plan.pointwise[kernel.pointwise].code);
  }
  return text;
}

TEST(Planner, RandomProgramsGiveTheBitsOfOneNodeAfterTheOther) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    const ir::Graph graph = std::move(RandomGraph(seed).graph);
    Machine fused(graph.num_buffers);
    Machine single(graph.num_buffers);
    const Planned planned(graph);
    for (const ir::Kernel& kernel : planned.plan.kernels) {
      fused.run(planned.plan.pointwise[kernel.pointwise]);
    }
    for (const ir::Node& node : graph.nodes) {
      ir::Graph one;
      one.nodes = {node};
      one.operands = graph.operands;
      one.dims = graph.dims;
      one.num_buffers = graph.num_buffers;
      const Planned alone(one);
      single.run(alone.plan.pointwise[0]);
    }
    for (uint32_t b = 0; b < graph.num_buffers; ++b) {
      ASSERT_EQ(0, std::memcmp(fused.buffers[b].data(), single.buffers[b].data(),
                               sizeof(float) * 64))
          << "seed " << seed << ", buffer " << b << "\n"
          << text_of(graph, planned.plan);
    }
  }
}

}  // namespace
}  // namespace neuron::fusion
