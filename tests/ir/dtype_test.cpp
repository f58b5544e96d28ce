#include "ir/dtype.h"

#include <gtest/gtest.h>

namespace neuron::ir {
namespace {

TEST(DType, NamesAreShort) {
  EXPECT_STREQ(dtype_name(DType::kFloat32), "f32");
  EXPECT_STREQ(dtype_name(DType::kBFloat16), "bf16");
  EXPECT_STREQ(dtype_name(DType::kBool), "bool");
  EXPECT_STREQ(dtype_name(DType::kComplex64), "c64");
}

TEST(DType, ARarerTypeHasANameToo) {
  EXPECT_STREQ(dtype_name(static_cast<DType>(40)), "other");
}

}  // namespace
}  // namespace neuron::ir
