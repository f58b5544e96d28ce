// How a node of a native op is recorded.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <utility>

#include "ir/native.h"
#include "lazy/torch/record.h"
#include "lazy/torch/runtime.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {

/// One native node under construction; reads come first, then writes. It borrows what it
/// reads: no temporaries.
class RowNode {
 public:
  RowNode(ir::Op op, ir::Native native) {
    spec_.op = op;
    spec_.variant = static_cast<uint16_t>(native);
    spec_.number_kinds = 3;
    spec_.numbers[0].integer = spec_.numbers[1].integer = 0;
  }

  OperandSpec& read(const at::Tensor& tensor) { return add(tensor, ir::Operand::kReads); }
  OperandSpec& write(const at::Tensor& tensor) {
    written_.push_back(tensor);
    return add(tensor, ir::Operand::kWrites);
  }
  /// A tensor that is read and written.
  OperandSpec& update(const at::Tensor& tensor) {
    written_.push_back(tensor);
    return add(tensor, ir::Operand::kReads | ir::Operand::kWrites);
  }
  void set_integer(int i, int64_t value) { spec_.numbers[i].integer = value; }
  void set_real(int i, double value) {
    spec_.numbers[i].real = value;
    spec_.number_kinds &= static_cast<uint8_t>(~(1 << i));
  }

  void record() {
    spec_.operands = {operands_.data(), operands_.size()};
    spec_.site = capture_site();
    record_op(written_[0].device().index(), std::move(spec_));
    for (const at::Tensor& tensor : written_) arm(tensor);
  }

 private:
  OperandSpec& add(const at::Tensor& tensor, uint8_t flags) {
    operands_.push_back(operand_of(tensor, flags));
    return operands_.back();
  }

  OpSpec spec_;
  c10::SmallVector<OperandSpec, 8> operands_;
  c10::SmallVector<at::Tensor, 3> written_;
};

}  // namespace neuron::lazy
