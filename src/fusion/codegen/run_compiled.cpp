// Essay. The iteration space is cut into pieces. Laws:
//  1. Within a piece every tensor is dense to the kernel: it lies so, or a copy of its
//     elements (a stage) does. A sink's stage is copied out after the kernel.
//  2. Where some tensor is read or written in place, the last elements of a piece that do
//     not fill a step are computed in copies of all tensors that lie in place.
//  3. Pieces do not depend on each other, and an element's value not on where it lies in
//     a piece. So cutting differently, or on several threads, gives the same bits.
#include "fusion/codegen/run_compiled.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/parallel.h"
#include "ir/itemsize.h"

namespace neuron::fusion {
namespace {

using ir::Layout;

constexpr int64_t kStagedPiece = 512;
constexpr size_t kStageBytes = kStagedPiece * sizeof(double);
static_assert(kStagedPiece % kKernelStep == 0);
constexpr size_t kTailBytes = kKernelStep * sizeof(double);

uint64_t number_bits(ir::ValueType type, double real, int64_t integer) {
  switch (type) {
    case ir::ValueType::kF32:
      return std::bit_cast<uint32_t>(static_cast<float>(real));
    case ir::ValueType::kF64:
      return std::bit_cast<uint64_t>(real);
    case ir::ValueType::kI64:
      return static_cast<uint64_t>(integer);
    case ir::ValueType::kBool:
      return integer != 0 ? 1 : 0;
  }
  return 0;
}

// Strides are in bytes.
template <class Word>
void copy_words(std::byte* to, int64_t to_stride, const std::byte* from,
                int64_t from_stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(to + i * to_stride, from + i * from_stride, sizeof(Word));
  }
}

void copy_elements(int itemsize, std::byte* to, int64_t to_stride, const std::byte* from,
                   int64_t from_stride, int64_t n) {
  if (to_stride == itemsize && from_stride == itemsize) {
    std::memcpy(to, from, static_cast<size_t>(n * itemsize));
    return;
  }
  switch (itemsize) {
    case 1:
      return copy_words<uint8_t>(to, to_stride, from, from_stride, n);
    case 2:
      return copy_words<uint16_t>(to, to_stride, from, from_stride, n);
    case 4:
      return copy_words<uint32_t>(to, to_stride, from, from_stride, n);
    default:
      return copy_words<uint64_t>(to, to_stride, from, from_stride, n);
  }
}

// Memory for the stages and tails of the pieces of one thread.
class Scratch {
 public:
  std::byte* take(size_t num_bytes) {
    if (words_.size() * sizeof(Line) < num_bytes) {
      words_.resize((num_bytes + sizeof(Line) - 1) / sizeof(Line));
    }
    return words_.front().bytes;
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  std::vector<Line> words_;
};

// Whether rows are worth a call of their own: else rows are staged together, so that
// steps are full.
bool is_long_row(int64_t size) {
  return size >= 8 * kKernelStep || size % kKernelStep == 0;
}

int64_t grain_of(const ir::PointwiseCode& code) {
  const auto weight = static_cast<int64_t>(code.instrs.size() * 2 + code.sources.size());
  const int64_t grain = 400000 / std::max<int64_t>(weight, 1);
  return std::max<int64_t>(8192,
                           (grain + kStagedPiece - 1) / kStagedPiece * kStagedPiece);
}

}  // namespace

// Runs the pieces of one thread.
class PointwiseRun::Pieces {
 public:
  explicit Pieces(const PointwiseRun& run)
      : run_(run), num_tensors_(run.tensors_.size()) {
    static thread_local Scratch scratch;
    const size_t num_stages = run.has_staged_ ? num_tensors_ : 0;
    const size_t num_bytes = num_tensors_ * (kTailBytes + 2 * sizeof(void*));
    tails_ = scratch.take(num_bytes + num_stages * kStageBytes);
    stages_ = tails_ + num_tensors_ * kTailBytes;
    std::byte* behind = stages_ + num_stages * kStageBytes;
    pointers_ = reinterpret_cast<void**>(behind);
    tail_pointers_ = pointers_ + num_tensors_;
  }

  void run(int64_t begin, int64_t end) {
    seek(begin);
    const int inner = run_.rank_ - 1;
    for (int64_t start = begin; start < end;) {
      int64_t n = std::min(run_.longest_piece_, end - start);
      if (run_.stops_at_rows_) n = std::min(n, run_.sizes_[inner] - index_[inner]);
      run_piece(start, n);
      start += n;
      if (run_.has_strided_) advance(n);
    }
  }

 private:
  using Index = int64_t[kMaxRank];

  void seek(int64_t start) {
    if (!run_.has_strided_) return;
    for (int d = run_.rank_ - 1; d >= 0; --d) {
      index_[d] = start % run_.sizes_[d];
      start /= run_.sizes_[d];
    }
  }

  void advance(int64_t n) {
    int d = run_.rank_ - 1;
    index_[d] += n;
    while (d > 0 && index_[d] >= run_.sizes_[d]) {
      const int64_t rows = index_[d] / run_.sizes_[d];
      index_[d] -= rows * run_.sizes_[d];
      index_[--d] += rows;
    }
  }

  std::byte* place_of(const Tensor& tensor, const Index& index) const {
    int64_t offset = 0;
    for (int d = 0; d < run_.rank_; ++d) offset += index[d] * tensor.strides[d];
    return tensor.data + offset;
  }

  // Between a stage and the next n elements of the space, a row at a time.
  void copy_stage(const Tensor& tensor, std::byte* stage, int64_t n) const {
    Index index;
    std::copy_n(index_, run_.rank_, index);
    const int inner = run_.rank_ - 1;
    const int64_t stride = tensor.strides[inner];
    while (n > 0) {
      const int64_t length = std::min(n, run_.sizes_[inner] - index[inner]);
      std::byte* place = place_of(tensor, index);
      if (tensor.is_sink) {
        copy_elements(tensor.itemsize, place, stride, stage, tensor.itemsize, length);
      } else {
        copy_elements(tensor.itemsize, stage, tensor.itemsize, place, stride, length);
      }
      stage += length * tensor.itemsize;
      n -= length;
      index[inner] += length;
      for (int d = inner; d > 0 && index[d] == run_.sizes_[d]; --d) {
        index[d] = 0;
        ++index[d - 1];
      }
    }
  }

  static bool is_in_place(const Tensor& tensor) {
    return tensor.access == Access::kDirect || tensor.access == Access::kRow;
  }

  void point_at(int64_t start, int64_t n) {
    for (size_t i = 0; i < num_tensors_; ++i) {
      const Tensor& tensor = run_.tensors_[i];
      std::byte* stage = stages_ + i * kStageBytes;
      switch (tensor.access) {
        case Access::kDirect:
          pointers_[i] = tensor.data + start * tensor.itemsize;
          break;
        case Access::kRow:
          pointers_[i] = place_of(tensor, index_);
          break;
        case Access::kStaged:
          pointers_[i] = stage;
          if (!tensor.is_sink) copy_stage(tensor, stage, n);
          break;
        case Access::kElement:
          pointers_[i] = tensor.is_sink ? stage : tensor.data;
          break;
      }
    }
  }

  void run_piece(int64_t start, int64_t n) {
    point_at(start, n);
    const int64_t whole = run_.has_in_place_ ? n / kKernelStep * kKernelStep : n;
    if (whole > 0) run_.function_(pointers_, run_.numbers_.data(), whole);
    if (whole < n) run_tail(whole, n - whole);
    for (size_t i = 0; run_.has_staged_ && i < num_tensors_; ++i) {
      const Tensor& tensor = run_.tensors_[i];
      if (!tensor.is_sink || is_in_place(tensor)) continue;
      std::byte* stage = stages_ + i * kStageBytes;
      if (tensor.access == Access::kStaged) {
        copy_stage(tensor, stage, n);
      } else {
        std::memcpy(tensor.data, stage, tensor.itemsize);
      }
    }
  }

  // Law 2: elements [whole, whole + n) of the piece.
  void run_tail(int64_t whole, int64_t n) {
    for (size_t i = 0; i < num_tensors_; ++i) {
      const Tensor& tensor = run_.tensors_[i];
      const std::byte* place = place_after(i, whole);
      tail_pointers_[i] = pointers_[i];
      if (is_in_place(tensor)) {
        tail_pointers_[i] = tails_ + i * kTailBytes;
        if (!tensor.is_sink) copy_tail(tail_pointers_[i], place, tensor, n);
      } else if (tensor.access == Access::kStaged) {
        tail_pointers_[i] = place_after(i, whole);
      }
    }
    run_.function_(tail_pointers_, run_.numbers_.data(), n);
    for (size_t i = 0; i < num_tensors_; ++i) {
      const Tensor& tensor = run_.tensors_[i];
      if (!tensor.is_sink || !is_in_place(tensor)) continue;
      copy_tail(place_after(i, whole), tail_pointers_[i], tensor, n);
    }
  }

  std::byte* place_after(size_t i, int64_t n) const {
    return static_cast<std::byte*>(pointers_[i]) + n * run_.tensors_[i].itemsize;
  }
  static void copy_tail(void* to, const void* from, const Tensor& tensor, int64_t n) {
    std::memcpy(to, from, static_cast<size_t>(n * tensor.itemsize));
  }

  const PointwiseRun& run_;
  const size_t num_tensors_;
  // In the scratch: pointers of a piece and of its last, partial step, and copies.
  void** pointers_;
  void** tail_pointers_;
  std::byte* tails_;
  std::byte* stages_;
  Index index_ = {};
};

PointwiseRun::PointwiseRun(const CompiledPointwise& compiled,
                           const ir::PointwiseCode& code, const ir::PointwiseArgs& args)
    : function_(compiled.function()) {
  tensors_.reserve(code.sources.size() + code.sinks.size());
  numbers_.resize(code.sources.size());
  size_t next = 0;
  for (size_t i = 0; i < code.sources.size(); ++i) {
    const ir::Source& source = code.sources[i];
    if (source.is_number) {
      numbers_[i] = number_bits(source.type, args.reals[i], args.integers[i]);
    } else {
      add_tensor(args.tensors[next++], source.layout, source.dtype, /*is_sink=*/false);
    }
  }
  for (const ir::Sink& sink : code.sinks) {
    add_tensor(args.tensors[next++], sink.layout, sink.dtype, /*is_sink=*/true);
  }
  if (has_strided_) {
    merge_dimensions(args);
    choose_access();
  }
  for (const Tensor& tensor : tensors_) {
    has_in_place_ |= tensor.access == Access::kDirect || tensor.access == Access::kRow;
    has_staged_ |= tensor.access == Access::kStaged ||
                   (tensor.access == Access::kElement && tensor.is_sink);
  }
  longest_piece_ = has_staged_ ? kStagedPiece : std::numeric_limits<int64_t>::max();
}

void PointwiseRun::add_tensor(const ir::TensorArg& arg, Layout layout, ir::DType dtype,
                              bool is_sink) {
  constexpr Access kAccess[] = {Access::kDirect, Access::kElement, Access::kStaged};
  Tensor& tensor = tensors_.emplace_back();
  tensor.data = static_cast<std::byte*>(arg.data);
  tensor.element_strides = arg.strides;
  tensor.access = kAccess[static_cast<int>(layout)];
  tensor.itemsize = static_cast<uint8_t>(ir::itemsize_of(dtype));
  tensor.is_sink = is_sink;
  has_strided_ |= tensor.access == Access::kStaged;
}

// Two dimensions become one where every strided tensor allows it.
void PointwiseRun::merge_dimensions(const ir::PointwiseArgs& args) {
  rank_ = 0;
  for (int d = 0; d < args.rank; ++d) {
    if (args.sizes[d] == 1) continue;
    const int last = rank_ - 1;
    bool joins = last >= 0;
    for (const Tensor& tensor : tensors_) {
      if (tensor.access != Access::kStaged) continue;
      joins = joins && tensor.strides[last] ==
                           tensor.element_strides[d] * tensor.itemsize * args.sizes[d];
    }
    if (!joins) {
      NEURON_CHECK(rank_ < kMaxRank, "[codegen] too many dimensions that do not merge");
      sizes_[rank_++] = 1;
    }
    sizes_[rank_ - 1] *= args.sizes[d];
    for (Tensor& tensor : tensors_) {
      if (tensor.access != Access::kStaged) continue;
      tensor.strides[rank_ - 1] = tensor.element_strides[d] * tensor.itemsize;
    }
  }
  if (rank_ > 0) return;
  rank_ = 1;
  sizes_[0] = 1;
  for (Tensor& tensor : tensors_) tensor.strides[0] = 0;
}

// A strided tensor stays in place if its rows are dense and long.
void PointwiseRun::choose_access() {
  const int inner = rank_ - 1;
  if (!is_long_row(sizes_[inner])) return;
  for (Tensor& tensor : tensors_) {
    if (tensor.access != Access::kStaged) continue;
    if (tensor.strides[inner] != tensor.itemsize) continue;
    tensor.access = Access::kRow;
    stops_at_rows_ = true;
  }
}

void PointwiseRun::run(int64_t begin, int64_t end) const {
  if (begin < end) Pieces(*this).run(begin, end);
}

void run_compiled(const CompiledPointwise& compiled, const ir::PointwiseCode& code,
                  const ir::PointwiseArgs& args) {
  if (args.numel == 0) return;
  const PointwiseRun run(compiled, code, args);
  parallel_for(args.numel, grain_of(code),
               [&](int64_t begin, int64_t end) { run.run(begin, end); });
}

}  // namespace neuron::fusion
