// Matrix products: what is packed, in which order tiles are computed, and by whom.
//
// The output is cut into tiles of up to TileFns::max_rows rows and two vectors of columns
// (four if the product has few rows). A tile wants a of its rows and b of its columns as
// panels, where one step of k follows the other. There are three ways to get there:
//
//  - Strips: a thread goes down whole columns of tiles. It reads b where it is if its
//  rows
//    are dense and few tiles read them, else it packs one panel at a time, which stays in
//    the first cache. For small products, thin ones and stacks of matrices.
//  - Grid: all threads pack all panels, then all threads compute blocks of tiles. Each
//    panel is packed once, and no thread waits for another but at the two ends. For large
//    products, in chunks whose panels fit the last cache.
//  - Split: all threads compute blocks of k of a small output into scratch, which is then
//    summed in order. For a small output and a long k.
//
// A product with very few columns is computed as its transpose, so that the vectors run
// along its rows.
//
// Laws:
//  1. Whatever is chosen, the bits are those of the law in matmul.h: a tile goes through
//  the blocks of k in order, and its chains are those of matmul_fns.cpp.
//  2. Pieces of parallel work never call parallel_for, so one scratch a thread is enough
//  for all pieces, and one more for the call that handed them out.
#include "fusion/kernels/matmul.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/parallel.h"
#include "fusion/kernels/matmul_table.h"

extern "C" const void* neuron_matmul_table_avx2();
extern "C" const void* neuron_matmul_table_avx512();

namespace neuron::fusion {
namespace {

// Multiply-adds of a piece that is worth another thread: about 8 us on one core.
constexpr int64_t kWorkOfPiece = int64_t{1} << 19;
// Multiply-adds from which a matrix of a stack is computed by all threads.
constexpr int64_t kLargeMatrix = int64_t{1} << 23;
// Panels that are packed at once, in elements: 4 MiB of float32.
constexpr int64_t kMaxPacked = int64_t{1} << 20;
constexpr int64_t kMaxExtent = 4096;  // rows or columns of a chunk
// Up to which number of column panels rows of a are read where they are, and up to which
// extent in memory, in elements, columns of a and rows of b are.
constexpr int64_t kFewPanels = 12;
constexpr int64_t kNearColumns = 8192;
constexpr int64_t kNearRows = 131072;

int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

// Memory of a thread that grows and is kept.
class Scratch {
 public:
  template <class T>
  T* get(int64_t count) {
    const auto bytes = static_cast<size_t>(count) * sizeof(T);
    if (bytes > size_) {
      bytes_.reset();
      bytes_.reset(static_cast<std::byte*>(::operator new(bytes, kAlignment)));
      size_ = bytes;
    }
    return reinterpret_cast<T*>(bytes_.get());
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete(bytes, kAlignment); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  size_t size_ = 0;
};

Scratch& scratch_of_piece() {
  static thread_local Scratch scratch;
  return scratch;
}
Scratch& scratch_of_call() {
  static thread_local Scratch scratch;
  return scratch;
}

template <class T>
constexpr int64_t kBlock =
    matmul_block(sizeof(T) == sizeof(float) ? ir::DType::kFloat32 : ir::DType::kFloat64);

template <class T>
struct View {
  const T* data = nullptr;
  int64_t row = 0;
  int64_t column = 0;
  const T* at(int64_t i, int64_t j) const { return data + i * row + j * column; }
};

// A dimension cut into panels of nearly equal size: a small one would waste the most.
struct Panels {
  Panels() = default;
  Panels(int64_t total, int64_t of, int64_t most) : size(total), unit(of) {
    const int64_t units = ceil_div(total, of);
    count = ceil_div(units, most);
    least = units / count;
    extra = units - least * count;
  }
  int64_t first(int64_t panel) const {
    return std::min(size, (panel * least + std::min(panel, extra)) * unit);
  }
  int64_t length(int64_t panel) const { return first(panel + 1) - first(panel); }

  int64_t size = 0;
  int64_t unit = 1;
  int64_t count = 0;
  int64_t least = 0;  // units of a panel; the first `extra` have one more
  int64_t extra = 0;
};

// A product of two matrices, or a part of one.
template <class T>
struct Product {
  const TileFns* fns;
  int64_t m;
  int64_t n;
  int64_t k;
  View<T> a;
  View<T> b;
  T* out;
  int64_t out_row;
  const T* addend;
  int64_t addend_row;
  Panels rows;
  Panels columns;
  bool is_transposed = false;  // out and addend are those of the transpose

  // To be called when m and n are known.
  void divide() {
    rows = Panels(m, 1, fns->max_rows);
    columns = Panels(n, fns->lanes, TileFns::kMaxVectors);
  }
  int64_t work() const { return m * n * k; }
  // Whole vectors, so that packed rows are aligned.
  int64_t pitch_of(int64_t width) const {
    return (width + fns->lanes - 1) & -int64_t{fns->lanes};
  }
  // Whether tiles may read a (b) where it is. A copy pays when many tiles read the same
  // panel, and the more the wider its steps of k are apart.
  bool reads_a() const {
    if (a.column == 1) return columns.count <= kFewPanels;
    if (a.row != 1 && m != 1) return false;
    return columns.count == 1 || k * a.column <= kNearColumns;
  }
  bool reads_b() const {
    return (b.column == 1 || n == 1) && (rows.count <= 4 || k * b.row <= kNearRows);
  }
};

// dst[i * pitch + j] = src[i * step + j * line] for j < lines, i < k.
template <class T>
void pack(const TileFns& fns, const T* src, int64_t line, int64_t step, int64_t lines,
          int64_t k, T* dst, int64_t pitch) {
  if (line == 1 || lines == 1) {
    fns.copy(src, step, lines, k, dst, pitch);
  } else if (step == 1) {
    fns.transpose(src, line, lines, k, dst, pitch);
  } else {
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < lines; ++j) dst[i * pitch + j] = src[i * step + j * line];
    }
  }
}

// The panel of rows `panel` in the block of k at `k0`: as it is, or packed.
template <class T>
void pack_rows(const Product<T>& p, int64_t panel, int64_t k0, int64_t length, T* dst) {
  const int64_t row = p.rows.first(panel);
  const int64_t rows = p.rows.length(panel);
  pack(*p.fns, p.a.at(row, k0), p.a.row, p.a.column, rows, length, dst, rows);
}
template <class T>
void pack_columns(const Product<T>& p, int64_t panel, int64_t k0, int64_t length,
                  T* dst) {
  const int64_t column = p.columns.first(panel);
  const int64_t columns = p.columns.length(panel);
  pack(*p.fns, p.b.at(k0, column), p.b.column, p.b.row, columns, length, dst,
       p.pitch_of(columns));
}

// The packed panels of a block of k follow each other, without gaps.
template <class T>
T* packed_rows(const Product<T>& p, T* packed, int64_t panel, int64_t k0,
               int64_t length) {
  return packed + k0 * p.m + p.rows.first(panel) * length;
}

// One block of k of the tiles in a column of tiles.
template <class T>
struct TileColumn {
  const Product<T>* product;
  T* packed_a;  // null: a is read where it is
  Tile tile;    // but for a, c and addend, which depend on the row
  T* out;
  int64_t column;

  void run(int64_t k0, int64_t first_panel, int64_t last_panel) {
    const Product<T>& p = *product;
    const bool has_addend = p.addend != nullptr && !p.is_transposed && k0 + tile.k == p.k;
    const int64_t lanes = p.fns->lanes;
    const int vectors = 1 + (tile.columns > lanes) + (tile.columns > 2 * lanes);
    const bool is_along_rows = packed_a != nullptr || p.a.column != 1;
    const TileFn* fns = p.fns->tiles[is_along_rows ? 1 : 0][vectors - 1];
    tile.accumulates = k0 > 0;
    tile.c_stride = p.is_transposed ? tile.columns : p.out_row;
    tile.addend_stride = p.addend_row;
    for (int64_t panel = first_panel; panel < last_panel; ++panel) {
      const int64_t row = p.rows.first(panel);
      const int64_t rows = p.rows.length(panel);
      if (packed_a != nullptr) {
        tile.a = packed_rows(p, packed_a, panel, k0, tile.k);
        tile.a_stride = rows;
      } else {
        tile.a = p.a.at(row, k0);
        tile.a_stride = is_along_rows ? p.a.column : p.a.row;
      }
      tile.c = out + row * tile.c_stride;
      tile.addend = has_addend ? p.addend + row * p.addend_row + column : nullptr;
      fns[rows](tile);
    }
  }
};

// ------------------------------------------------------------------ strips
// How a product is computed column by column of tiles.
template <class T>
struct Strips {
  explicit Strips(const Product<T>& product) : p(product) {
    reads_b = p.reads_b();
    packs_a = !p.reads_a();
  }
  int64_t count() const { return p.columns.count; }
  int64_t widest() const { return int64_t{TileFns::kMaxVectors} * p.fns->lanes; }
  int64_t packed_a_size() const { return packs_a ? p.m * p.k : 0; }
  int64_t scratch_size() const {
    return (reads_b ? 0 : widest() * kBlock<T>)+(p.is_transposed ? p.m * widest() : 0);
  }

  void pack_a(T* packed) const {
    for (int64_t k0 = 0; k0 < p.k; k0 += kBlock<T>) {
      const int64_t length = std::min(kBlock<T>, p.k - k0);
      for (int64_t panel = 0; panel < p.rows.count; ++panel) {
        pack_rows(p, panel, k0, length, packed_rows(p, packed, panel, k0, length));
      }
    }
  }

  void run(int64_t strip, T* packed_a, T* scratch) const {
    TileColumn<T> tiles;
    tiles.product = &p;
    tiles.packed_a = packed_a;
    tiles.column = p.columns.first(strip);
    tiles.tile.columns = p.columns.length(strip);
    T* transposed = scratch + (reads_b ? 0 : widest() * kBlock<T>);
    tiles.out = p.is_transposed ? transposed : p.out + tiles.column;
    for (int64_t k0 = 0; k0 < p.k; k0 += kBlock<T>) {
      tiles.tile.k = std::min(kBlock<T>, p.k - k0);
      if (reads_b) {
        tiles.tile.b = p.b.at(k0, tiles.column);
        tiles.tile.b_stride = p.b.row;
      } else {
        pack_columns(p, strip, k0, tiles.tile.k, scratch);
        tiles.tile.b = scratch;
        tiles.tile.b_stride = p.pitch_of(tiles.tile.columns);
      }
      tiles.run(k0, 0, p.rows.count);
    }
    if (p.is_transposed) store_transposed(transposed, tiles.column, tiles.tile.columns);
  }

  void store_transposed(const T* tile, int64_t column, int64_t columns) const {
    for (int64_t j = 0; j < columns; ++j) {
      T* out = p.out + (column + j) * p.out_row;
      for (int64_t i = 0; i < p.m; ++i) {
        out[i] = tile[i * columns + j];
        if (p.addend != nullptr) out[i] += p.addend[(column + j) * p.addend_row + i];
      }
    }
  }

  Product<T> p;
  bool reads_b;
  bool packs_a;
};

// All of it by the calling thread.
template <class T>
void run_here(const Product<T>& product) {
  const Strips<T> strips(product);
  const int64_t packed_size = strips.packed_a_size();
  T* scratch = scratch_of_piece().get<T>(packed_size + strips.scratch_size());
  T* packed_a = strips.packs_a ? scratch : nullptr;
  if (strips.packs_a) strips.pack_a(packed_a);
  for (int64_t i = 0; i < strips.count(); ++i) {
    strips.run(i, packed_a, scratch + packed_size);
  }
}

template <class T>
void run_strips(const Product<T>& product) {
  const Strips<T> strips(product);
  T* packed_a = nullptr;
  if (strips.packs_a) {
    packed_a = scratch_of_call().get<T>(strips.packed_a_size());
    strips.pack_a(packed_a);
  }
  const int64_t work = product.work() / strips.count();
  parallel_for(strips.count(), std::max<int64_t>(1, kWorkOfPiece / work),
               [&](int64_t begin, int64_t end) {
                 T* scratch = scratch_of_piece().get<T>(strips.scratch_size());
                 for (int64_t i = begin; i < end; ++i) strips.run(i, packed_a, scratch);
               });
}

// ------------------------------------------------------------------ grid
// A chunk of a large product: its panels are packed together.
template <class T>
class Grid {
 public:
  Grid(const Product<T>& product, int64_t k_begin, int64_t k_end)
      : p_(product), k_begin_(k_begin), k_end_(k_end) {
    const int64_t length = k_end - k_begin;
    packs_a_ = !p_.reads_a();
    packs_b_ = !p_.reads_b();
    padded_n_ = p_.pitch_of(p_.n);
    const int64_t size_a = packs_a_ ? p_.pitch_of(p_.m) * length : 0;
    T* packed = scratch_of_call().get<T>(size_a + (packs_b_ ? padded_n_ * length : 0));
    packed_a_ = packs_a_ ? packed - k_begin * p_.m : nullptr;
    packed_b_ = packed + size_a;
  }

  void run() {
    const int64_t row_panels = p_.rows.count;
    const int64_t column_panels = p_.columns.count;
    const int64_t rows_to_pack = packs_a_ ? row_panels : 0;
    const int64_t columns_to_pack = packs_b_ ? column_panels : 0;
    parallel_for(rows_to_pack + columns_to_pack, 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        i < rows_to_pack ? pack_row_panel(i) : pack_column_panel(i - rows_to_pack);
      }
    });
    const int64_t columns = ceil_div(column_panels, ceil_div(column_panels, 12));
    const int64_t across = ceil_div(column_panels, columns);
    const int64_t rows = std::clamp<int64_t>(row_panels * across / 8, 1, 24);
    parallel_for(across * ceil_div(row_panels, rows), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        run_block(i / across * rows, rows, i % across * columns, columns);
      }
    });
  }

 private:
  T* columns_at(int64_t k0, int64_t length, int64_t panel) const {
    return packed_b_ + (k0 - k_begin_) * padded_n_ + p_.columns.first(panel) * length;
  }
  template <class Body>
  void for_blocks(const Body& body) const {
    for (int64_t k0 = k_begin_; k0 < k_end_; k0 += kBlock<T>) {
      body(k0, std::min(kBlock<T>, k_end_ - k0));
    }
  }

  void pack_row_panel(int64_t panel) const {
    for_blocks([&](int64_t k0, int64_t length) {
      pack_rows(p_, panel, k0, length, packed_rows(p_, packed_a_, panel, k0, length));
    });
  }
  void pack_column_panel(int64_t panel) const {
    for_blocks([&](int64_t k0, int64_t length) {
      pack_columns(p_, panel, k0, length, columns_at(k0, length, panel));
    });
  }

  void run_block(int64_t row, int64_t rows, int64_t column, int64_t columns) const {
    const int64_t last_row = std::min(row + rows, p_.rows.count);
    const int64_t last_column = std::min(column + columns, p_.columns.count);
    // A panel of rows stays in the first cache while those of columns go by.
    for_blocks([&](int64_t k0, int64_t length) {
      for (int64_t i = row; i < last_row; ++i) {
        for (int64_t j = column; j < last_column; ++j) run_tile(i, j, k0, length);
      }
    });
  }

  void run_tile(int64_t row, int64_t panel, int64_t k0, int64_t length) const {
    TileColumn<T> tiles;
    tiles.product = &p_;
    tiles.packed_a = packed_a_;
    tiles.column = p_.columns.first(panel);
    tiles.tile.columns = p_.columns.length(panel);
    tiles.tile.k = length;
    if (packs_b_) {
      tiles.tile.b = columns_at(k0, length, panel);
      tiles.tile.b_stride = p_.pitch_of(tiles.tile.columns);
    } else {
      tiles.tile.b = p_.b.at(k0, tiles.column);
      tiles.tile.b_stride = p_.b.row;
    }
    tiles.out = p_.out + tiles.column;
    tiles.run(k0, row, row + 1);
  }

  Product<T> p_;
  int64_t k_begin_;
  int64_t k_end_;
  int64_t padded_n_;
  bool packs_a_;
  bool packs_b_;
  T* packed_a_;  // as if of the whole k
  T* packed_b_;
};

template <class T>
void run_grid(const Product<T>& product) {
  for (int64_t row = 0; row < product.m; row += kMaxExtent) {
    for (int64_t column = 0; column < product.n; column += kMaxExtent) {
      Product<T> part = product;
      part.m = std::min(kMaxExtent, product.m - row);
      part.n = std::min(kMaxExtent, product.n - column);
      part.divide();
      part.a.data = product.a.at(row, 0);
      part.b.data = product.b.at(0, column);
      part.out += row * part.out_row + column;
      if (part.addend != nullptr) part.addend += row * part.addend_row + column;
      const int64_t blocks =
          std::max<int64_t>(1, kMaxPacked / (part.m + part.n) / kBlock<T>);
      for (int64_t k0 = 0; k0 < part.k; k0 += blocks * kBlock<T>) {
        Grid<T>(part, k0, std::min(part.k, k0 + blocks * kBlock<T>)).run();
      }
    }
  }
}

// ------------------------------------------------------------------ split
template <class T>
void run_split(const Product<T>& product) {
  const int64_t blocks = ceil_div(product.k, kBlock<T>);
  const int64_t size = product.m * product.n;
  T* sums = scratch_of_call().get<T>(blocks * size);
  const int64_t grain = kWorkOfPiece / (size * kBlock<T>)+1;
  parallel_for(blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Product<T> part = product;
      part.k = std::min(kBlock<T>, product.k - i * kBlock<T>);
      part.a.data = product.a.at(0, i * kBlock<T>);
      part.b.data = product.b.at(i * kBlock<T>, 0);
      part.addend = nullptr;
      part.out = sums + i * size;
      part.out_row = product.is_transposed ? product.m : product.n;
      run_here(part);
    }
  });
  const int64_t rows = product.is_transposed ? product.n : product.m;
  const int64_t columns = size / rows;
  for (int64_t i = 0; i < rows; ++i) {
    T* out = product.out + i * product.out_row;
    const T* sum = sums + i * columns;
    for (int64_t j = 0; j < columns; ++j) {
      T x = sum[j];
      for (int64_t block = 1; block < blocks; ++block) x += sum[block * size + j];
      if (product.addend != nullptr) x += product.addend[i * product.addend_row + j];
      out[j] = x;
    }
  }
}

// ------------------------------------------------------------------ the choice
template <class T>
void transpose(Product<T>& p) {
  std::swap(p.m, p.n);
  const View<T> a = p.a;
  p.a = {p.b.data, p.b.column, p.b.row};
  p.b = {a.data, a.column, a.row};
  p.is_transposed = true;
}

template <class T>
void run_by_all(const Product<T>& p) {
  const int64_t tiles = p.rows.count * p.columns.count;
  if (p.work() < 2 * kWorkOfPiece) {
    run_here(p);
  } else if (tiles <= 4 && p.k >= 4 * kBlock<T>) {
    run_split(p);
  } else if (p.is_transposed || p.rows.count <= 4) {
    run_strips(p);
  } else {
    run_grid(p);
  }
}

template <class T>
void multiply(const TileFns& fns, const MatmulSizes& sizes, const Matrices& a,
              const Matrices& b, const Addend& addend, T* out) {
  const auto product_at = [&](int64_t i) {
    Product<T> p;
    p.fns = &fns;
    p.m = sizes.m;
    p.n = sizes.n;
    p.k = sizes.k;
    p.a = {static_cast<const T*>(a.data) + i * a.batch, a.row, a.column};
    p.b = {static_cast<const T*>(b.data) + i * b.batch, b.row, b.column};
    p.out = out + i * sizes.m * sizes.n;
    p.out_row = sizes.n;
    p.addend = addend.data == nullptr
                   ? nullptr
                   : static_cast<const T*>(addend.data) + i * addend.batch;
    p.addend_row = addend.row;
    if (p.n <= fns.lanes / 4 && p.m > 2 * p.n) transpose(p);
    p.divide();
    return p;
  };
  const int64_t work = sizes.m * sizes.n * sizes.k;
  if (sizes.batch == 1 || work >= kLargeMatrix) {
    for (int64_t i = 0; i < sizes.batch; ++i) run_by_all(product_at(i));
    return;
  }
  parallel_for(sizes.batch, std::max<int64_t>(1, kWorkOfPiece / work),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) run_here(product_at(i));
               });
}

// A product without steps of k is its addend, or zero.
template <class T>
void fill(const MatmulSizes& sizes, const Addend& addend, T* out) {
  for (int64_t i = 0; i < sizes.batch * sizes.m; ++i, out += sizes.n) {
    if (addend.data == nullptr) {
      std::fill_n(out, sizes.n, T{0});
    } else {
      const auto* row = static_cast<const T*>(addend.data) + i / sizes.m * addend.batch +
                        i % sizes.m * addend.row;
      for (int64_t j = 0; j < sizes.n; ++j) out[j] = T{0} + row[j];
    }
  }
}

template <class T>
void multiply_or_fill(const TileFns& fns, const MatmulSizes& sizes, const Matrices& a,
                      const Matrices& b, const Addend& addend, void* out) {
  if (sizes.batch == 0 || sizes.m == 0 || sizes.n == 0) return;
  if (sizes.k == 0) {
    fill(sizes, addend, static_cast<T*>(out));
  } else {
    multiply(fns, sizes, a, b, addend, static_cast<T*>(out));
  }
}

}  // namespace

const MatmulTable& matmul_table() {
  static const auto* table = static_cast<const MatmulTable*>([] {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) {
      return neuron_matmul_table_avx512();
    }
    NEURON_CHECK(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
                 "the simulator needs a processor with AVX2 and FMA");
    return neuron_matmul_table_avx2();
  }());
  return *table;
}

void matmul_with(const MatmulTable& table, ir::DType dtype, const MatmulSizes& sizes,
                 const Matrices& a, const Matrices& b, const Addend& addend, void* out) {
  if (dtype == ir::DType::kFloat32) {
    multiply_or_fill<float>(table.f32, sizes, a, b, addend, out);
  } else {
    NEURON_CHECK(dtype == ir::DType::kFloat64, "a product of a type without a kernel");
    multiply_or_fill<double>(table.f64, sizes, a, b, addend, out);
  }
}

void matmul(ir::DType dtype, const MatmulSizes& sizes, const Matrices& a,
            const Matrices& b, const Addend& addend, void* out) {
  matmul_with(matmul_table(), dtype, sizes, a, b, addend, out);
}

}  // namespace neuron::fusion
