#include "cache/difference.h"

#include <gtest/gtest.h>

#include <random>

#include "cache/kernel_cache.h"
#include "ir/graph_maker.h"

namespace neuron::cache {
namespace {

using ir::Code;
using ir::DType;
using ir::Layout;

// r2 = r0 + r1; r2 = -r2; store.
ir::PointwiseCode code_of_two() {
  ir::PointwiseCode code;
  code.sources.resize(2);
  code.instrs.resize(2);
  code.instrs[0].code = Code::kAdd;
  code.instrs[0].in[1] = 1;
  code.instrs[0].out = 2;
  code.instrs[1].code = Code::kNeg;
  code.instrs[1].in[0] = 2;
  code.instrs[1].out = 2;
  code.sinks.push_back({2, DType::kFloat32, Layout::kLinear});
  code.num_registers = 3;
  return code;
}

Key key_of(const ir::PointwiseCode& code) {
  Key key;
  make_key(code, key);
  return key;
}

std::string difference_to_two(const ir::PointwiseCode& code) {
  return code_difference(key_of(code), key_of(code_of_two()));
}

TEST(Difference, NamesTheFieldOfASource) {
  ir::PointwiseCode code = code_of_two();
  code.sources[1].dtype = DType::kBFloat16;
  EXPECT_EQ(difference_to_two(code), "source 1 dtype: bf16, nearest has f32");
  code = code_of_two();
  code.sources[0].layout = Layout::kStrided;
  EXPECT_EQ(difference_to_two(code), "source 0 layout: strided, nearest has linear");
  code = code_of_two();
  code.sources[0].is_number = true;
  EXPECT_EQ(difference_to_two(code), "source 0: number, nearest has tensor");
}

TEST(Difference, ShowsTheInstruction) {
  ir::PointwiseCode code = code_of_two();
  code.instrs[0].code = Code::kMul;
  EXPECT_EQ(difference_to_two(code),
            "instruction 0: Mul.f32 r0 r1 to r2, nearest has Add.f32 r0 r1 to r2");
}

TEST(Difference, NamesSinksAndNumbersOfThings) {
  ir::PointwiseCode code = code_of_two();
  code.sinks[0].dtype = DType::kFloat64;
  EXPECT_EQ(difference_to_two(code), "output 0 dtype: f64, nearest has f32");
  code = code_of_two();
  code.instrs.pop_back();
  EXPECT_EQ(difference_to_two(code), "number of instructions: 1, nearest has 2");
  code = code_of_two();
  code.sinks.push_back(code.sinks[0]);
  EXPECT_EQ(difference_to_two(code), "number of outputs: 2, nearest has 1");
}

TEST(Difference, OfNodesNamesOpAndOperand) {
  ir::Graph graph;
  ir::add_node(graph, ir::Op::kSum, {{0}, {1}});
  ir::add_node(graph, ir::Op::kSum, {{0}, {1, {4}, {}, 1, DType::kFloat64}});
  ir::add_node(graph, ir::Op::kMean, {{0}, {1}});
  Key sum, sum_f64, mean;
  make_key(graph, graph.nodes[0], sum);
  make_key(graph, graph.nodes[1], sum_f64);
  make_key(graph, graph.nodes[2], mean);
  EXPECT_EQ(node_difference(sum_f64, sum), "operand 1 dtype: f64, nearest has f32");
  EXPECT_EQ(node_difference(mean, sum), "op: aten::mean, nearest has aten::sum");
}

TEST(Difference, TheNearestKeyIsTheOneWithFewestChanges) {
  KernelCache cache;
  ir::PointwiseCode near = code_of_two(), far = code_of_two();
  near.sources[0].dtype = DType::kFloat64;
  far.instrs.resize(9);
  cache.find_or_add(key_of(far));
  EXPECT_NE(nearest_key(cache, key_of(code_of_two())), nullptr);
  cache.find_or_add(key_of(near));
  EXPECT_EQ(*nearest_key(cache, key_of(code_of_two())), key_of(near));
}

TEST(Difference, AnInsertionIsNear) {
  ir::PointwiseCode longer = code_of_two();
  longer.instrs.insert(longer.instrs.begin() + 1, longer.instrs[0]);
  const size_t inserted = distance(key_of(longer), key_of(code_of_two()));
  EXPECT_GT(inserted, 0u);
  EXPECT_LT(inserted, key_of(code_of_two()).bytes.size());
  EXPECT_EQ(distance(key_of(longer), key_of(longer)), 0u);
}

TEST(Difference, AnyBytesAreExplainedWithoutHarm) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    Key a, b;
    a.bytes.resize(random() % 80);
    b.bytes.resize(random() % 80);
    for (auto* key : {&a, &b}) {
      for (std::byte& byte : key->bytes) byte = static_cast<std::byte>(random() % 7 * 40);
    }
    EXPECT_FALSE(code_difference(a, b).empty());
  }
}

}  // namespace
}  // namespace neuron::cache
