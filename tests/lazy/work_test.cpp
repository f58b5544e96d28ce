#include "lazy/work.h"

#include <gtest/gtest.h>

#include "ir/graph_maker.h"
#include "ir/native.h"
#include "lazy/fake_core.h"
#include "lazy/flush.h"

namespace neuron::lazy {
namespace {

using device::Work;
using ir::DType;
using ir::Native;
using ir::Op;
using ir::OperandText;
using Sizes = std::vector<int64_t>;

constexpr uint64_t kNoSbuf = 0;
constexpr uint64_t kSbuf = 56 << 20;

OperandText in(uint32_t buffer, Sizes sizes, DType dtype = DType::kFloat32) {
  return {buffer, std::move(sizes), {}, ir::Operand::kReads, dtype};
}
OperandText out(uint32_t buffer, Sizes sizes, DType dtype = DType::kFloat32) {
  return {buffer, std::move(sizes), {}, ir::Operand::kWrites, dtype};
}

class WorkTest : public testing::Test {
 protected:
  // The steps of the recorded nodes. `hidden` buffers are seen by nobody afterwards.
  std::vector<device::Step> steps(uint64_t sbuf_bytes,
                                  const std::vector<uint32_t>& hidden = {}) {
    road_.sbuf_bytes = sbuf_bytes;
    program_->is_timed = true;
    program_->buffers.assign(graph().num_buffers, nullptr);
    program_->is_visible.assign(graph().num_buffers, 1);
    for (const uint32_t buffer : hidden) program_->is_visible[buffer] = 0;
    prepare_program(*program_, road_);
    return program_->steps;
  }
  Work only_work() {
    const auto made = steps(kNoSbuf);
    EXPECT_EQ(made.size(), 1u);
    return made[0].work;
  }
  uint64_t signature() {
    steps(kNoSbuf);
    const uint64_t signature = program_->signature;
    program_ = pool_.take();
    return signature;
  }

  ir::Graph& graph() { return program_->graph; }
  void pointwise(ir::Code code, const std::vector<OperandText>& operands) {
    ir::Node& node = add_node(graph(), Op::kAdd, operands);
    node.code = code;
  }
  void native(Native native, int64_t low, int64_t high,
              const std::vector<OperandText>& operands) {
    ir::Node& node = add_node(graph(), Op::kAdd, operands);
    node.variant = static_cast<uint16_t>(native);
    node.numbers[0].integer = low + 256 * high;
  }
  void call(Op op, const std::vector<OperandText>& operands) {
    add_node(graph(), op, operands, "test::call");
  }

  Road road_{&find_action, {}};
  ProgramPool pool_{road_};
  WindowProgramPtr program_ = pool_.take();
};

TEST_F(WorkTest, APointwiseOpMovesItsOperandsAndSweepsOnce) {
  pointwise(ir::Code::kAdd, {in(0, {8, 100}), in(1, {8, 100}), out(2, {8, 100})});
  const Work work = only_work();
  EXPECT_EQ(work.kind, Work::Kind::kCompute);
  EXPECT_EQ(work.elements, 800u);
  EXPECT_EQ(work.vector, 1);
  EXPECT_EQ(work.scalar, 0);
  EXPECT_EQ(work.bytes_read, 6400u);
  EXPECT_EQ(work.bytes_written, 3200u);
}

TEST_F(WorkTest, ATranscendentalFunctionIsOneInstructionOfScalar) {
  pointwise(ir::Code::kExp, {in(0, {64}), out(1, {64})});
  const Work work = only_work();
  EXPECT_EQ(work.vector, 0);
  EXPECT_EQ(work.scalar, 1);
}

TEST_F(WorkTest, ADimensionOfStrideZeroCountsOnce) {
  OperandText row = in(1, {8, 100});
  row.strides = {0, 1};
  pointwise(ir::Code::kAdd, {in(0, {8, 100}), row, out(2, {8, 100})});
  EXPECT_EQ(only_work().bytes_read, 3200u + 400u);
}

TEST_F(WorkTest, FusedOpsMoveOnlyWhatGoesInAndOut) {
  pointwise(ir::Code::kAdd, {in(0, {100}), in(1, {100}), out(2, {100})});
  pointwise(ir::Code::kSilu, {in(2, {100}), out(3, {100})});
  const auto made = steps(kNoSbuf, {2});
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].work.bytes_read, 800u);
  EXPECT_EQ(made[0].work.bytes_written, 400u);
  EXPECT_EQ(made[0].work.vector, 2);
  EXPECT_EQ(made[0].work.scalar, 1);
}

TEST_F(WorkTest, AProductStreamsTheRowsThatLeaveFewestTiles) {
  native(Native::kMatmul, 0, 0,
         {in(0, {1024, 4096}, DType::kBFloat16), in(1, {4096, 512}, DType::kBFloat16),
          out(2, {1024, 512}, DType::kBFloat16)});
  const Work work = only_work();
  EXPECT_EQ(work.tensor_rows, 32u * 4 * 1024);
  EXPECT_EQ(work.tensor_tiles, 32u * 4 * 2);
  EXPECT_FALSE(work.is_float32);
  EXPECT_EQ(work.bytes_read, 2u * (1024 * 4096 + 4096 * 512));
}

TEST_F(WorkTest, AProductBelowOneTileFillsTheArrayAllTheSame) {
  native(Native::kMatmul, 0, 0,
         {in(0, {7, 20, 3}), in(1, {7, 3, 5}), out(2, {7, 20, 5})});
  const Work work = only_work();
  EXPECT_EQ(work.tensor_rows, 7u * 5);
  EXPECT_EQ(work.tensor_tiles, 7u);
  EXPECT_TRUE(work.is_float32);
}

TEST_F(WorkTest, ASoftmaxGoesThroughItsRowsInTiles) {
  native(Native::kSoftmax, 0, 1, {in(0, {1000, 64}), out(1, {1000, 64})});
  const Work work = only_work();
  EXPECT_EQ(work.elements, 64000u);
  EXPECT_EQ(work.row_tiles, 8u);
  EXPECT_EQ(work.vector, 2);
  EXPECT_EQ(work.scalar, 1);
}

TEST_F(WorkTest, AReductionCountsItsRows) {
  native(Native::kReduce, 0, 2, {in(0, {256, 10, 30}), out(1, {256})});
  EXPECT_EQ(only_work().row_tiles, 2u);
}

TEST_F(WorkTest, AttentionIsTwoProductsAndASoftmax) {
  const Sizes sizes = {1, 8, 2048, 128};
  call(Op::kFlashAttention,
       {in(0, sizes, DType::kBFloat16), in(1, sizes, DType::kBFloat16),
        in(2, sizes, DType::kBFloat16), out(3, sizes, DType::kBFloat16)});
  const Work work = only_work();
  EXPECT_EQ(work.elements, 8u * 2048 * 2048);
  EXPECT_EQ(work.tensor_rows, 8u * (16 * 2048 + 16 * 2048));
  EXPECT_EQ(work.row_tiles, 8u * 16);
}

TEST_F(WorkTest, AnEmbeddingReadsTheRowsThatItPicks) {
  call(Op::kEmbedding,
       {in(0, {100000, 64}), in(1, {10}, DType::kInt64), out(2, {10, 64})});
  const Work work = only_work();
  EXPECT_EQ(work.bytes_read, 10u * 64 * 4 + 10 * 8);
  EXPECT_EQ(work.bytes_written, 10u * 64 * 4);
}

TEST_F(WorkTest, AnOpWithoutARowRunsOnTheHost) {
  call(Op::kHost, {in(0, {10}), out(1, {20})});
  const Work work = only_work();
  EXPECT_EQ(work.kind, Work::Kind::kHost);
  EXPECT_EQ(work.bytes_read, 40u);
  EXPECT_EQ(work.bytes_written, 80u);
}

TEST_F(WorkTest, EventsAndUploadsTakeNoTimeOfTheDevice) {
  call(Op::kRecordEvent, {});
  call(Op::kUpload, {out(0, {10})});
  call(Op::kDownload, {in(0, {10})});
  const auto made = steps(kNoSbuf);
  ASSERT_EQ(made.size(), 3u);
  EXPECT_EQ(made[0].work.kind, Work::Kind::kFree);
  EXPECT_EQ(made[1].work.kind, Work::Kind::kFree);
  EXPECT_EQ(made[2].work.kind, Work::Kind::kDownload);
  EXPECT_EQ(made[2].work.bytes_read, 40u);
}

// Two products, the second of the first's result.
class SbufTest : public WorkTest {
 protected:
  static constexpr uint64_t kBytes = 4 * 100 * 100;
  std::vector<device::Step> two_products(uint64_t sbuf_bytes,
                                         const std::vector<uint32_t>& hidden) {
    native(Native::kMatmul, 0, 0,
           {in(0, {100, 100}), in(1, {100, 100}), out(2, {100, 100})});
    native(Native::kMatmul, 0, 0,
           {in(2, {100, 100}), in(1, {100, 100}), out(3, {100, 100})});
    auto made = steps(sbuf_bytes, hidden);
    EXPECT_EQ(made.size(), 2u);
    return made;
  }
};

TEST_F(SbufTest, WhatWasTouchedLastIsReadFromThere) {
  const auto made = two_products(kSbuf, {2});
  EXPECT_EQ(made[0].work.bytes_read, 2 * kBytes);
  EXPECT_EQ(made[0].work.bytes_written, 0u);
  EXPECT_EQ(made[1].work.bytes_read, 0u);
  EXPECT_EQ(made[1].work.bytes_written, kBytes);
}

TEST_F(SbufTest, WhatSomebodySeesIsWritten) {
  EXPECT_EQ(two_products(kSbuf, {})[0].work.bytes_written, kBytes);
}

TEST_F(SbufTest, WhatHasNoRoomGoesThroughHbm) {
  const auto made = two_products(kBytes / 2, {2});
  EXPECT_EQ(made[1].work.bytes_read, 2 * kBytes);
  EXPECT_EQ(made[1].work.bytes_written, 2 * kBytes);  // the intermediate result, late
}

TEST_F(WorkTest, EqualOpsOnEqualShapesAreOneProgram) {
  const auto add = [this](Sizes sizes, ir::Code code) {
    pointwise(code, {in(0, sizes), in(1, sizes), out(2, sizes)});
    return signature();
  };
  const uint64_t first = add({16}, ir::Code::kAdd);
  EXPECT_EQ(add({16}, ir::Code::kAdd), first);
  EXPECT_NE(add({17}, ir::Code::kAdd), first);
  EXPECT_NE(add({16}, ir::Code::kMul), first);
}

}  // namespace
}  // namespace neuron::lazy
