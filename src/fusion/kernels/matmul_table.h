// The inner loops of matrix products, compiled once for each instruction set. Calls pass
// only pointers to plain data, so the copies never mix.
#pragma once

#include <cstdint>

namespace neuron::fusion {

/// One block of k of one tile of the output: c = sum over k of a b, then + c if
/// `accumulates`, then + addend if there is one. Strides count elements.
struct Tile {
  int64_t k;
  const void* a;  // dense along k, or along the rows: see TileFns
  int64_t a_stride;
  const void* b;  // rows of `columns` dense elements
  int64_t b_stride;
  void* c;
  int64_t c_stride;
  const void* addend;  // null, or rows of `columns` dense elements
  int64_t addend_stride;
  int64_t columns;
  bool accumulates;
};
using TileFn = void (*)(const Tile&);

/// packed[i * pitch + j] of `lines` dense lines: line j is element j of each k (copy), or
/// element k of line j (transpose) of the source.
using PackFn = void (*)(const void* source, int64_t stride, int64_t lines, int64_t k,
                        void* packed, int64_t pitch);

/// What a tile is made of: up to `max_rows` rows of up to kMaxVectors vectors of `lanes`
/// columns.
struct TileFns {
  static constexpr int kMaxRows = 8;
  static constexpr int kMaxVectors = 3;
  int max_rows;
  int lanes;
  TileFn tiles[2][kMaxVectors][kMaxRows + 1];  // by: a is dense along rows; vectors - 1;
                                               // rows
  PackFn copy;
  PackFn transpose;
};

struct MatmulTable {
  TileFns f32;
  TileFns f64;
};

/// The table for this machine's instruction set.
const MatmulTable& matmul_table();

}  // namespace neuron::fusion
