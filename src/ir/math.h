// The transcendental functions, written once in the vocabulary of scalar.h.
//
// Each is a template over the value type F without branches, loops on data or tables, so
// the interpreter, the vectorised baseline kernels and generated code run the same IEEE
// 754 operations and give the same bits. docs/numerics.md says how each one is computed
// and what its measured error is. The hot float functions (exp, log, tanh, sigmoid, silu,
// erf, gelu, softplus) stay in float, the other float functions go through double
// (`widen`).
//
// Special values are those of C99; subnormals are not flushed. Every NaN that comes out
// is the one quiet NaN of positive sign, whatever NaN went in.
//
// A new value type brings the vocabulary of scalar.h and ScalarTraits, F(double), its
// operators and those of IntOf<F>, the operators & | ! of MaskOf<F>, default
// construction, and kIsDouble if it is the wide type. math_test.cpp has such a type.
#pragma once

#include "ir/math/error_function.h"
#include "ir/math/exponential.h"
#include "ir/math/logarithm.h"
#include "ir/math/pair.h"
#include "ir/math/remainder.h"
#include "ir/math/trigonometric.h"
#include "ir/scalar.h"
