// What the steps of a program do on the simulated chip.
//
// Laws:
//  1. Work is a function of the recorded ops and the plan: shapes, dtypes, layouts, what
//  is
//     fused. Never of values, of the time, or of how this machine runs the step.
//  2. SBUF is a cache of whole operands within one program: what was touched last, up to
//     its size, is read from there. A result that nobody sees after the program is
//     written to HBM only if it is read again after it has left SBUF.
//  3. An operand counts by the elements that it has: a dimension of stride 0 counts once.
#include "lazy/work.h"

#include <algorithm>

#include "ir/itemsize.h"
#include "ir/native.h"
#include "lazy/work_instructions.h"

namespace neuron::lazy {
namespace {

using device::Work;
using ir::Native;
using ir::Op;
using ir::OpClass;

constexpr uint64_t kTile = 128;           // rows of the Tensor engine, and partitions
constexpr uint64_t kMovingColumns = 512;  // of one instruction of it

uint64_t tiles_of(uint64_t count, uint64_t tile) { return (count + tile - 1) / tile; }

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 32);
}

// One program's operands on their way through SBUF.
class WorkCounter {
 public:
  WorkCounter(const WindowProgram& program, uint64_t sbuf_bytes)
      : program_(program), graph_(program.graph), sbuf_bytes_(sbuf_bytes) {
    // A program of one step has nothing to find again.
    has_memory_ = program.steps.size() > 1;
    static thread_local std::vector<uint64_t> touched;
    if (has_memory_) touched.assign(program.buffers.size(), 0);
    touched_ = touched.data();
  }

  Work work_of(const ir::Kernel& kernel);

 private:
  uint64_t numel(const ir::Operand& operand) const {
    uint64_t count = 1;
    for (const int64_t size : graph_.sizes_of(operand)) count *= size;
    return count;
  }
  uint64_t distinct(const int64_t* sizes, const int64_t* strides, int rank) const {
    uint64_t count = 1;
    for (int d = 0; d < rank; ++d) {
      if (strides == nullptr || strides[d] != 0) count *= sizes[d];
    }
    return count;
  }
  uint64_t bytes_of(const ir::Operand& operand) const {
    const auto strides = graph_.strides_of(operand);
    return distinct(graph_.dims.data() + operand.dims,
                    strides.empty() ? nullptr : strides.data(), operand.rank) *
           ir::itemsize_of(operand.dtype);
  }
  int64_t size(const ir::Operand& operand, int from_end) const {
    return operand.rank < from_end ? 1
                                   : graph_.sizes_of(operand)[operand.rank - from_end];
  }

  void read(Work& work, uint32_t buffer, uint64_t bytes);
  void write(Work& work, uint32_t buffer, uint64_t bytes);
  void touch(uint32_t buffer, uint64_t bytes) {
    moved_ += bytes;
    touched_[buffer] = moved_;
  }
  void move_operands(Work& work, const ir::Node& node);
  void pointwise(Work& work, const ir::PointwiseKernel& kernel);
  void native(Work& work, const ir::Node& node);
  void call(Work& work, const ir::Node& node);
  void host_or_copy(Work& work, const ir::Node& node);
  void indexing(Work& work, const ir::Node& node);
  void library(Work& work, const ir::Node& node);
  void attention(Work& work, const ir::Node& node, bool is_backward);
  void product(Work& work, ir::DType dtype, uint64_t batch, uint64_t m, uint64_t n,
               uint64_t k) const;
  void product_of(Work& work, const ir::Operand& left, const ir::Operand& right) const;
  void along_rows(Work& work, const ir::Operand& in, uint64_t row, float vector,
                  float scalar) const;

  const WindowProgram& program_;
  const ir::Graph& graph_;
  const uint64_t sbuf_bytes_;
  bool has_memory_ = false;
  uint64_t* touched_ = nullptr;  // per buffer: `moved_` after its last use, 0 for none
  uint64_t moved_ = 0;           // bytes of all operands so far
};

// Law 2.
void WorkCounter::read(Work& work, uint32_t buffer, uint64_t bytes) {
  if (!has_memory_) {
    work.bytes_read += bytes;
    return;
  }
  const uint64_t last = touched_[buffer];
  const bool is_near = last != 0 && moved_ - last + bytes <= sbuf_bytes_;
  if (!is_near) {
    work.bytes_read += bytes;
    if (last != 0 && program_.is_visible[buffer] == 0) work.bytes_written += bytes;
  }
  touch(buffer, bytes);
}

void WorkCounter::write(Work& work, uint32_t buffer, uint64_t bytes) {
  if (!has_memory_) {
    work.bytes_written += bytes;
    return;
  }
  if (program_.is_visible[buffer] != 0) work.bytes_written += bytes;
  touch(buffer, bytes);
}

void WorkCounter::move_operands(Work& work, const ir::Node& node) {
  for (const ir::Operand& operand : graph_.operands_of(node)) {
    const uint64_t bytes = bytes_of(operand);
    if (operand.reads()) read(work, operand.buffer, bytes);
    if (operand.writes()) write(work, operand.buffer, bytes);
  }
}

void WorkCounter::pointwise(Work& work, const ir::PointwiseKernel& kernel) {
  work.elements = kernel.numel;
  int vector = 0, scalar = 0;
  for (const ir::Instr& instr : kernel.code.instrs) {
    const Instructions counts = instructions_of(instr.code);
    vector += counts.vector;
    scalar += counts.scalar;
    work.signature = mix(work.signature, static_cast<uint64_t>(instr.code));
  }
  work.vector = static_cast<float>(vector);
  work.scalar = static_cast<float>(scalar);
  work.signature = mix(work.signature, kernel.numel);
  const auto bytes = [&](const ir::TensorRef& ref, ir::Layout layout, ir::DType dtype) {
    uint64_t count = kernel.numel;
    if (layout == ir::Layout::kScalar) count = 1;
    if (layout == ir::Layout::kStrided) {
      count = distinct(kernel.sizes, ref.strides, kernel.rank);
    }
    work.signature = mix(work.signature, count << 8 | static_cast<uint64_t>(dtype));
    return count * ir::itemsize_of(dtype);
  };
  const ir::TensorRef* ref = kernel.tensors.data();
  for (const ir::Source& source : kernel.code.sources) {
    if (source.is_number) continue;
    read(work, ref->buffer, bytes(*ref, source.layout, source.dtype));
    ++ref;
  }
  for (const ir::Sink& sink : kernel.code.sinks) {
    write(work, ref->buffer, bytes(*ref, sink.layout, sink.dtype));
    ++ref;
  }
}

// The array holds 128 x 128 of one operand while rows of the other stream through.
void WorkCounter::product(Work& work, ir::DType dtype, uint64_t batch, uint64_t m,
                          uint64_t n, uint64_t k) const {
  const uint64_t stationary_n = tiles_of(n, kTile) * m;
  const uint64_t stationary_m = tiles_of(m, kTile) * n;
  const uint64_t rows = std::min(stationary_n, stationary_m);
  const uint64_t moving = stationary_n <= stationary_m ? m : n;
  const uint64_t passes = batch * tiles_of(k, kTile);
  work.tensor_rows += passes * rows;
  work.tensor_tiles +=
      passes * rows / std::max<uint64_t>(moving, 1) * tiles_of(moving, kMovingColumns);
  work.is_float32 = ir::itemsize_of(dtype) > 2;
}

void WorkCounter::product_of(Work& work, const ir::Operand& left,
                             const ir::Operand& right) const {
  const uint64_t k = size(left, 1);
  const uint64_t m = left.rank < 2 ? 1 : size(left, 2);
  const uint64_t batch = k * m == 0 ? 0 : numel(left) / (k * m);
  const uint64_t n = right.rank < 2 ? 1 : size(right, 1);
  product(work, left.dtype, batch, m, n, k);
}

void WorkCounter::along_rows(Work& work, const ir::Operand& in, uint64_t row,
                             float vector, float scalar) const {
  work.elements = numel(in);
  work.vector = vector;
  work.scalar = scalar;
  const uint64_t rows = work.elements / std::max<uint64_t>(row, 1);
  work.row_tiles = static_cast<uint32_t>(tiles_of(rows, kTile));
}

// What each native op does per element of its first operand: one sweep for every
// instruction of the obvious kernel.
void WorkCounter::native(Work& work, const ir::Node& node) {
  const auto operands = graph_.operands_of(node);
  const ir::Operand& in = operands[0];
  const int64_t high = node.numbers[0].integer >> 8;
  uint64_t row = 1;
  switch (static_cast<Native>(node.variant)) {
    case Native::kReduce:
    case Native::kReduceWithIndex:
      for (int d = 1; d <= high && d <= in.rank; ++d) row *= size(in, d);
      along_rows(work, in, row,
                 static_cast<Native>(node.variant) == Native::kReduce ? 1 : 2, 0);
      break;
    case Native::kSoftmax:  // maximum; exp with its sum; scale
      along_rows(work, in, size(in, static_cast<int>(in.rank - high)), 2, 1);
      break;
    case Native::kSoftmaxBackward:
      along_rows(work, in, size(in, static_cast<int>(in.rank - high)), 3, 0);
      break;
    case Native::kLayerNorm:  // statistics; centre and scale; weight; bias
      along_rows(work, in, numel(in) / std::max<uint64_t>(numel(operands.back()), 1), 4,
                 0);
      break;
    case Native::kLayerNormBackward:
      along_rows(work, in, numel(in) / std::max<uint64_t>(numel(operands[2]), 1), 7, 0);
      break;
    case Native::kNllLoss:
    case Native::kNllLossBackward:  // one element a row is gathered
      work.elements = numel(operands[1]);
      work.gpsimd = 1;
      work.vector = 1;
      break;
    case Native::kMatmul:
      product_of(work, in, operands[1]);
      break;
    case Native::kGatherRows:  // an element is gathered, or gathered and added
      work.elements = numel(operands.back());
      work.gpsimd = 1;
      break;
    case Native::kScatterRows:
      work.elements = numel(in);
      work.gpsimd = 1;
      work.vector = 1;
      break;
    case Native::kLstmCell:  // gates and biases added; state; five activations
      along_rows(work, operands[2], size(operands[2], 1),
                 8 + 4 * static_cast<float>(operands.size() - 6), 5);
      break;
    case Native::kLstmCellBackward:
      along_rows(work, operands.back(), size(operands.back(), 1), 20, 1);
      break;
    case Native::kGruCell:
      along_rows(work, operands[2], size(operands[2], 1),
                 7 + 3 * static_cast<float>(operands.size() - 5), 3);
      break;
    case Native::kGruCellBackward:
      along_rows(work, in, size(in, 1), 14, 0);
      break;
    case Native::kNone:
      break;
  }
  move_operands(work, node);
}

void WorkCounter::attention(Work& work, const ir::Node& node, bool is_backward) {
  const auto operands = graph_.operands_of(node);
  const ir::Operand& query = operands[is_backward ? 1 : 0];
  const ir::Operand& key = operands[is_backward ? 2 : 1];
  const uint64_t depth = size(query, 1), rows = size(query, 2), columns = size(key, 2);
  const uint64_t batch = numel(query) / std::max<uint64_t>(depth * rows, 1);
  // Forward: scores, and their product with the values. Backward: the scores again,
  // and two products for each of both.
  for (int i = 0; i < (is_backward ? 3 : 1); ++i) {
    product(work, query.dtype, batch, rows, columns, depth);
  }
  for (int i = 0; i < (is_backward ? 2 : 1); ++i) {
    product(work, query.dtype, batch, rows, depth, columns);
  }
  work.elements = batch * rows * columns;
  work.vector = is_backward ? 3 : 1;  // the running maximum; the sum rides on exp
  work.scalar = 1;
  work.row_tiles = static_cast<uint32_t>(batch * tiles_of(rows, kTile));
  move_operands(work, node);
}

void WorkCounter::library(Work& work, const ir::Node& node) {
  const auto operands = graph_.operands_of(node);
  switch (node.op) {
    case Op::kMm:
    case Op::kBmm:
    case Op::kMv:
    case Op::kDot:
    case Op::kVdot:
      product_of(work, operands[0], operands[1]);
      break;
    case Op::kAddmm:
    case Op::kBaddbmm:
    case Op::kAddmv:
      if (operands.size() > 2) product_of(work, operands[1], operands[2]);
      break;
    case Op::kConvolution:
    case Op::kConvolutionOverrideable:
    case Op::kConvolutionBackward:
    case Op::kConvolutionBackwardOverrideable: {
      const bool is_backward = node.op == Op::kConvolutionBackward ||
                               node.op == Op::kConvolutionBackwardOverrideable;
      if (operands.size() < 3) break;
      const ir::Operand& weight = operands[is_backward ? 2 : 1];
      const ir::Operand& out = is_backward ? operands[0] : operands.back();
      const uint64_t channels = std::max<int64_t>(size(weight, weight.rank), 1);
      const uint64_t k = numel(weight) / channels;
      for (int i = 0; i < (is_backward ? 2 : 1); ++i) {
        product(work, weight.dtype, 1, numel(out) / channels, channels, k);
      }
      break;
    }
    case Op::kFlashAttention:
      return attention(work, node, /*is_backward=*/false);
    case Op::kFlashAttentionBackward:
      return attention(work, node, /*is_backward=*/true);
    default:  // pools and transforms
      for (const ir::Operand& operand : operands) {
        work.elements = std::max(work.elements, numel(operand));
      }
      work.vector = 8;
  }
  move_operands(work, node);
}

// Only what is picked is moved: not the table of an embedding, nor all of what is
// updated in place.
void WorkCounter::indexing(Work& work, const ir::Node& node) {
  uint64_t written = 0, given = 0;
  for (const ir::Operand& operand : graph_.operands_of(node)) {
    const uint64_t bytes = bytes_of(operand);
    if (!operand.reads()) written = std::max(written, bytes);
    if (!operand.writes()) given = std::max(given, bytes);
    if (operand.writes()) work.elements = std::max(work.elements, numel(operand));
  }
  for (const ir::Operand& operand : graph_.operands_of(node)) {
    uint64_t bytes = bytes_of(operand);
    if (operand.reads() && operand.writes()) bytes = std::min(bytes, given);
    if (!operand.writes() && written != 0) bytes = std::min(bytes, written);
    if (operand.reads()) read(work, operand.buffer, bytes);
    if (operand.writes()) write(work, operand.buffer, bytes);
  }
  work.gpsimd = 1;
}

void WorkCounter::host_or_copy(Work& work, const ir::Node& node) {
  for (const ir::Operand& operand : graph_.operands_of(node)) {
    const uint64_t bytes = bytes_of(operand);
    if (operand.reads()) work.bytes_read += bytes;
    if (operand.writes()) work.bytes_written += bytes;
  }
}

void WorkCounter::call(Work& work, const ir::Node& node) {
  const OpClass op_class = ir::op_info(node.op).op_class;
  switch (op_class) {
    case OpClass::kControl:
      work.kind = Work::Kind::kFree;
      return;
    case OpClass::kHost:
      work.kind = Work::Kind::kHost;
      return host_or_copy(work, node);
    case OpClass::kIndexing:
      return indexing(work, node);
    case OpClass::kLibrary:
      return library(work, node);
    case OpClass::kCopy:
      if (node.op == Op::kUpload) {  // the host was charged when it gave the bytes
        work.kind = Work::Kind::kFree;
        return;
      }
      if (node.op == Op::kDownload) {
        work.kind = Work::Kind::kDownload;
        return host_or_copy(work, node);
      }
      break;
    case OpClass::kRandom:
      work.gpsimd = 1;
      break;
    case OpClass::kReduction:
      work.vector = 2;
      break;
    case OpClass::kPointwise:
    case OpClass::kOptimizer:
      work.vector = 1;
      break;
  }
  for (const ir::Operand& operand : graph_.operands_of(node)) {
    work.elements = std::max(work.elements, numel(operand));
  }
  move_operands(work, node);
}

Work WorkCounter::work_of(const ir::Kernel& kernel) {
  Work work;
  work.kind = Work::Kind::kCompute;
  if (kernel.is_pointwise()) {
    pointwise(work, program_.plan.pointwise[kernel.pointwise]);
    return work;
  }
  const ir::Node& node = graph_.nodes[program_.plan.nodes_of(kernel)[0]];
  if (node.variant != 0) {
    native(work, node);
  } else {
    call(work, node);
  }
  if (work.kind != Work::Kind::kCompute) return work;
  work.signature = mix(static_cast<uint64_t>(node.op) + 1, node.variant);
  for (const ir::Operand& operand : graph_.operands_of(node)) {
    work.signature = mix(work.signature, static_cast<uint64_t>(operand.dtype));
    for (const int64_t size : graph_.sizes_of(operand)) {
      work.signature = mix(work.signature, static_cast<uint64_t>(size));
    }
  }
  return work;
}

}  // namespace

void fill_work(WindowProgram& program, uint64_t sbuf_bytes) {
  WorkCounter counter(program, sbuf_bytes);
  program.signature = 0;
  program.num_ops = 0;
  for (const ir::Node& node : program.graph.nodes) {
    // An upload is recorded or not, depending on what has run by then.
    program.num_ops += node.op != Op::kRecordEvent && node.op != Op::kUpload;
  }
  for (size_t i = 0; i < program.plan.kernels.size(); ++i) {
    device::Step& step = program.steps[i];
    step.work = counter.work_of(program.plan.kernels[i]);
    if (step.work.kind == Work::Kind::kCompute) {
      program.signature = mix(program.signature, step.work.signature);
    }
  }
}

}  // namespace neuron::lazy
