// ReducePlan: a ReduceShape with merged dimensions, cut into blocks of rows, and how a
// kernel is run over them.
//
// A kernel names its element type `Value`, its `State` and its `Columns`, and has
//   identity()                           the state of a row of nothing
//   row(x, count, k, r)                  the state of elements x[0], ... x[count - 1] of
//                                        row r of a block, of which the first is its k-th
//   clear(columns, size, count)          before `size` elements of `count` columns
//   add(columns, k, x, count)            the k-th element of each column
//   finish(columns, k, states, count)    their states; the first element was the k-th
//   combine(before, chunk)               the state of a row and its next chunk
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "fusion/kernels/rows.h"
#include "fusion/kernels/rows_tree.h"

namespace neuron::fusion {
namespace {

struct ReduceDim {
  int64_t size = 1;
  int64_t in = 0;
  int64_t out = 0;
};

/// Consecutive rows of the innermost kept dimension.
struct RowBlock {
  int64_t in = 0;
  int64_t out = 0;
  int64_t count = 0;
};

struct ReducePlan {
  ReduceDim outer[ReduceShape::kMaxRank];
  int num_outer = 0;
  ReduceDim inner;  // the kept dimension with the smallest stride
  ReduceDim reduced[ReduceShape::kMaxRank];
  int num_reduced = 0;
  int64_t num_rows = 1;
  int64_t size = 1;  // of a row
  int64_t num_chunks = 0;
  bool by_columns = false;  // memory runs along `inner`
  bool split = false;       // the chunks of a block are shared out, not the blocks
  int64_t width = 1;        // rows of a block
  int64_t blocks_of_inner = 0;
  int64_t num_blocks = 0;

  explicit ReducePlan(const ReduceShape& shape);
  RowBlock block(int64_t idx) const;

 private:
  void merge(const ReduceShape& shape);
  void choose_blocks();
};

/// Appends a dimension, or lets the last one grow when the two are one in memory.
inline void append_dim(ReduceDim* dims, int& count, const ReduceDim& dim) {
  if (dim.size == 1) return;
  if (count > 0) {
    ReduceDim& last = dims[count - 1];
    if (last.in == dim.in * dim.size && last.out == dim.out * dim.size) {
      last = {last.size * dim.size, dim.in, dim.out};
      return;
    }
  }
  dims[count++] = dim;
}

inline void ReducePlan::merge(const ReduceShape& shape) {
  ReduceDim kept[ReduceShape::kMaxRank];
  for (int d = 0; d < shape.num_kept; ++d) {
    kept[d] = {shape.sizes[d], shape.in_strides[d], shape.out_strides[d]};
    num_rows *= shape.sizes[d];
  }
  // Rows are independent, so their order is free; a stride of 0 gains nothing inside.
  std::stable_sort(kept, kept + shape.num_kept,
                   [](const ReduceDim& a, const ReduceDim& b) {
                     if (a.in == 0 || b.in == 0) return a.in == 0 && b.in != 0;
                     return std::abs(a.in) > std::abs(b.in);
                   });
  for (int d = 0; d < shape.num_kept; ++d) append_dim(outer, num_outer, kept[d]);
  if (num_outer > 0) inner = outer[--num_outer];
  for (int d = shape.num_kept; d < shape.num_kept + shape.num_reduced; ++d) {
    append_dim(reduced, num_reduced, {shape.sizes[d], shape.in_strides[d], 0});
    size *= shape.sizes[d];
  }
  if (num_reduced == 0) reduced[num_reduced++] = {size, 1, 0};
}

inline void ReducePlan::choose_blocks() {
  num_chunks = (size + kChunk - 1) / kChunk;
  const int64_t step = std::abs(inner.in);
  const int64_t reduced_step = std::abs(reduced[num_reduced - 1].in);
  // Very short rows are cheaper as columns even when their elements lie together.
  by_columns = inner.size >= 8 && step != 0 && (step < reduced_step || size < kLanes);
  const int64_t wanted = (by_columns ? 2 : 4) * static_cast<int64_t>(num_threads());
  const int64_t least = by_columns ? 16 : 1;
  width = std::clamp(num_rows / wanted / 16 * 16, least, kColumns);
  width = std::max(width, std::min(kColumns, grain_of(size)));
  // Chunks enough for all threads: whole lines of memory are better than narrow blocks.
  if (by_columns && num_chunks >= wanted) width = kColumns;
  blocks_of_inner = (inner.size + width - 1) / width;
  num_blocks = num_rows / inner.size * blocks_of_inner;
  split = num_chunks > 1 && num_blocks < wanted / 2;
}

inline ReducePlan::ReducePlan(const ReduceShape& shape) {
  merge(shape);
  if (num_rows > 0) choose_blocks();
}

inline RowBlock ReducePlan::block(int64_t idx) const {
  int64_t rest = idx / blocks_of_inner;
  const int64_t first = idx % blocks_of_inner * width;
  RowBlock result{first * inner.in, first * inner.out,
                  std::min(width, inner.size - first)};
  for (int d = num_outer; d-- > 0;) {
    const int64_t at = d == 0 ? rest : rest % outer[d].size;
    rest /= outer[d].size;
    result.in += at * outer[d].in;
    result.out += at * outer[d].out;
  }
  return result;
}

/// A place in the reduced dimensions that moves on in logical order.
class ReducedCursor {
 public:
  ReducedCursor(const ReducePlan& plan, int64_t k)
      : plan_(plan), last_(plan.num_reduced - 1) {
    for (int d = last_; d >= 0; --d) {
      const int64_t size = plan.reduced[d].size;
      at_[d] = d == 0 ? k : k % size;
      offset_ += at_[d] * plan.reduced[d].in;
      if (d > 0) k /= size;
    }
  }
  int64_t offset() const { return offset_; }
  /// Elements up to the end of the innermost dimension, this one included.
  int64_t run() const { return plan_.reduced[last_].size - at_[last_]; }
  int64_t stride() const { return plan_.reduced[last_].in; }
  /// Moves on by at most a run.
  void advance(int64_t count) {
    at_[last_] += count;
    offset_ += count * plan_.reduced[last_].in;
    for (int d = last_; d > 0 && at_[d] == plan_.reduced[d].size; --d) {
      offset_ += plan_.reduced[d - 1].in - at_[d] * plan_.reduced[d].in;
      at_[d] = 0;
      ++at_[d - 1];
    }
  }

 private:
  const ReducePlan& plan_;
  int last_;
  int64_t offset_ = 0;
  int64_t at_[ReduceShape::kMaxRank];
};

/// Copies elements k ... k + count of a row to `buffer`.
template <class T>
inline void gather_row(const ReducePlan& plan, const T* row, int64_t k, int64_t count,
                       T* buffer) {
  ReducedCursor cursor(plan, k);
  while (count > 0) {
    const int64_t run = std::min(count, cursor.run());
    const T* from = row + cursor.offset();
    const int64_t stride = cursor.stride();
    if (stride == 1) {
      std::memcpy(buffer, from, run * sizeof(T));
    } else {
      for (int64_t i = 0; i < run; ++i) buffer[i] = from[i * stride];
    }
    buffer += run;
    count -= run;
    cursor.advance(run);
  }
}

/// A kernel over elements of one chunk of one row. Not inlined, since a copy for each use
/// is long to compile and gains nothing.
template <class Kernel>
[[gnu::noinline]] typename Kernel::State row_chunk(const ReducePlan& plan,
                                                   const Kernel& kernel,
                                                   const typename Kernel::Value* row,
                                                   int64_t chunk, int64_t r) {
  using T = typename Kernel::Value;
  const int64_t k = chunk * kChunk;
  const int64_t count = std::min(kChunk, plan.size - k);
  if (plan.num_reduced == 1 && plan.reduced[0].in == 1) {
    return kernel.row(row + k, count, k, r);
  }
  alignas(64) T buffer[kChunk];
  gather_row(plan, row, k, count, buffer);
  return kernel.row(buffer, count, k, r);
}

/// A kernel over one chunk of all rows of a block, along the rows' common direction.
template <class Kernel>
[[gnu::noinline]] void column_chunk(const ReducePlan& plan, const Kernel& kernel,
                                    const typename Kernel::Value* in, int64_t chunk,
                                    int64_t count, typename Kernel::State* states) {
  using T = typename Kernel::Value;
  const int64_t begin = chunk * kChunk;
  const int64_t end = std::min(plan.size, begin + kChunk);
  const int64_t stride = plan.inner.in;
  typename Kernel::Columns columns;
  kernel.clear(columns, end - begin, count);
  ReducedCursor cursor(plan, begin);
  T buffer[kColumns];
  for (int64_t k = begin; k < end; ++k, cursor.advance(1)) {
    const T* from = in + cursor.offset();
    if (stride != 1) {
      for (int64_t c = 0; c < count; ++c) buffer[c] = from[c * stride];
      from = buffer;
    }
    kernel.add(columns, k - begin, from, count);
  }
  kernel.finish(columns, begin, states, count);
}

/// The states of the rows of a block.
template <class Kernel>
inline void evaluate(const ReducePlan& plan, const Kernel& kernel,
                     const typename Kernel::Value* in, const RowBlock& block,
                     typename Kernel::State* states) {
  using State = typename Kernel::State;
  const auto* from = in + block.in;
  const int64_t count = block.count;
  std::fill_n(states, count, kernel.identity());
  const auto run = [&](int64_t chunk, int64_t r, State* out) {
    if (plan.by_columns) return column_chunk(plan, kernel, from, chunk, count, out);
    *out = row_chunk(plan, kernel, from + r * plan.inner.in, chunk, r);
  };
  const int64_t rows = plan.by_columns ? 1 : count;
  const int64_t columns = plan.by_columns ? count : 1;
  if (!plan.split) {
    State part[kColumns];
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t chunk = 0; chunk < plan.num_chunks; ++chunk) {
        run(chunk, r, part);
        for (int64_t c = 0; c < columns; ++c) {
          states[r + c] = kernel.combine(states[r + c], part[c]);
        }
      }
    }
    return;
  }
  std::vector<State> parts(plan.num_chunks * count);
  parallel_for(rows * plan.num_chunks, grain_of(columns * kChunk),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   run(i % plan.num_chunks, i / plan.num_chunks,
                       parts.data() + i * columns);
                 }
               });
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t chunk = 0; chunk < plan.num_chunks; ++chunk) {
      const State* part = parts.data() + (r * plan.num_chunks + chunk) * columns;
      for (int64_t c = 0; c < columns; ++c) {
        states[r + c] = kernel.combine(states[r + c], part[c]);
      }
    }
  }
}

/// Calls `body` for each block, on any thread.
template <class Body>
inline void for_each_block(const ReducePlan& plan, const Body& body) {
  const auto range = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(plan.block(i));
  };
  if (plan.split) return range(0, plan.num_blocks);
  parallel_for(plan.num_blocks, grain_of(plan.size * plan.width), range);
}

/// Evaluates `kernel` for every row and gives the states to write(output index, state).
template <class Kernel, class Write>
inline void for_each_state(const ReducePlan& plan, const Kernel& kernel, const void* in,
                           const Write& write) {
  for_each_block(plan, [&](const RowBlock& block) {
    typename Kernel::State states[kColumns];
    evaluate(plan, kernel, static_cast<const typename Kernel::Value*>(in), block, states);
    for (int64_t r = 0; r < block.count; ++r) {
      write(block.out + r * plan.inner.out, states[r]);
    }
  });
}

}  // namespace
}  // namespace neuron::fusion
