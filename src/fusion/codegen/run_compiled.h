// Runs compiled pointwise kernels over tensors of any layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusion/codegen/codegen.h"
#include "ir/pointwise.h"

namespace neuron::fusion {

/// What is fixed for one run of a kernel: shared by the threads that run its pieces.
/// Refers to everything it is made from.
class PointwiseRun {
 public:
  PointwiseRun(const CompiledPointwise& compiled, const ir::PointwiseCode& code,
               const ir::PointwiseArgs& args);

  /// Runs elements [begin, end) of the iteration space on the calling thread.
  void run(int64_t begin, int64_t end) const;

 private:
  static constexpr int kMaxRank = 16;

  // How the run treats a tensor.
  enum class Access : uint8_t {
    kDirect,   // dense: the kernel reads or writes it in place
    kRow,      // strided, but dense within a row of the merged space
    kStaged,   // strided: copied to or from a dense block
    kElement,  // one element
  };
  struct Tensor {
    std::byte* data;
    const int64_t* element_strides;  // as given
    Access access;
    uint8_t itemsize;
    bool is_sink;
    // Bytes per dimension of the merged space; of those that are strided.
    int64_t strides[kMaxRank];
  };
  class Pieces;

  void add_tensor(const ir::TensorArg& arg, ir::Layout layout, ir::DType dtype,
                  bool is_sink);
  void merge_dimensions(const ir::PointwiseArgs& args);
  void choose_access();

  KernelFn function_;
  int rank_ = 1;
  int64_t sizes_[kMaxRank];
  int64_t longest_piece_;
  bool stops_at_rows_ = false;
  bool has_strided_ = false;
  bool has_in_place_ = false;  // something is kDirect or kRow
  bool has_staged_ = false;    // some stage is needed
  std::vector<Tensor> tensors_;
  std::vector<uint64_t> numbers_;
};

/// run_pointwise with a compiled kernel: runs `code` over all elements on all cores. The
/// same rules for overlap hold.
void run_compiled(const CompiledPointwise& compiled, const ir::PointwiseCode& code,
                  const ir::PointwiseArgs& args);

}  // namespace neuron::fusion
