#include "ir/op.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace neuron::ir {
namespace {

constexpr size_t kNumOps = static_cast<size_t>(Op::kCount);

TEST(Op, ANameIsFound) {
  EXPECT_EQ(find_op("aten::add"), Op::kAdd);
  EXPECT_EQ(find_op("aten::clone"), Op::kClone);
}

TEST(Op, AnInPlaceNameHasTheFunctionalRow) { EXPECT_EQ(find_op("aten::add_"), Op::kAdd); }

TEST(Op, AnUnknownNameIsAHostOp) {
  EXPECT_EQ(find_op("aten::no_such_op"), Op::kHost);
  EXPECT_EQ(find_op("add"), Op::kHost);
  EXPECT_EQ(find_op(""), Op::kHost);
  EXPECT_EQ(find_op("_"), Op::kHost);
  EXPECT_TRUE(is_host_op(find_op("aten::no_such_op")));
}

TEST(Op, EveryRowIsFoundByItsName) {
  for (size_t i = 0; i < kNumOps; ++i) {
    const OpInfo& info = op_info(static_cast<Op>(i));
    EXPECT_EQ(static_cast<size_t>(info.op), i);
    if (!info.aten.empty()) {
      EXPECT_EQ(find_op(info.aten), info.op) << info.aten;
    }
  }
}

TEST(Op, NamesAreUnique) {
  std::set<std::string_view> names, aten;
  for (size_t i = 0; i < kNumOps; ++i) {
    const OpInfo& info = op_info(static_cast<Op>(i));
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_TRUE(info.aten.empty() || aten.insert(info.aten).second) << info.aten;
  }
}

TEST(Op, EveryClassHasAName) {
  for (size_t i = 0; i < kNumOps; ++i) {
    EXPECT_STRNE(op_class_name(op_info(static_cast<Op>(i)).op_class), "unknown");
  }
}

}  // namespace
}  // namespace neuron::ir
