// Matrix products: float32 and float64, any layout, bits that depend on nothing but the
// operands.
//
// Law of bits: an element is the sum, in order of k, of the sums of blocks of
// matmul_block(dtype) steps of k; the sum of a block is one chain of `fma` over k in
// order, started at +0. The addend comes last: ((block0 + block1) + ...) + addend.
// Neither sizes of tiles, the number of threads, the instruction set, layouts nor the
// place of an element changes that. Of NaNs only that they come out is promised
// (docs/numerics.md).
#pragma once

#include <cstdint>

#include "ir/dtype.h"

namespace neuron::fusion {

constexpr int64_t matmul_block(ir::DType dtype) {
  return dtype == ir::DType::kFloat32 ? 384 : 192;
}

/// A stack of matrices of any layout; strides count elements.
struct Matrices {
  const void* data = nullptr;
  int64_t row = 0;     // from one row to the next
  int64_t column = 0;  // from one column to the next
  int64_t batch = 0;   // from one matrix to the next
};

/// What is added to the product; nothing if `data` is null. Its columns are dense, and
/// `row` is 0 for a bias that all rows share. It must not overlap the output.
struct Addend {
  const void* data = nullptr;
  int64_t row = 0;
  int64_t batch = 0;
};

struct MatmulSizes {
  int64_t batch = 1;
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 1;
};

/// out = a b + addend; `out` is dense and row-major. An 8x8x8 product takes 0.1 us.
void matmul(ir::DType dtype, const MatmulSizes& sizes, const Matrices& a,
            const Matrices& b, const Addend& addend, void* out);

/// The same with the inner loops of one instruction set, for tests and benchmarks.
struct MatmulTable;
void matmul_with(const MatmulTable& table, ir::DType dtype, const MatmulSizes& sizes,
                 const Matrices& a, const Matrices& b, const Addend& addend, void* out);

}  // namespace neuron::fusion
