// Reductions and normalisations over rows: kernels of our own with fixed summation trees.
//
// Laws:
//  1. The result of a row depends on the row's values in logical order alone: not on
//     strides, on the number of threads or on what else is computed.
//  2. A sum over k = 0..K-1 has one tree. Lane j of 16 adds the elements k = j (mod 16)
//     of a chunk of 4096 elements in order, starting at zero; the lanes are added
//     pairwise (j and j + 8, then + 4, + 2, + 1); the sums of chunks are added in order.
//  3. float16, bfloat16 and float32 accumulate in float32; float64, and what is reduced
//  to
//     float64, accumulates in float64; the result is rounded to its storage type once.
//  4. NaN is preserved by min and max. Of equal values (also of zeros) the first index
//     wins. A result that is NaN is the positive quiet NaN without payload.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "ir/dtype.h"

namespace neuron::fusion {

enum class Reduce : uint8_t {
  kSum,
  kMean,
  kAmax,
  kAmin,
  kProd,
  kAny,
  kAll,
  kNorm2,    // sqrt of the sum of squares
  kNorm1,    // sum of magnitudes
  kNormInf,  // largest magnitude
  kVar,      // two passes; `correction` is subtracted from the count
  kStd,
  kArgmax,  // index within the reduced dimensions, row-major
  kArgmin,
};

/// The dimensions of a reduction: first those that are kept, then those that are reduced,
/// each in logical order. Strides in elements. The output is visited in the order of the
/// kept dimensions with strides of its own.
struct ReduceShape {
  static constexpr int kMaxRank = 16;
  int num_kept = 0;
  int num_reduced = 0;
  int64_t sizes[kMaxRank] = {};
  int64_t in_strides[kMaxRank] = {};
  int64_t out_strides[kMaxRank] = {};  // of the kept ones
};

/// True when `reduce` has a kernel for these types.
bool can_reduce(Reduce op, ir::DType in, ir::DType out);

/// Reduces `in` into `out`. Types: float types to the same type or to float32/float64;
/// integers and bool to int64 for kSum and kProd (which wrap), to themselves for kAmax
/// and kAmin; any of these to bool for kAny and kAll; to int64 for kArgmax and kArgmin.
/// Of nothing, sum is 0, prod 1, any false, all true, mean and variance NaN, amax the
/// least value and an index -1. Checks `can_reduce`.
void reduce(Reduce op, ir::DType in_dtype, const void* in, ir::DType out_dtype, void* out,
            const ReduceShape& shape, double correction = 1.0);

/// max or min with the index of the first extreme value; both outputs have the strides
/// `out_strides`. Types: those of kArgmax, `out` is of `dtype`.
void reduce_with_index(bool is_max, ir::DType dtype, const void* in, void* out,
                       int64_t* indices, const ReduceShape& shape);

/// A contiguous tensor seen as [outer, size, inner]: the middle dimension is normalised.
struct RowShape {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};

/// softmax and log_softmax over the middle dimension and their gradients, for the float
/// types; input and output are contiguous and of one dtype.
void softmax(bool is_log, ir::DType dtype, const void* in, void* out,
             const RowShape& shape);
void softmax_backward(bool is_log, ir::DType dtype, const void* grad, const void* out,
                      void* grad_in, const RowShape& shape);

/// Layer norm of `rows` rows of `size` contiguous elements. `weight` and `bias` may be
/// nullptr and have `size` elements of `dtype`; `mean` and `rstd` get one number a row,
/// of `stats_dtype` (that of the input or float32).
void layer_norm(ir::DType dtype, const void* in, const void* weight, const void* bias,
                double eps, int64_t rows, int64_t size, void* out, ir::DType stats_dtype,
                void* mean, void* rstd);
/// Its gradients; each of `grad_in`, `grad_weight`, `grad_bias` may be nullptr. Sums over
/// rows follow law 2.
void layer_norm_backward(ir::DType dtype, const void* grad, const void* in,
                         ir::DType stats_dtype, const void* mean, const void* rstd,
                         const void* weight, int64_t rows, int64_t size, void* grad_in,
                         void* grad_weight, void* grad_bias);

enum class LossReduction : uint8_t { kNone, kMean, kSum };

/// Negative log likelihood of `rows` rows of `classes` contiguous log-probabilities with
/// int64 targets. `weight` may be nullptr. An out-of-range target that is not
/// `ignore_index` is an error ("Target -1 is out of bounds."). `out` has `rows` elements
/// for kNone, else one; `total_weight` has one (0 for kNone).
Status nll_loss(ir::DType dtype, const void* log_probs, const int64_t* targets,
                const void* weight, LossReduction reduction, int64_t ignore_index,
                int64_t rows, int64_t classes, void* out, void* total_weight);
/// Its gradient, written to all of `grad_in`; `grad` has `rows` elements for kNone (with
/// `grad_stride` elements between them), else one.
Status nll_loss_backward(ir::DType dtype, const void* grad, int64_t grad_stride,
                         const int64_t* targets, const void* weight,
                         LossReduction reduction, int64_t ignore_index,
                         const void* total_weight, int64_t rows, int64_t classes,
                         void* grad_in);

/// The rows of a contiguous tensor [extent, width].
struct RowTable {
  void* data = nullptr;
  int64_t extent = 0;
  int64_t width = 0;  // elements of a row
  int64_t itemsize = 0;
};

/// Contiguous indices of rows, int32 or int64.
struct RowIndices {
  const void* data = nullptr;
  ir::DType dtype = ir::DType::kInt64;
  int64_t count = 0;
  bool wraps = false;    // a negative one counts from the end
  int64_t skipped = -1;  // an index whose row is left as it is by `scatter_rows`
};

enum class RowUpdate : uint8_t { kAddToZero, kAdd, kAssign };

/// out[i] = table[indices[i]]. An index out of range is an error (kIndex), and nothing is
/// written.
Status gather_rows(const RowTable& table, const RowIndices& indices, void* out);
/// table[indices[i]] += rows[i], or = rows[i], in the order of i; kAddToZero begins with
/// zeros. Sums are of float32 or float64, each addition rounded. Errors as gather_rows.
Status scatter_rows(RowUpdate update, ir::DType dtype, const void* rows,
                    const RowIndices& indices, const RowTable& table);

/// One step of a recurrent cell: `rows` sequences with a state of `size` elements each.
/// All tensors are contiguous and of one float type.
struct CellShape {
  int64_t rows = 0;
  int64_t size = 0;
};

/// The products of input and state with their weights, [rows, gates * size], and a bias
/// of [gates * size] for each, or nullptr.
struct CellInputs {
  const void* input_gates = nullptr;
  const void* hidden_gates = nullptr;
  const void* input_bias = nullptr;
  const void* hidden_bias = nullptr;
};

/// torch.nn.LSTMCell behind its products: gates in the order input, forget, cell, output;
/// `cx`, `hy` and `cy` are [rows, size]; `workspace` gets the activated gates.
void lstm_cell(ir::DType dtype, const CellShape& shape, const CellInputs& in,
               const void* cx, void* hy, void* cy, void* workspace);
/// Its gradients, of the gates and of `cx`; `grad_hy` or `grad_cy` may be nullptr (zero).
void lstm_cell_backward(ir::DType dtype, const CellShape& shape, const void* grad_hy,
                        const void* grad_cy, const void* cx, const void* cy,
                        const void* workspace, void* grad_gates, void* grad_cx);
/// torch.nn.GRUCell behind its products: gates in the order reset, update, new;
/// `workspace` of [rows, 5 * size] gets the activated gates, `hx` and the hidden part of
/// new.
void gru_cell(ir::DType dtype, const CellShape& shape, const CellInputs& in,
              const void* hx, void* hy, void* workspace);
/// Its gradients: of the input's gates, of the hidden gates and of `hx`.
void gru_cell_backward(ir::DType dtype, const CellShape& shape, const void* grad,
                       const void* workspace, void* grad_input, void* grad_hidden,
                       void* grad_hx);

}  // namespace neuron::fusion
