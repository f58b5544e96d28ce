#include "cache/key.h"

#include <gtest/gtest.h>

#include <functional>

#include "ir/graph_maker.h"

namespace neuron::cache {
namespace {

using ir::DType;
using ir::Op;
using ir::Operand;
using ir::OperandText;

// One op as a test describes it; each test changes one thing.
struct OpText {
  Op op = Op::kAdd;
  uint8_t number_kinds = 0;
  double number = 1.0;
  const char* call = nullptr;
  std::vector<OperandText> operands = {{0, {4, 8}, {}, Operand::kReads},
                                       {1, {4, 8}, {8, 1}, Operand::kReads},
                                       {2, {4, 8}, {}, Operand::kWrites}};
};

Key key_of(const OpText& text) {
  ir::Graph graph;
  ir::Node& node = add_node(graph, text.op, text.operands, text.call);
  node.number_kinds = text.number_kinds;
  node.numbers[0].real = text.number;
  Key key;
  make_key(graph, graph.nodes[0], key);
  return key;
}

using Change = std::function<void(OpText&)>;

void expect_other_key(const Change& change) {
  OpText changed;
  change(changed);
  EXPECT_FALSE(key_of(changed) == key_of(OpText{}));
}

void expect_same_key(const Change& change) {
  OpText changed;
  change(changed);
  EXPECT_TRUE(key_of(changed) == key_of(OpText{}));
}

TEST(Key, TheOpCounts) {
  expect_other_key([](OpText& t) { t.op = Op::kMul; });
}

TEST(Key, TheDtypeOfEachOperandCounts) {
  for (size_t i = 0; i < 3; ++i) {
    expect_other_key([i](OpText& t) { t.operands[i].dtype = DType::kBFloat16; });
  }
}

TEST(Key, TheRankOfEachOperandCounts) {
  expect_other_key([](OpText& t) { t.operands[0].sizes = {32}; });
  expect_other_key([](OpText& t) { t.operands[2].sizes = {4, 8, 1}; });
}

TEST(Key, TheLayoutClassOfEachOperandCounts) {
  expect_other_key([](OpText& t) { t.operands[0].strides = {1, 4}; });
  expect_other_key([](OpText& t) { t.operands[1].strides = {}; });
}

TEST(Key, TheAccessCounts) {
  expect_other_key(
      [](OpText& t) { t.operands[2].flags = Operand::kReads | Operand::kWrites; });
  expect_other_key([](OpText& t) { t.operands[1].flags = Operand::kWrites; });
}

TEST(Key, ConjugateAndNegativeCount) {
  expect_other_key([](OpText& t) { t.operands[0].flags |= Operand::kConjugate; });
  expect_other_key([](OpText& t) { t.operands[0].flags |= Operand::kNegative; });
}

TEST(Key, AliasingCounts) {
  expect_other_key([](OpText& t) { t.operands[1].buffer = 0; });
  expect_other_key([](OpText& t) { t.operands[2].buffer = 0; });
  expect_other_key([](OpText& t) { t.operands[2].buffer = 1; });
}

TEST(Key, TheNumberOfOperandsCounts) {
  expect_other_key([](OpText& t) { t.operands.pop_back(); });
  expect_other_key([](OpText& t) { t.operands.push_back(t.operands[2]); });
}

TEST(Key, TheKindOfTheNumbersCounts) {
  expect_other_key([](OpText& t) { t.number_kinds = 1; });
}

TEST(Key, ACallObjectCounts) {
  expect_other_key([](OpText& t) { t.call = "aten::add"; });
}

TEST(Key, OperandsOfACallDoNotCount) {
  OpText one, other;
  one.call = other.call = "aten::add";
  other.operands.pop_back();
  other.operands[0].dtype = DType::kBFloat16;
  other.operands[1].buffer = 0;
  EXPECT_TRUE(key_of(one) == key_of(other));
  other.op = Op::kMul;
  EXPECT_FALSE(key_of(one) == key_of(other));
}

TEST(Key, SizesDoNotCount) {
  expect_same_key([](OpText& t) {
    for (OperandText& operand : t.operands) operand.sizes = {5, 7};
  });
}

TEST(Key, StridesOfAStridedOperandDoNotCount) {
  expect_same_key([](OpText& t) { t.operands[1].strides = {1, 4}; });
}

TEST(Key, OffsetsDoNotCount) {
  expect_same_key([](OpText& t) { t.operands[0].offset = 64; });
}

TEST(Key, NumbersDoNotCount) {
  expect_same_key([](OpText& t) { t.number = 0.25; });
}

TEST(Key, TheNumberingOfBuffersDoesNotCount) {
  expect_same_key([](OpText& t) {
    t.operands[0].buffer = 9;
    t.operands[1].buffer = 3;
    t.operands[2].buffer = 5;
  });
}

TEST(Key, ThePlaceInTheWindowDoesNotCount) {
  ir::Graph graph;
  add_node(graph, Op::kAdd, {{0}, {1}, {2}});
  add_node(graph, Op::kNeg, {{2}, {3}});
  add_node(graph, Op::kAdd, {{3}, {0}, {4}});
  Key first, last;
  make_key(graph, graph.nodes[0], first);
  make_key(graph, graph.nodes[2], last);
  EXPECT_TRUE(first == last);
}

TEST(Key, NothingStaysOfTheKeyBefore) {
  ir::Graph graph;
  add_node(graph, Op::kAdd, {{0}, {1}, {2}});
  add_node(graph, Op::kNeg, {{0}, {1}});
  Key fresh, reused;
  make_key(graph, graph.nodes[1], fresh);
  make_key(graph, graph.nodes[0], reused);
  make_key(graph, graph.nodes[1], reused);
  EXPECT_TRUE(fresh == reused);
}

TEST(Key, EqualHashesOfOtherBytesAreNotEqual) {
  Key one, other;
  one.bytes = {std::byte{1}};
  other.bytes = {std::byte{2}};
  EXPECT_FALSE(one == other);
}

}  // namespace
}  // namespace neuron::cache
