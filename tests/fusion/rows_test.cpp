// Reductions of rows against naive references: values within a tolerance, bits by the
// laws.
#include "fusion/kernels/rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "fusion/rows_elements.h"

namespace neuron::fusion {
namespace {

TEST(Rows, SumsFollowTheTreeToTheBit) {
  for (DType dtype : kFloats) {
    for (int64_t size : kSizes) {
      for (int64_t rows : {1, 3, 40}) {
        const Elements in = elements(dtype, rows * size, size);
        const Elements law = dtype == DType::kFloat64
                                 ? sums_by_law<double>(in, dtype, rows, size)
                                 : sums_by_law<float>(in, dtype, rows, size);
        EXPECT_EQ(reduced(Reduce::kSum, in, dtype, rows_of(rows, size), rows), law);
      }
    }
  }
}

TEST(Rows, SumsToDoubleAccumulateInDouble) {
  const Elements in = elements(DType::kFloat32, 3 * 5000);
  EXPECT_EQ(reduced(Reduce::kSum, in, DType::kFloat64, rows_of(3, 5000), 3),
            sums_by_law<double>(in, DType::kFloat64, 3, 5000));
}

TEST(Rows, VarianceFollowsTheTreeToTheBit) {
  const int64_t size = 5000;
  const Elements in = elements(DType::kFloat32, size);
  auto row = row_as<float>(in, 0, size);
  const float mean = law_2(row) / size;
  for (float& x : row) x = (x - mean) * (x - mean);
  const Elements out = reduced(Reduce::kVar, in, DType::kFloat32, rows_of(1, size), 1);
  EXPECT_EQ(out[0], law_2(row) / (size - 1));
}

// ------------------------------------------------------------------ values
constexpr Reduce kAllReduces[] = {
    Reduce::kSum, Reduce::kMean, Reduce::kAmax,   Reduce::kAmin,  Reduce::kProd,
    Reduce::kAny, Reduce::kAll,  Reduce::kNorm2,  Reduce::kNorm1, Reduce::kNormInf,
    Reduce::kVar, Reduce::kStd,  Reduce::kArgmax, Reduce::kArgmin};
constexpr DType kResults[] = {
    DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64, DType::kBool,
    DType::kUInt8,   DType::kInt8,     DType::kInt16,   DType::kInt32,   DType::kInt64};

/// Calls test(op, in, out) for all that can be reduced.
template <class Test>
void for_all_types(const Test& test) {
  for (Reduce op : kAllReduces) {
    for (const auto& dtypes : {kFloats, kIntegers}) {
      for (DType in : dtypes) {
        for (DType out : kResults) {
          if (can_reduce(op, in, out)) test(op, in, out);
        }
      }
    }
  }
}

std::string describe(Reduce op, DType in, DType out, int64_t size) {
  return "op " + std::to_string(static_cast<int>(op)) + " " + ir::dtype_name(in) +
         " to " + ir::dtype_name(out) + " size " + std::to_string(size);
}

TEST(Rows, EveryReductionIsNearItsDefinition) {
  for_all_types([](Reduce op, DType in_dtype, DType out_dtype) {
    for (int64_t size : {2, 17, 300, 4500}) {
      const int64_t rows = 5;
      Elements in = elements(in_dtype, rows * size, 3);
      // A product of many numbers below 1 says nothing.
      if (op == Reduce::kProd && is_float(in_dtype)) {
        for (int64_t i = 0; i < in.size(); ++i)
          in.set(i, in[i] < 0 ? -1 : 1.0 + (i % size < 9) / 8.0);
      }
      if (op == Reduce::kProd && !is_float(in_dtype)) {
        for (int64_t i = 0; i < in.size(); ++i) in.set(i, in[i] == 0 ? 0 : 1);
      }
      const Elements out = reduced(op, in, out_dtype, rows_of(rows, size), rows);
      const DType narrowest =
          is_float(out_dtype) && is_float(in_dtype) ? out_dtype : DType::kFloat64;
      const bool wide = in_dtype == DType::kFloat64 || out_dtype == DType::kFloat64;
      const DType worked_in = wide ? DType::kFloat64 : DType::kFloat32;
      for (int64_t r = 0; r < rows; ++r) {
        const double expected = reference(op, row_as<double>(in, r, size), 1);
        // The tree adds about size / 16 numbers in a row; sums are near sqrt(size).
        const double tolerance = 2 * epsilon_of(narrowest) * std::abs(expected) +
                                 epsilon_of(worked_in) * static_cast<double>(size);
        EXPECT_NEAR(out[r], expected, tolerance)
            << describe(op, in_dtype, out_dtype, size);
      }
    }
  });
}

TEST(Rows, TypesWithoutAKernelAreRefused) {
  EXPECT_FALSE(can_reduce(Reduce::kMean, DType::kInt32, DType::kInt64));
  EXPECT_FALSE(can_reduce(Reduce::kSum, DType::kFloat32, DType::kFloat16));
  EXPECT_FALSE(can_reduce(Reduce::kSum, DType::kComplex64, DType::kComplex64));
  EXPECT_FALSE(can_reduce(Reduce::kAmax, DType::kInt8, DType::kInt64));
  EXPECT_FALSE(can_reduce(Reduce::kAny, DType::kFloat32, DType::kFloat32));
}

TEST(Rows, CorrectionIsSubtractedFromTheCount) {
  const Elements in(DType::kFloat64, {1, 2, 3, 4});
  const auto variance = [&](double correction) {
    return reduced(Reduce::kVar, in, DType::kFloat64, rows_of(1, 4), 1, correction)[0];
  };
  EXPECT_EQ(variance(0), 1.25);
  EXPECT_EQ(variance(2), 2.5);
  EXPECT_EQ(variance(4), kInf);
}

// ------------------------------------------------------------------ law 1: layouts and
// threads
/// The layouts of one matrix [rows, size]: by rows, by columns, strided both ways.
struct Layouts {
  Elements columns;
  ReduceShape by_columns;
  Elements strided;
  ReduceShape by_stride;
  Elements strided_columns;
  ReduceShape by_strided_columns;

  Layouts(const Elements& in, int64_t rows, int64_t size)
      : columns(transposed(in, rows, size)),
        by_columns(rows_of(rows, size)),
        strided(in.dtype(), rows * size * 3 + rows * 5),
        by_stride(rows_of(rows, size)),
        strided_columns(in.dtype(), rows * size * 2),
        by_strided_columns(rows_of(rows, size)) {
    by_columns.in_strides[0] = 1;
    by_columns.in_strides[1] = rows;
    by_stride.in_strides[0] = size * 3 + 5;
    by_stride.in_strides[1] = 3;
    by_strided_columns.in_strides[0] = 2;
    by_strided_columns.in_strides[1] = 2 * rows;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < size; ++k) {
        strided.set(r * (size * 3 + 5) + k * 3, in[r * size + k]);
        strided_columns.set(2 * (k * rows + r), in[r * size + k]);
      }
    }
  }
};

TEST(Rows, LayoutsAndThreadsGiveTheSameBits) {
  for_all_types([](Reduce op, DType in_dtype, DType out_dtype) {
    for (auto [rows, size] : {std::pair<int64_t, int64_t>{37, 5}, {200, 17}, {9, 4099}}) {
      const Elements in = elements(in_dtype, rows * size, 7);
      const Layouts layouts(in, rows, size);
      const Elements expected = reduced(op, in, out_dtype, rows_of(rows, size), rows);
      for (int count : {1, 2}) {
        const Threads threads(count);
        const std::string what = describe(op, in_dtype, out_dtype, size);
        EXPECT_EQ(reduced(op, in, out_dtype, rows_of(rows, size), rows), expected)
            << what;
        EXPECT_EQ(reduced(op, layouts.columns, out_dtype, layouts.by_columns, rows),
                  expected)
            << what;
        EXPECT_EQ(reduced(op, layouts.strided, out_dtype, layouts.by_stride, rows),
                  expected)
            << what;
        EXPECT_EQ(reduced(op, layouts.strided_columns, out_dtype,
                          layouts.by_strided_columns, rows),
                  expected)
            << what;
      }
    }
  });
}

TEST(Rows, LargeReductionsDoNotDependOnThreads) {
  for (Reduce op : {Reduce::kSum, Reduce::kStd, Reduce::kAmax, Reduce::kArgmax}) {
    const DType out = op == Reduce::kArgmax ? DType::kInt64 : DType::kFloat32;
    for (auto [rows, size] :
         {std::pair<int64_t, int64_t>{1, 300001}, {2, 99999}, {30, 20000}}) {
      const Elements in = elements(DType::kFloat32, rows * size, 11);
      const Layouts layouts(in, rows, size);
      std::vector<Elements> results;
      for (int count : {1, 2, 3}) {
        const Threads threads(count);
        results.push_back(reduced(op, in, out, rows_of(rows, size), rows));
        results.push_back(reduced(op, layouts.columns, out, layouts.by_columns, rows));
      }
      for (const Elements& result : results) EXPECT_EQ(result, results[0]);
    }
  }
}

TEST(Rows, ABroadcastInputGivesTheBitsOfItsCopy) {
  const int64_t rows = 20, size = 5000;
  const Elements one = elements(DType::kFloat32, size);
  Elements copies(DType::kFloat32, rows * size);
  for (int64_t i = 0; i < rows * size; ++i) copies.set(i, one[i % size]);
  ReduceShape shape = rows_of(rows, size);
  shape.in_strides[0] = 0;
  for (Reduce op : {Reduce::kSum, Reduce::kVar}) {
    EXPECT_EQ(reduced(op, one, DType::kFloat32, shape, rows),
              reduced(op, copies, DType::kFloat32, rows_of(rows, size), rows));
  }
  // The same number `size` times, from one element a row.
  for (int64_t i = 0; i < rows * size; ++i) copies.set(i, one[i / size]);
  shape.in_strides[0] = 1;
  shape.in_strides[1] = 0;
  EXPECT_EQ(reduced(Reduce::kSum, one, DType::kFloat32, shape, rows),
            reduced(Reduce::kSum, copies, DType::kFloat32, rows_of(rows, size), rows));
}

TEST(Rows, DimensionsMayBeMixedAndTheOutputStrided) {
  // [a, b, c, d] with b and d kept; c is the inner one of the reduced.
  const int64_t a = 6, b = 9, c = 35, d = 24;
  const Elements in = elements(DType::kFloat32, a * b * c * d);
  ReduceShape shape;
  shape.num_kept = shape.num_reduced = 2;
  const int64_t sizes[] = {b, d, a, c};
  const int64_t strides[] = {c * d, 1, b * c * d, d};
  std::copy_n(sizes, 4, shape.sizes);
  std::copy_n(strides, 4, shape.in_strides);
  shape.out_strides[0] = 3;
  shape.out_strides[1] = 3 * b;
  Elements copy(DType::kFloat32, in.size());
  for (int64_t i = 0; i < in.size(); ++i) {
    const int64_t at[] = {i / (b * c * d), i / (c * d) % b, i / d % c, i % d};
    copy.set(((at[1] * d + at[3]) * a + at[0]) * c + at[2], in[i]);
  }
  for (Reduce op : {Reduce::kSum, Reduce::kVar, Reduce::kArgmin, Reduce::kAmax}) {
    const DType out = op == Reduce::kArgmin ? DType::kInt64 : DType::kFloat32;
    const Elements expected = reduced(op, copy, out, rows_of(b * d, a * c), b * d);
    const Elements result = reduced(op, in, out, shape, 3 * b * d);
    for (int64_t i = 0; i < b * d; ++i) {
      EXPECT_EQ(result[3 * (i / d) + 3 * b * (i % d)], expected[i]);
    }
  }
}

TEST(Rows, ReducedDimensionsThatDoNotMergeKeepTheirOrder) {
  // [a, b, c] with a and c reduced: rows of b are pieces of c elements.
  const int64_t a = 70, b = 3, c = 65;
  const Elements in = elements(DType::kBFloat16, a * b * c);
  ReduceShape shape;
  shape.num_kept = 1;
  shape.num_reduced = 2;
  const int64_t sizes[] = {b, a, c};
  const int64_t strides[] = {c, b * c, 1};
  std::copy_n(sizes, 3, shape.sizes);
  std::copy_n(strides, 3, shape.in_strides);
  shape.out_strides[0] = 1;
  Elements copy(DType::kBFloat16, in.size());
  for (int64_t i = 0; i < in.size(); ++i) {
    copy.set((i / c % b * a + i / (b * c)) * c + i % c, in[i]);
  }
  EXPECT_EQ(reduced(Reduce::kSum, in, DType::kFloat32, shape, b),
            reduced(Reduce::kSum, copy, DType::kFloat32, rows_of(b, a * c), b));
}

// ------------------------------------------------------------------ edges
TEST(Rows, NothingReducedGivesTheIdentity) {
  for (int64_t rows : {1, 40}) {
    const Elements in(DType::kFloat32, 0);
    const auto value = [&](Reduce op, DType out) {
      return reduced(op, in, out, rows_of(rows, 0), rows)[rows - 1];
    };
    EXPECT_EQ(value(Reduce::kSum, DType::kFloat32), 0);
    EXPECT_TRUE(std::isnan(value(Reduce::kMean, DType::kFloat32)));
    EXPECT_TRUE(std::isnan(value(Reduce::kVar, DType::kFloat32)));
    EXPECT_EQ(value(Reduce::kProd, DType::kFloat32), 1);
    EXPECT_EQ(value(Reduce::kNorm2, DType::kFloat32), 0);
    EXPECT_EQ(value(Reduce::kNormInf, DType::kFloat32), 0);
    EXPECT_EQ(value(Reduce::kAny, DType::kBool), 0);
    EXPECT_EQ(value(Reduce::kAll, DType::kBool), 1);
  }
}

TEST(Rows, NoRowsWriteNothing) {
  const Elements in(DType::kFloat32, 0);
  for (int64_t size : {0, 5}) {
    EXPECT_EQ(reduced(Reduce::kSum, in, DType::kFloat32, rows_of(0, size), 0).size(), 0);
    EXPECT_EQ(reduced(Reduce::kAmax, in, DType::kFloat32, rows_of(0, size), 0).size(), 0);
  }
}

TEST(Rows, AScalarIsARowOfOneElement) {
  ReduceShape shape;
  const Elements in(DType::kFloat32, std::vector<double>{-3});
  EXPECT_EQ(reduced(Reduce::kNorm2, in, DType::kFloat32, shape, 1)[0], 3);
  EXPECT_EQ(reduced(Reduce::kArgmax, in, DType::kInt64, shape, 1)[0], 0);
  EXPECT_TRUE(std::isnan(reduced(Reduce::kVar, in, DType::kFloat32, shape, 1)[0]));
}

TEST(Rows, NanIsPreservedAndTheFirstWins) {
  for (DType dtype : kFloats) {
    for (int64_t size : {3, 130, 5000}) {
      for (int64_t rows : {1, 20}) {
        Elements in = elements(dtype, rows * size);
        const int64_t first = size - 2;
        for (int64_t r = 0; r < rows; ++r) {
          in.set(r * size, kInf);
          in.set(r * size + first, kNan);
          in.set(r * size + size - 1, kNan);
        }
        const Layouts layouts(in, rows, size);
        for (Reduce op : {Reduce::kAmax, Reduce::kAmin, Reduce::kSum, Reduce::kNormInf}) {
          EXPECT_TRUE(
              std::isnan(reduced(op, in, dtype, rows_of(rows, size), rows)[rows - 1]));
          EXPECT_TRUE(std::isnan(
              reduced(op, layouts.columns, dtype, layouts.by_columns, rows)[rows - 1]));
        }
        for (Reduce op : {Reduce::kArgmax, Reduce::kArgmin}) {
          EXPECT_EQ(reduced(op, in, DType::kInt64, rows_of(rows, size), rows)[rows - 1],
                    first);
          EXPECT_EQ(reduced(op, layouts.columns, DType::kInt64, layouts.by_columns,
                            rows)[rows - 1],
                    first);
        }
      }
    }
  }
}

TEST(Rows, InfinitiesAddUp) {
  const Elements in(DType::kFloat16, {kInf, 1, kInf, -kInf, kInf, 2});
  const Elements sums = reduced(Reduce::kSum, in, DType::kFloat16, rows_of(2, 3), 2);
  EXPECT_EQ(sums[0], kInf);
  EXPECT_TRUE(std::isnan(sums[1]));
}

TEST(Rows, OfEqualZerosTheFirstIsTheLargest) {
  for (int64_t size : {33, 5000}) {
    Elements in(DType::kFloat32, 20 * size);
    for (int64_t i = 0; i < in.size(); ++i) {
      const int64_t k = i % size;
      in.set(i, k < 8 ? -1 : (k % 2 == 0 ? -0.0 : 0.0));  // element 8 is -0
    }
    const Layouts layouts(in, 20, size);
    const auto result =
        reduced(Reduce::kAmax, in, DType::kFloat32, rows_of(20, size), 20);
    EXPECT_TRUE(std::signbit(result[0]));
    EXPECT_EQ(
        reduced(Reduce::kAmax, layouts.columns, DType::kFloat32, layouts.by_columns, 20),
        result);
  }
}

TEST(Rows, ExtremesComeWithTheirFirstIndex) {
  for (const auto& dtypes : {kFloats, kIntegers}) {
    for (DType dtype : dtypes) {
      for (bool is_max : {true, false}) {
        const int64_t rows = 30, size = 4200;
        Elements in = elements(dtype, rows * size, 5);
        const Layouts layouts(in, rows, size);
        Elements out(dtype, rows), column_out(dtype, rows);
        std::vector<int64_t> idx(rows), column_idx(rows);
        reduce_with_index(is_max, dtype, in.data(), out.data(), idx.data(),
                          rows_of(rows, size));
        reduce_with_index(is_max, dtype, layouts.columns.data(), column_out.data(),
                          column_idx.data(), layouts.by_columns);
        EXPECT_EQ(out, column_out);
        EXPECT_EQ(idx, column_idx);
        for (int64_t r = 0; r < rows; ++r) {
          const auto row = row_as<double>(in, r, size);
          EXPECT_EQ(idx[r],
                    reference(is_max ? Reduce::kArgmax : Reduce::kArgmin, row, 0));
          EXPECT_EQ(out[r], row[idx[r]]);
        }
      }
    }
  }
}

TEST(Rows, SixteenBitTypesConvertExactly) {
  // A row of one element: every half there and back, and floats to halves by rounding.
  std::vector<double> all;
  for (int bits = 0; bits < 65536; ++bits)
    all.push_back(half_value(static_cast<uint16_t>(bits)));
  const int64_t count = static_cast<int64_t>(all.size());
  const Elements halves(DType::kFloat16, all);
  const Elements wide =
      reduced(Reduce::kAmax, halves, DType::kFloat32, rows_of(count, 1), count);
  const Elements back =
      reduced(Reduce::kAmax, halves, DType::kFloat16, rows_of(count, 1), count);
  for (int64_t i = 0; i < count; ++i) {
    if (std::isnan(all[i])) {
      EXPECT_TRUE(std::isnan(wide[i]) && std::isnan(back[i]));
    } else {
      EXPECT_EQ(wide[i], all[i]);
      EXPECT_EQ(back[i], all[i]);
    }
  }
}

TEST(Rows, SumsRoundToNearestEvenOnce) {
  // Pairs whose float sum lies anywhere between two neighbours of the type.
  for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    std::vector<double> pairs;
    for (const double x : numbers(20000, 17)) {
      const double scale = std::ldexp(1, static_cast<int>(pairs.size() / 2 % 36) - 26);
      pairs.push_back(x * scale);
      pairs.push_back(x * x * scale * 0.03);
    }
    const Elements in(dtype, pairs);
    const int64_t rows = in.size() / 2;
    Elements expected(dtype, rows);
    for (int64_t r = 0; r < rows; ++r) {
      expected.set(r, static_cast<float>(in[2 * r]) + static_cast<float>(in[2 * r + 1]));
    }
    EXPECT_EQ(reduced(Reduce::kSum, in, dtype, rows_of(rows, 2), rows), expected);
  }
  const Elements large(DType::kFloat16, {65504, 15, 65504, 16, 65504, 65504});
  const Elements sums = reduced(Reduce::kSum, large, DType::kFloat16, rows_of(3, 2), 3);
  EXPECT_EQ(sums.values(), (std::vector<double>{65504, kInf, kInf}));
}

}  // namespace
}  // namespace neuron::fusion
