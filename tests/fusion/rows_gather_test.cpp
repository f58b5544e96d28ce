// Rows picked by index and rows added by index, against loops.
#include <gtest/gtest.h>

#include <string>

#include "fusion/kernels/rows.h"
#include "fusion/rows_elements.h"

namespace neuron::fusion {
namespace {

RowTable table_of(Elements& elements, int64_t width) {
  return {elements.data(), elements.size() / width, width, bytes_of(elements.dtype())};
}

/// Indices of a fixed sequence below `extent`, many of them twice.
Elements indices_of(DType dtype, int64_t count, int64_t extent) {
  Elements result(dtype, count);
  for (int64_t i = 0; i < count; ++i) {
    result.set(i, static_cast<double>((i * 7919 + 13) % extent));
  }
  return result;
}

const std::vector<DType> kIndexTypes = {DType::kInt32, DType::kInt64};

TEST(RowsGather, PicksRows) {
  for (DType dtype : {DType::kUInt8, DType::kFloat16, DType::kFloat32, DType::kInt64}) {
    for (DType index_type : kIndexTypes) {
      for (const int64_t width : {1, 5, 300}) {
        const int64_t extent = 37, count = 700;
        Elements table = elements(dtype, extent * width, 3);
        const Elements index = indices_of(index_type, count, extent);
        Elements out(dtype, count * width);
        const RowIndices indices{index.data(), index_type, count};
        ASSERT_TRUE(gather_rows(table_of(table, width), indices, out.data()).is_ok());
        for (int64_t i = 0; i < count * width; ++i) {
          const auto row = static_cast<int64_t>(index[i / width]);
          ASSERT_EQ(out[i], table[row * width + i % width]);
        }
      }
    }
  }
}

Elements scattered(RowUpdate update, const Elements& before, const Elements& rows,
                   const RowIndices& indices, int64_t width) {
  Elements table = before;
  const Status status =
      scatter_rows(update, rows.dtype(), rows.data(), indices, table_of(table, width));
  EXPECT_TRUE(status.is_ok());
  return table;
}

TEST(RowsScatter, UpdatesRowsInTheOrderOfTheIndicesOnAnyNumberOfThreads) {
  const int64_t extent = 37, count = 900;
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (const int64_t width : {1, 5, 300}) {
      const Elements rows = elements(dtype, count * width, 5);
      const Elements before = elements(dtype, extent * width, 7);
      const Elements index = indices_of(DType::kInt64, count, extent);
      const RowIndices indices{index.data(), DType::kInt64, count, false, 4};
      for (RowUpdate update :
           {RowUpdate::kAddToZero, RowUpdate::kAdd, RowUpdate::kAssign}) {
        Elements want = before;
        if (update == RowUpdate::kAddToZero) {
          for (int64_t i = 0; i < want.size(); ++i) want.set(i, 0);
        }
        for (int64_t i = 0; i < count; ++i) {
          const auto row = static_cast<int64_t>(index[i]);
          if (row == 4) continue;
          for (int64_t k = 0; k < width; ++k) {
            const int64_t at = row * width + k;
            const double x = rows[i * width + k];
            want.set(at, update == RowUpdate::kAssign ? x : want[at] + x);
          }
        }
        for (const int count_of_threads : {1, 2, 7}) {
          const Threads threads(count_of_threads);
          EXPECT_EQ(scattered(update, before, rows, indices, width), want);
        }
      }
    }
  }
}

TEST(RowsGather, NegativeIndicesCountFromTheEndWhereTheyMay) {
  Elements table(DType::kFloat32, std::vector<double>{10, 11, 12});
  const Elements index(DType::kInt64, std::vector<double>{-1, 0, -3});
  Elements out(DType::kFloat32, 3);
  RowIndices indices{index.data(), DType::kInt64, 3, true};
  ASSERT_TRUE(gather_rows(table_of(table, 1), indices, out.data()).is_ok());
  EXPECT_EQ(out.values(), (std::vector<double>{12, 10, 10}));
  indices.wraps = false;
  const Status status = gather_rows(table_of(table, 1), indices, out.data());
  EXPECT_EQ(status.error()->message, "index out of range in self");
  EXPECT_EQ(out.values(), (std::vector<double>{12, 10, 10}));
}

TEST(RowsGather, SaysWhichIndexIsOutOfBounds) {
  Elements table(DType::kFloat32, std::vector<double>{10, 11, 12});
  const Elements index(DType::kInt64, std::vector<double>{2, 3});
  Elements out(DType::kFloat32, 2);
  const RowIndices indices{index.data(), DType::kInt64, 2, true};
  EXPECT_EQ(gather_rows(table_of(table, 1), indices, out.data()).error()->message,
            "index 3 is out of bounds for dimension 0 with size 3");
  EXPECT_EQ(scatter_rows(RowUpdate::kAdd, DType::kFloat32, out.data(), indices,
                         table_of(table, 1))
                .error()->message,
            "index 3 is out of bounds for dimension 0 with size 3");
  EXPECT_EQ(table.values(), (std::vector<double>{10, 11, 12}));
}

}  // namespace
}  // namespace neuron::fusion
