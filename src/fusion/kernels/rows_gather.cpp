// Rows of a table picked by index, and rows added to a table or written into it.
//
// Rows of the table are shared out among the threads, and each thread goes through all
// indices in order: so the order of what meets in one row is that of the indices,
// whatever the number of threads.
#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/parallel.h"
#include "fusion/kernels/rows.h"
#include "fusion/kernels/rows_float.h"
#include "fusion/kernels/rows_tree.h"

namespace neuron::fusion {
namespace {

template <class Body>
void with_indices(const RowIndices& indices, const Body& body) {
  if (indices.dtype == ir::DType::kInt32) {
    body(static_cast<const int32_t*>(indices.data));
  } else {
    body(static_cast<const int64_t*>(indices.data));
  }
}

Status check(const RowIndices& indices, int64_t extent) {
  Status status;
  with_indices(indices, [&](const auto* index) {
    const int64_t least = indices.wraps ? -extent : 0;
    for (int64_t i = 0; i < indices.count; ++i) {
      if (index[i] >= least && index[i] < extent) continue;
      status = Status(ErrorKind::kIndex,
                      indices.wraps ? "index " + std::to_string(index[i]) +
                                          " is out of bounds for dimension 0 with size " +
                                          std::to_string(extent)
                                    : std::string("index out of range in self"));
      return;
    }
  });
  return status;
}

inline int64_t row_of(int64_t index, int64_t extent) {
  return index < 0 ? index + extent : index;
}

template <class T>
void add_row(const T* from, int64_t width, T* to) {
  for (int64_t k = 0; k < width; ++k) to[k] = narrow<T>(one_nan(to[k] + from[k]));
}

/// Calls body(i, row) for the indices, in order, that lead to rows begin .. end.
template <class Body>
void each_index(const RowIndices& indices, int64_t extent, int64_t begin, int64_t end,
                const Body& body) {
  with_indices(indices, [&](const auto* index) {
    for (int64_t i = 0; i < indices.count; ++i) {
      const int64_t row = row_of(index[i], extent);
      if (row >= begin && row < end && index[i] != indices.skipped) body(i, row);
    }
  });
}

/// Calls body(begin, end) for at most four ranges of rows, each of which costs a look at
/// all indices.
template <class Body>
void share_rows(const RowTable& table, int64_t count, const Body& body) {
  const int64_t work = (table.extent + count) * table.width;
  const int64_t grain = work < 2 * kGrain ? table.extent : (table.extent + 3) / 4;
  parallel_for(table.extent, std::max<int64_t>(grain, 1), body);
}

}  // namespace

Status gather_rows(const RowTable& table, const RowIndices& indices, void* out) {
  const Status status = check(indices, table.extent);
  if (!status.is_ok()) return status;
  const int64_t bytes = table.width * table.itemsize;
  const auto* from = static_cast<const char*>(table.data);
  auto* to = static_cast<char*>(out);
  with_indices(indices, [&](const auto* index) {
    parallel_for(indices.count, grain_of(table.width), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(to + i * bytes, from + row_of(index[i], table.extent) * bytes, bytes);
      }
    });
  });
  return {};
}

Status scatter_rows(RowUpdate update, ir::DType dtype, const void* rows,
                    const RowIndices& indices, const RowTable& table) {
  const Status status = check(indices, table.extent);
  if (!status.is_ok()) return status;
  const int64_t bytes = table.width * table.itemsize;
  const auto* from = static_cast<const char*>(rows);
  auto* to = static_cast<char*>(table.data);
  if (update == RowUpdate::kAssign) {
    share_rows(table, indices.count, [&](int64_t begin, int64_t end) {
      each_index(indices, table.extent, begin, end, [&](int64_t i, int64_t row) {
        std::memcpy(to + row * bytes, from + i * bytes, bytes);
      });
    });
    return {};
  }
  const auto add = [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    share_rows(table, indices.count, [&](int64_t begin, int64_t end) {
      if (update == RowUpdate::kAddToZero) {
        std::memset(to + begin * bytes, 0, (end - begin) * bytes);
      }
      each_index(indices, table.extent, begin, end, [&](int64_t i, int64_t row) {
        add_row(static_cast<const T*>(rows) + i * table.width, table.width,
                static_cast<T*>(table.data) + row * table.width);
      });
    });
  };
  if (dtype == ir::DType::kFloat64) {
    add(static_cast<double*>(nullptr));
  } else {
    add(static_cast<float*>(nullptr));
  }
  return {};
}

}  // namespace neuron::fusion
