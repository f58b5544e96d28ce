// Matrix products against loops that are written as the law of bits in matmul.h: to the
// bit, for each instruction set, layout and number of threads.
#include "fusion/kernels/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "fusion/kernels/matmul_table.h"

extern "C" const void* neuron_matmul_table_avx2();
extern "C" const void* neuron_matmul_table_avx512();

namespace neuron::fusion {
namespace {

struct NamedTable {
  const char* name;
  const MatmulTable* table;
};

// The tables that this machine can run: the one it takes, and what that includes.
std::vector<NamedTable> tables() {
  std::vector<NamedTable> found{
      {"avx2", static_cast<const MatmulTable*>(neuron_matmul_table_avx2())}};
  if (&matmul_table() != found[0].table) found.push_back({"avx512", &matmul_table()});
  return found;
}

enum class Layout : uint8_t { kRows, kColumns, kGaps, kStrided };
constexpr Layout kLayouts[] = {Layout::kRows, Layout::kColumns, Layout::kGaps,
                               Layout::kStrided};

// A stack of matrices in memory that is NaN wherever no element lies.
template <class T>
struct Stack {
  Stack(int64_t batch, int64_t rows, int64_t columns, Layout layout, std::mt19937& random)
      : memory(static_cast<size_t>(batch * (rows + 2) * (columns + 3) * 2 + 8),
               std::numeric_limits<T>::quiet_NaN()) {
    matrices.data = memory.data();
    switch (layout) {
      case Layout::kRows:
        matrices.row = columns;
        matrices.column = 1;
        break;
      case Layout::kColumns:
        matrices.row = 1;
        matrices.column = rows;
        break;
      case Layout::kGaps:  // rows of a wider matrix
        matrices.row = columns + 3;
        matrices.column = 1;
        break;
      case Layout::kStrided:
        matrices.row = 2;
        matrices.column = 2 * rows + 1;
        break;
    }
    matrices.batch = (rows + 2) * (columns + 3) * 2;
    std::normal_distribution<T> normal;
    for (int64_t i = 0; i < batch; ++i) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) at(i, r, c) = normal(random);
      }
    }
  }
  T& at(int64_t i, int64_t row, int64_t column) {
    return memory[static_cast<size_t>(i * matrices.batch + row * matrices.row +
                                      column * matrices.column)];
  }

  std::vector<T> memory;
  Matrices matrices;
};

template <class T>
constexpr ir::DType dtype_of() {
  return sizeof(T) == sizeof(float) ? ir::DType::kFloat32 : ir::DType::kFloat64;
}

// One product with all that it takes.
template <class T>
struct Case {
  Case(const MatmulSizes& shape, Layout a_layout, Layout b_layout, bool is_bias,
       bool has_addend, unsigned seed = 1)
      : random(seed),
        sizes(shape),
        a(shape.batch, shape.m, shape.k, a_layout, random),
        b(shape.batch, shape.k, shape.n, b_layout, random),
        d(shape.batch, is_bias ? 1 : shape.m, shape.n, Layout::kGaps, random) {
    if (!has_addend) return;
    addend = {d.matrices.data, is_bias ? 0 : d.matrices.row, d.matrices.batch};
  }

  // The law, element by element.
  std::vector<T> by_law() {
    std::vector<T> out;
    for (int64_t i = 0; i < sizes.batch; ++i) {
      for (int64_t r = 0; r < sizes.m; ++r) {
        for (int64_t c = 0; c < sizes.n; ++c) out.push_back(element(i, r, c));
      }
    }
    return out;
  }

  T element(int64_t i, int64_t row, int64_t column) {
    T total = 0;
    constexpr int64_t kBlock = matmul_block(dtype_of<T>());
    for (int64_t k0 = 0; k0 < sizes.k; k0 += kBlock) {
      T sum = 0;
      for (int64_t k = k0; k < std::min(k0 + kBlock, sizes.k); ++k) {
        sum = std::fma(a.at(i, row, k), b.at(i, k, column), sum);
      }
      total = k0 == 0 ? sum : total + sum;
    }
    if (addend.data != nullptr) total += d.at(i, addend.row == 0 ? 0 : row, column);
    return total;
  }

  std::vector<T> run(const MatmulTable& table) {
    const T guard = 12345;
    std::vector<T> out(static_cast<size_t>(sizes.batch * sizes.m * sizes.n) + 1,
                       std::numeric_limits<T>::quiet_NaN());
    out.back() = guard;
    matmul_with(table, dtype_of<T>(), sizes, a.matrices, b.matrices, addend, out.data());
    EXPECT_EQ(out.back(), guard) << "wrote behind the output";
    out.pop_back();
    return out;
  }

  std::string describe(const char* table) const {
    return std::string(table) + " " + std::to_string(sizes.batch) + " x " +
           std::to_string(sizes.m) + " " + std::to_string(sizes.n) + " " +
           std::to_string(sizes.k) + " strides " + std::to_string(a.matrices.row) + " " +
           std::to_string(a.matrices.column) + ", " + std::to_string(b.matrices.row) +
           " " + std::to_string(b.matrices.column) + " addend row " +
           std::to_string(addend.data == nullptr ? -1 : addend.row);
  }

  std::mt19937 random;
  MatmulSizes sizes;
  Stack<T> a;
  Stack<T> b;
  Stack<T> d;
  Addend addend;
};

// NaN is equal to NaN: which one comes out is not promised.
template <class T>
int64_t first_difference(const std::vector<T>& x, const std::vector<T>& y) {
  EXPECT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const bool is_same = std::isnan(x[i])
                             ? std::isnan(y[i])
                             : x[i] == y[i] && std::signbit(x[i]) == std::signbit(y[i]);
    if (!is_same) return static_cast<int64_t>(i);
  }
  return -1;
}

// For each instruction set, and with one thread, as many as a machine has, and more.
template <class T>
void expect_law(Case<T> product) {
  const std::vector<T> law = product.by_law();
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    for (const NamedTable& table : tables()) {
      EXPECT_EQ(first_difference(law, product.run(*table.table)), -1)
          << product.describe(table.name) << " bytes " << sizeof(T) << " threads "
          << threads;
    }
  }
  set_num_threads(0);
}

TEST(Matmul, EveryWayOfComputingAProductFollowsTheLaw) {
  const MatmulSizes shapes[] = {
      {1, 70, 90, 300},    // grid
      {1, 50, 50, 800},    // grid with several blocks of k
      {1, 30, 150, 420},   // strips
      {1, 4, 600, 500},    // strips
      {1, 3000, 1, 400},   // strips of the transpose
      {1, 5000, 2, 130},   // the same
      {1, 9, 10, 13000},   // split
      {1, 130, 1, 9000},   // split of the transpose
      {20, 30, 33, 70},    // a stack
      {2, 210, 220, 190},  // a stack of large ones
      {1, 8, 8, 8},        // here
  };
  for (const MatmulSizes& sizes : shapes) {
    for (Layout a : kLayouts) {
      for (Layout b : kLayouts) {
        const bool is_bias = a == b;
        const bool has_addend = a != Layout::kRows;
        expect_law<float>({sizes, a, b, is_bias, has_addend});
        if (a != b) expect_law<double>({sizes, a, b, is_bias, has_addend});
      }
    }
  }
}

TEST(Matmul, ChunksOfHugeProductsFollowTheLaw) {
  const MatmulSizes shapes[] = {{1, 4500, 40, 130}, {1, 50, 4500, 120}};
  for (const MatmulSizes& sizes : shapes) {
    expect_law<float>({sizes, Layout::kColumns, Layout::kRows, false, true});
    expect_law<float>({sizes, Layout::kRows, Layout::kColumns, true, true});
  }
}

TEST(Matmul, GroupsOfBlocksOfKFollowTheLaw) {
  // More steps of k than are packed at once.
  const MatmulSizes sizes{1, 90, 70, 15000};
  expect_law<float>({sizes, Layout::kRows, Layout::kRows, false, true});
}

TEST(Matmul, TilesOfEverySizeFollowTheLaw) {
  for (int64_t m = 1; m <= 31; ++m) {
    for (int64_t n : {1,  2,  3,  4,  5,  7,  8,  9,  10, 15, 16, 17,
                      24, 31, 32, 33, 47, 48, 49, 63, 64, 65, 100}) {
      for (int64_t k : {1, 3, 16, 257}) {
        const auto layout = kLayouts[(m + n + k) % 4];
        const auto other = kLayouts[(m + n / 3 + k) % 4];
        const MatmulSizes sizes{1, m, n, k};
        expect_law<float>({sizes, layout, other, n % 2 == 0, m % 3 != 0});
        expect_law<double>({sizes, layout, other, n % 2 == 0, m % 3 != 0});
      }
    }
  }
}

TEST(Matmul, RandomProductsFollowTheLaw) {
  std::mt19937 random(7);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 60; ++i) {
    const MatmulSizes sizes{draw(1, 3), draw(1, 120), draw(1, 120), draw(1, 600)};
    const auto a = static_cast<Layout>(draw(0, 3));
    const auto b = static_cast<Layout>(draw(0, 3));
    expect_law<float>({sizes, a, b, draw(0, 1) == 0, draw(0, 1) == 0});
    expect_law<double>({sizes, a, b, draw(0, 1) == 0, draw(0, 1) == 0});
  }
}

TEST(Matmul, EmptyProductsAreTheirAddend) {
  for (const MatmulSizes& sizes :
       {MatmulSizes{0, 3, 4, 5}, MatmulSizes{1, 0, 4, 5}, MatmulSizes{1, 3, 0, 5},
        MatmulSizes{1, 3, 4, 0}, MatmulSizes{3, 5, 40, 0}}) {
    for (bool has_addend : {false, true}) {
      expect_law<float>({sizes, Layout::kRows, Layout::kRows, true, has_addend});
      expect_law<double>({sizes, Layout::kRows, Layout::kRows, false, has_addend});
    }
  }
}

TEST(Matmul, OneMatrixOfAStackMayBeRepeated) {
  Case<float> product({6, 20, 30, 40}, Layout::kRows, Layout::kColumns, false, false);
  product.b.matrices.batch = 0;
  expect_law(product);
}

TEST(Matmul, NansAndInfinitiesPassThrough) {
  for (const MatmulSizes& sizes :
       {MatmulSizes{1, 20, 40, 300}, MatmulSizes{1, 150, 160, 300},
        MatmulSizes{1, 64, 1, 30}}) {
    Case<float> product(sizes, Layout::kRows, Layout::kColumns, true, true);
    product.a.at(0, 3, 5) = std::numeric_limits<float>::quiet_NaN();
    product.a.at(0, 7, 11) = std::numeric_limits<float>::infinity();
    product.b.at(0, 11, 0) = 0;
    product.b.at(0, 13, 0) = -std::numeric_limits<float>::infinity();
    product.a.at(0, 9, 13) = std::numeric_limits<float>::denorm_min();
    const std::vector<float> law = product.by_law();
    EXPECT_TRUE(std::isnan(law[static_cast<size_t>(3 * sizes.n)]));
    EXPECT_TRUE(std::isnan(law[static_cast<size_t>(7 * sizes.n)]));
    expect_law(product);
  }
}

TEST(Matmul, SubnormalsAreKept) {
  Case<float> product({1, 20, 40, 30}, Layout::kRows, Layout::kRows, false, false);
  for (float& x : product.a.memory) x *= 1e-30F;
  for (float& x : product.b.memory) x *= 1e-11F;
  const std::vector<float> law = product.by_law();
  EXPECT_EQ(std::fpclassify(law[0]), FP_SUBNORMAL);
  expect_law(product);
}

}  // namespace
}  // namespace neuron::fusion
