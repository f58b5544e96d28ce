// Matrix products by the library, cut into blocks that all cores share.
//
// Laws:
//  1. Blocks depend on the sizes alone, so the bits do not depend on the number of
//  threads.
//  2. Every library call uses one thread.
#pragma once

#include <cstdint>

#include "ir/dtype.h"

namespace neuron::fusion {

/// The library's products, in the Fortran form of BLAS, and its per-thread thread count.
/// Filled in once, by whoever has the library, before the first product.
struct Blas {
  using Sgemm = void (*)(const char*, const char*, const int*, const int*, const int*,
                         const float*, const float*, const int*, const float*, const int*,
                         const float*, float*, const int*);
  using Dgemm = void (*)(const char*, const char*, const int*, const int*, const int*,
                         const double*, const double*, const int*, const double*,
                         const int*, const double*, double*, const int*);
  Sgemm sgemm = nullptr;
  Dgemm dgemm = nullptr;
  int (*set_threads)(int) = nullptr;  // of the calling thread; returns the number before
};
Blas& blas();

/// A stack of matrices whose rows or columns are dense.
struct Matrices {
  const void* data = nullptr;
  bool is_column_major = false;
  int64_t leading = 1;  // elements from one row (column) to the next
  int64_t batch = 0;    // elements from one matrix to the next
};

struct MatmulSizes {
  int64_t batch = 1;
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 1;
};

/// out = a b, or out += a b if `accumulates`; `out` is dense and row-major. float32 and
/// float64.
void matmul(ir::DType dtype, const MatmulSizes& sizes, const Matrices& a,
            const Matrices& b, bool accumulates, void* out);

/// Fills the `rows` rows of `out` with the row `bias` of `n` elements.
void fill_rows(ir::DType dtype, int64_t rows, int64_t n, const void* bias, void* out);

}  // namespace neuron::fusion
