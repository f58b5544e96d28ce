#include "fusion/kernels/matmul.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/parallel.h"

namespace neuron::fusion {
namespace {

// Multiply-adds below which a product is not cut: about 30 us on one core.
constexpr int64_t kSmallProduct = int64_t{1} << 20;
constexpr int64_t kBlock = 512;

class OneThread {
 public:
  OneThread() {
    if (blas().set_threads != nullptr) before_ = blas().set_threads(1);
  }
  ~OneThread() {
    if (blas().set_threads != nullptr) blas().set_threads(before_);
  }

 private:
  int before_ = 0;
};

template <class T>
auto gemm_of() {
  if constexpr (sizeof(T) == sizeof(float)) {
    return blas().sgemm;
  } else {
    return blas().dgemm;
  }
}

template <class T>
const T* at(const Matrices& matrices, int64_t batch, int64_t row, int64_t column) {
  const int64_t inner = matrices.is_column_major ? row + column * matrices.leading
                                                 : row * matrices.leading + column;
  return static_cast<const T*>(matrices.data) + batch * matrices.batch + inner;
}

// Part of one product: rows [row, row + rows), columns [column, column + columns). BLAS
// counts by columns, so it is asked for the transpose of everything.
template <class T>
void multiply(const MatmulSizes& sizes, const Matrices& a, const Matrices& b,
              bool accumulates, T* out, int64_t batch, int64_t row, int64_t rows,
              int64_t column, int64_t columns) {
  const auto m = static_cast<int>(columns);
  const auto n = static_cast<int>(rows);
  const auto k = static_cast<int>(sizes.k);
  const auto lda = static_cast<int>(b.leading);
  const auto ldb = static_cast<int>(a.leading);
  const auto ldc = static_cast<int>(sizes.n);
  const T one = 1;
  const T beta = accumulates ? 1 : 0;
  gemm_of<T>()(b.is_column_major ? "T" : "N", a.is_column_major ? "T" : "N", &m, &n, &k,
               &one, at<T>(b, batch, 0, column), &lda, at<T>(a, batch, row, 0), &ldb,
               &beta, out + batch * sizes.m * sizes.n + row * sizes.n + column, &ldc);
}

// How many pieces a dimension is cut into: two of up to kBlock, or as many as it takes.
int64_t num_pieces(int64_t size) {
  if (size < 64) return 1;
  return std::max<int64_t>(2, (size + kBlock - 1) / kBlock);
}

template <class T>
void multiply_all(const MatmulSizes& sizes, const Matrices& a, const Matrices& b,
                  bool accumulates, T* out) {
  const int64_t work = sizes.m * sizes.n * sizes.k;
  if (sizes.batch > 1) {
    const int64_t grain =
        std::max<int64_t>(1, kSmallProduct / std::max<int64_t>(work, 1));
    parallel_for(sizes.batch, grain, [&](int64_t begin, int64_t end) {
      OneThread one;
      for (int64_t i = begin; i < end; ++i) {
        multiply(sizes, a, b, accumulates, out, i, 0, sizes.m, 0, sizes.n);
      }
    });
    return;
  }
  const bool by_rows = sizes.m >= sizes.n;
  const int64_t size = by_rows ? sizes.m : sizes.n;
  const int64_t pieces = work < kSmallProduct ? 1 : num_pieces(size);
  const int64_t length = ((size + pieces - 1) / pieces + 15) / 16 * 16;
  parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    OneThread one;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t start = std::min(size, i * length);
      const int64_t count = std::min(length, size - start);
      if (count <= 0) continue;
      if (by_rows) {
        multiply(sizes, a, b, accumulates, out, 0, start, count, 0, sizes.n);
      } else {
        multiply(sizes, a, b, accumulates, out, 0, 0, sizes.m, start, count);
      }
    }
  });
}

}  // namespace

Blas& blas() {
  static Blas blas;
  return blas;
}

void matmul(ir::DType dtype, const MatmulSizes& sizes, const Matrices& a,
            const Matrices& b, bool accumulates, void* out) {
  if (dtype == ir::DType::kFloat32) {
    multiply_all(sizes, a, b, accumulates, static_cast<float*>(out));
  } else {
    NEURON_CHECK(dtype == ir::DType::kFloat64, "a product of a type without a kernel");
    multiply_all(sizes, a, b, accumulates, static_cast<double*>(out));
  }
}

void fill_rows(ir::DType dtype, int64_t rows, int64_t n, const void* bias, void* out) {
  const int64_t row_bytes = n * (dtype == ir::DType::kFloat32 ? 4 : 8);
  const int64_t grain = std::max<int64_t>(1, 131072 / std::max<int64_t>(row_bytes, 1));
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(static_cast<std::byte*>(out) + i * row_bytes, bias,
                  static_cast<size_t>(row_bytes));
    }
  });
}

}  // namespace neuron::fusion
