#include "device/cost.h"

#include <gtest/gtest.h>

namespace neuron::device {
namespace {

constexpr uint64_t kMiB = 1 << 20;

Work sweep(uint64_t elements, float vector, float scalar) {
  Work work;
  work.kind = Work::Kind::kCompute;
  work.elements = elements;
  work.vector = vector;
  work.scalar = scalar;
  return work;
}

// A square product of 16-bit floats.
Work product(uint64_t n, bool is_float32 = false) {
  Work work;
  work.kind = Work::Kind::kCompute;
  work.tensor_rows = n / 128 * (n / 128) * n;
  work.tensor_tiles = work.tensor_rows / 512;
  work.is_float32 = is_float32;
  return work;
}

double total(const Work& work, const LogicalCore& core = {}) {
  return cost_of(work, core).total;
}

TEST(Cost, NothingTakesNoTime) { EXPECT_EQ(total(Work()), 0); }

TEST(Cost, BytesTakeTheSlowerOfHbmAndDma) {
  Work work;
  work.bytes_read = 100 * kMiB;
  work.bytes_written = 50 * kMiB;
  // 2.9 TB/s for four devices, of which four fifths are reached.
  EXPECT_DOUBLE_EQ(total(work), 150.0 * kMiB / (2900.0 / 4 * 0.8));
  const LogicalCore trn3{&target_of(Chip::kTrn3), 2};
  EXPECT_DOUBLE_EQ(total(work, trn3), 150.0 * kMiB / (4900.0 / 4 * 0.8));
}

TEST(Cost, AnInstructionWalksOneElementPerLaneAndCycle) {
  // 512 elements in each of 256 lanes, after one start of 60 cycles.
  EXPECT_DOUBLE_EQ(total(sweep(512 * 256, 1, 0)), (512 + 60) / 0.96);
  EXPECT_DOUBLE_EQ(total(sweep(512 * 256, 0, 1)), (512 + 60) / 1.2);
  EXPECT_DOUBLE_EQ(total(sweep(512 * 256, 3, 0)), 3 * (512 + 60) / 0.96);
  EXPECT_DOUBLE_EQ(total(sweep(4 * 512 * 256, 1, 0)), 4 * (512 + 60) / 0.96);
}

TEST(Cost, ATinyInstructionTakesTheLeastInterval) {
  EXPECT_DOUBLE_EQ(total(sweep(1, 1, 0)), (64 + 60) / 0.96);
  EXPECT_DOUBLE_EQ(total(sweep(1, 1, 0)), total(sweep(64 * 256, 1, 0)));
}

TEST(Cost, EnginesAndCopiesOverlap) {
  Work both = sweep(kMiB, 1, 3);
  both.bytes_read = 1;
  const Cost cost = cost_of(both, {});
  EXPECT_GT(cost.engines[1], 0);
  EXPECT_GT(cost.engines[2], cost.engines[1]);
  EXPECT_EQ(cost.total, cost.engines[2]);
  both.bytes_read = 1000 * kMiB;
  EXPECT_EQ(total(both), cost_of(both, {}).dma);
}

TEST(Cost, AProductStreamsOneRowACycle) {
  // 2 x 78.6 TFLOPS, 8/9 of which are left by the stationary tiles.
  const double flops = 2.0 * 4096 * 4096 * 4096;
  EXPECT_NEAR(total(product(4096)), flops / (157.3e3 * 512 / 576), 500);
  EXPECT_DOUBLE_EQ(total(product(4096, /*is_float32=*/true)),
                   6.35 * total(product(4096)));
}

TEST(Cost, OnePhysicalCoreTakesTwiceAsLong) {
  const LogicalCore one{&target_of(Chip::kTrn2), 1};
  EXPECT_DOUBLE_EQ(total(product(1024), one), 2 * total(product(1024)));
}

TEST(Cost, RowTilesAddTheirLatency) {
  Work work = sweep(kMiB, 1, 0);
  const double without = total(work);
  work.row_tiles = 5;  // the busier core has three of them
  EXPECT_DOUBLE_EQ(total(work) - without, 3 * (1300 + 2 * 100 / 0.96));
}

TEST(Cost, ALogicalCoreHasTheMemoryOfItsCores) {
  EXPECT_EQ(LogicalCore().hbm_bytes(), uint64_t{24} << 30);
  EXPECT_EQ(LogicalCore().sbuf_bytes(), 56 * kMiB);
  const LogicalCore one{&target_of(Chip::kTrn3), 1};
  EXPECT_EQ(one.hbm_bytes(), uint64_t{18} << 30);
}

TEST(Cost, EveryFigureHasASource) {
  for (const TargetFigure& figure : figures_of(target_of(Chip::kTrn2))) {
    EXPECT_NE(std::string(figure.source), "") << figure.name;
    EXPECT_GT(figure.value, 0) << figure.name;
  }
}

}  // namespace
}  // namespace neuron::device
