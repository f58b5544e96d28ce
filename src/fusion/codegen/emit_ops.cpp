#include "fusion/codegen/emit_ops.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include "base/check.h"

namespace neuron::fusion {
namespace {

struct Current {
  llvm::IRBuilderBase* builder = nullptr;
  unsigned width = 0;
};
thread_local Current current;

llvm::IRBuilderBase& builder() { return *current.builder; }

bool is_floating(Ref x) { return x->getType()->isFPOrFPVectorTy(); }
bool is_bool(Ref x) { return x->getType()->isIntOrIntVectorTy(1); }

Ref splat(llvm::Constant* x) {
  return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(current.width), x);
}

Ref intrinsic(llvm::Intrinsic::ID id, Ref x) {
  return builder().CreateUnaryIntrinsic(id, x);
}

}  // namespace

EmitScope::EmitScope(llvm::IRBuilderBase& builder, unsigned width) {
  NEURON_CHECK(current.builder == nullptr, "[codegen] kernels are built one by one");
  current = {&builder, width};
}
EmitScope::~EmitScope() { current = {}; }

llvm::Type* scalar_type(Elem elem) {
  switch (elem) {
    case Elem::kBool:
      return builder().getInt1Ty();
    case Elem::kI8:
      return builder().getInt8Ty();
    case Elem::kI16:
      return builder().getInt16Ty();
    case Elem::kI32:
      return builder().getInt32Ty();
    case Elem::kI64:
      return builder().getInt64Ty();
    case Elem::kF16:
      return builder().getHalfTy();
    case Elem::kF32:
      return builder().getFloatTy();
    case Elem::kF64:
      return builder().getDoubleTy();
  }
  return nullptr;
}

llvm::Type* vector_type(Elem elem) {
  return llvm::FixedVectorType::get(scalar_type(elem), current.width);
}

Ref emit_constant(bool x) { return splat(builder().getInt1(x)); }
Ref emit_constant(int32_t x) {
  return splat(builder().getInt32(static_cast<uint32_t>(x)));
}
Ref emit_constant(int64_t x) {
  return splat(builder().getInt64(static_cast<uint64_t>(x)));
}
Ref emit_constant(float x) {
  return splat(llvm::ConstantFP::get(builder().getContext(), llvm::APFloat(x)));
}
Ref emit_constant(double x) {
  return splat(llvm::ConstantFP::get(builder().getContext(), llvm::APFloat(x)));
}

Ref emit_unary(Unary op, Ref x) {
  switch (op) {
    case Unary::kNeg:
      return is_floating(x) ? builder().CreateFNeg(x) : builder().CreateNeg(x);
    case Unary::kNot:
      return builder().CreateNot(x);
    case Unary::kAbs:
      return intrinsic(llvm::Intrinsic::fabs, x);
    case Unary::kSqrt:
      return intrinsic(llvm::Intrinsic::sqrt, x);
    case Unary::kRint:
      return intrinsic(llvm::Intrinsic::rint, x);
    case Unary::kFloor:
      return intrinsic(llvm::Intrinsic::floor, x);
    case Unary::kCeil:
      return intrinsic(llvm::Intrinsic::ceil, x);
    case Unary::kTrunc:
      return intrinsic(llvm::Intrinsic::trunc, x);
  }
  return nullptr;
}

Ref emit_binary(Binary op, Ref a, Ref b) {
  const bool floating = is_floating(a);
  switch (op) {
    case Binary::kAdd:
      return floating ? builder().CreateFAdd(a, b) : builder().CreateAdd(a, b);
    case Binary::kSub:
      return floating ? builder().CreateFSub(a, b) : builder().CreateSub(a, b);
    case Binary::kMul:
      return floating ? builder().CreateFMul(a, b) : builder().CreateMul(a, b);
    case Binary::kDiv:
      return builder().CreateFDiv(a, b);
    case Binary::kAnd:
      return builder().CreateAnd(a, b);
    case Binary::kOr:
      return builder().CreateOr(a, b);
    case Binary::kXor:
      return builder().CreateXor(a, b);
    case Binary::kCopysign:
      return builder().CreateBinaryIntrinsic(llvm::Intrinsic::copysign, a, b);
  }
  return nullptr;
}

Ref emit_compare(Compare op, Ref a, Ref b) {
  using P = llvm::CmpInst::Predicate;
  // Ordered but for !=, which holds for NaN.
  constexpr P kFloating[] = {P::FCMP_OEQ, P::FCMP_UNE, P::FCMP_OLT,
                             P::FCMP_OLE, P::FCMP_OGT, P::FCMP_OGE};
  constexpr P kSigned[] = {P::ICMP_EQ,  P::ICMP_NE,  P::ICMP_SLT,
                           P::ICMP_SLE, P::ICMP_SGT, P::ICMP_SGE};
  constexpr P kUnsigned[] = {P::ICMP_EQ,  P::ICMP_NE,  P::ICMP_ULT,
                             P::ICMP_ULE, P::ICMP_UGT, P::ICMP_UGE};
  const auto i = static_cast<size_t>(op);
  if (is_floating(a)) return builder().CreateFCmp(kFloating[i], a, b);
  return builder().CreateICmp(is_bool(a) ? kUnsigned[i] : kSigned[i], a, b);
}

Ref emit_is_not_zero(Ref x) { return builder().CreateIsNotNull(x); }

Ref emit_fma(Ref a, Ref b, Ref c) {
  return builder().CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
}

Ref emit_select(Ref mask, Ref yes, Ref no) {
  return builder().CreateSelect(mask, yes, no);
}

Ref emit_shift(Shift op, Ref x, int n) {
  const auto count = static_cast<uint64_t>(n);
  switch (op) {
    case Shift::kLeft:
      return builder().CreateShl(x, count);
    case Shift::kRight:
      return builder().CreateLShr(x, count);
    case Shift::kRightSign:
      return builder().CreateAShr(x, count);
  }
  return nullptr;
}

Ref emit_bitcast(Ref x, Elem to) { return builder().CreateBitCast(x, vector_type(to)); }

Ref emit_convert(Ref x, Elem to) {
  llvm::Type* type = vector_type(to);
  const bool to_floating = type->isFPOrFPVectorTy();
  if (is_floating(x)) {
    return to_floating ? builder().CreateFPCast(x, type)
                       : builder().CreateFPToSI(x, type);
  }
  if (!to_floating) {
    return is_bool(x) ? builder().CreateZExt(x, type)
                      : builder().CreateSExtOrTrunc(x, type);
  }
  return is_bool(x) ? builder().CreateUIToFP(x, type) : builder().CreateSIToFP(x, type);
}

Ref emit_extend_unsigned(Ref x, Elem to) {
  return builder().CreateZExt(x, vector_type(to));
}

}  // namespace neuron::fusion
