// The vocabulary of generated code: one function an operation on LLVM values. Everything
// that kernels contain is built here, so this is all that the back end has to support.
// Free of LLVM's headers, so that the bodies compile quickly.
//
// Functions append to the kernel that the calling thread builds (EmitScope). Operands are
// vectors of one element type; what the operation is, integer or floating, follows from
// it.
#pragma once

#include <cstdint>

namespace llvm {
class IRBuilderBase;
class Type;
class Value;
}  // namespace llvm

namespace neuron::fusion {

using Ref = llvm::Value*;

/// Element types inside a kernel.
enum class Elem : uint8_t { kBool, kI8, kI16, kI32, kI64, kF16, kF32, kF64 };

/// Makes `builder` the one of the calling thread, for vectors of `width` elements.
class EmitScope {
 public:
  EmitScope(llvm::IRBuilderBase& builder, unsigned width);
  ~EmitScope();
  EmitScope(const EmitScope&) = delete;
  EmitScope& operator=(const EmitScope&) = delete;
};

llvm::Type* scalar_type(Elem elem);
llvm::Type* vector_type(Elem elem);

/// The same constant in all elements.
Ref emit_constant(bool x);
Ref emit_constant(int32_t x);
Ref emit_constant(int64_t x);
Ref emit_constant(float x);
Ref emit_constant(double x);

enum class Unary : uint8_t { kNeg, kNot, kAbs, kSqrt, kRint, kFloor, kCeil, kTrunc };
Ref emit_unary(Unary op, Ref x);

enum class Binary : uint8_t { kAdd, kSub, kMul, kDiv, kAnd, kOr, kXor, kCopysign };
Ref emit_binary(Binary op, Ref a, Ref b);

/// Gives a kBool vector; integers are compared with sign.
enum class Compare : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe };
Ref emit_compare(Compare op, Ref a, Ref b);
/// Of integers.
Ref emit_is_not_zero(Ref x);

Ref emit_fma(Ref a, Ref b, Ref c);
Ref emit_select(Ref mask, Ref yes, Ref no);

/// `kRightSign` fills with the sign, `kRight` with zeros.
enum class Shift : uint8_t { kLeft, kRight, kRightSign };
Ref emit_shift(Shift op, Ref x, int n);

/// The same bits as another type of the same width.
Ref emit_bitcast(Ref x, Elem to);
/// By value. Integers are extended with their sign, kBool with zeros; narrower integers
/// keep the low bits. A floating value must fit the integer type it becomes.
Ref emit_convert(Ref x, Elem to);
Ref emit_extend_unsigned(Ref x, Elem to);

}  // namespace neuron::fusion
