// Pointwise kernels for tests: a code with tensors of random contents, and the comparison
// of two ways to run it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "ir/pointwise.h"

namespace neuron::fusion {

using ir::Code;
using ir::DType;
using ir::Instr;
using ir::Layout;
using ir::PointwiseCode;
using ir::Sink;
using ir::Source;
using ir::ValueType;

using Random = std::mt19937_64;

inline constexpr DType kDTypes[] = {
    DType::kUInt8,   DType::kInt8,    DType::kInt16,   DType::kInt32, DType::kInt64,
    DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kBool,  DType::kBFloat16};
inline constexpr ValueType kTypes[] = {ValueType::kF32, ValueType::kF64, ValueType::kI64,
                                       ValueType::kBool};

inline int pick(Random& random, int count) {
  return static_cast<int>(random() % static_cast<uint64_t>(count));
}

inline ValueType type_of(DType dtype) {
  ValueType type = ValueType::kF32;
  EXPECT_TRUE(ir::value_type_of(dtype, type));
  return type;
}

inline DType dtype_of(ValueType type) {
  constexpr DType kOf[] = {DType::kFloat32, DType::kFloat64, DType::kInt64, DType::kBool};
  return kOf[static_cast<int>(type)];
}

inline size_t itemsize_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt16:
      return 2;
    default:
      return 1;
  }
}

// --- values -------------------------------------------------------------------------

inline double random_real(Random& random) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kSpecial[] = {0.0,   -0.0,   1.0,    -1.0,   0.5,     -0.5,  kInf,
                                 -kInf, 1e-40,  -1e-40, 1e-310, 1e30,    -1e30, 88.0,
                                 -104., 709.5,  -745.,  0x1p63, -0x1p63, 2.5,   -3.5,
                                 1e-8,  65519., 65520., 3.0};
  std::uniform_real_distribution<double> small(-3, 3);
  std::uniform_real_distribution<double> large(-1000, 1000);
  switch (pick(random, 8)) {
    case 0:
      return kSpecial[pick(random, std::size(kSpecial))];
    case 1:
      return std::numeric_limits<double>::quiet_NaN();
    case 2:
      return large(random);
    case 3:
      return std::ldexp(small(random), pick(random, 300) - 150);
    default:
      return small(random);
  }
}

inline void fill(Random& random, DType dtype, std::byte* data, size_t n) {
  const size_t itemsize = itemsize_of(dtype);
  for (size_t i = 0; i < n; ++i) {
    uint64_t word = random() >> (random() % 64);
    if (pick(random, 2) == 0) word = ~word;
    const double real = random_real(random);
    const bool any_bits = pick(random, 16) == 0;
    if (dtype == DType::kFloat64 && !any_bits) word = std::bit_cast<uint64_t>(real);
    const auto single = std::bit_cast<uint32_t>(static_cast<float>(real));
    if (dtype == DType::kFloat32 && !any_bits) word = single;
    if (dtype == DType::kBFloat16 && !any_bits) word = single >> 16;
    if (dtype == DType::kBool) word = static_cast<uint64_t>(pick(random, 2));
    std::memcpy(data + i * itemsize, &word, itemsize);
  }
}

inline bool is_nan(DType dtype, uint64_t bits) {
  switch (dtype) {
    case DType::kFloat64:
      return (bits & ~(1ull << 63)) > 0x7ff0000000000000;
    case DType::kFloat32:
      return (bits & 0x7fffffff) > 0x7f800000;
    case DType::kBFloat16:
      return (bits & 0x7fff) > 0x7f80;
    case DType::kFloat16:
      return (bits & 0x7fff) > 0x7c00;
    default:
      return false;
  }
}

// --- tensors ------------------------------------------------------------------------

// A tensor of the iteration space with memory of its own.
struct Tensor {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> strides;
  size_t num_elements = 0;
  std::vector<std::byte> bytes;
  int aliases = -1;  // the source whose memory this sink shares
};

struct Kernel {
  PointwiseCode code;
  std::vector<int64_t> sizes;
  std::vector<Tensor> tensors;
  std::vector<double> reals;
  std::vector<int64_t> integers;

  int64_t numel() const {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  }
};

// Dense in a random order of dimensions, with gaps; sources also repeat.
inline void make_strides(Random& random, Kernel& kernel, Tensor& tensor, bool is_sink) {
  const size_t rank = kernel.sizes.size();
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  if (pick(random, 2) == 0) std::shuffle(order.begin(), order.end(), random);
  tensor.strides.assign(rank, 0);
  int64_t next = pick(random, 3) == 0 ? 2 : 1;
  for (size_t k = rank; k-- > 0;) {
    const size_t d = order[k];
    if (!is_sink && pick(random, 4) == 0) continue;
    tensor.strides[d] = next;
    next = next * kernel.sizes[d] + (pick(random, 3) == 0 ? 3 : 0);
  }
  tensor.num_elements = static_cast<size_t>(next);
}

inline void add_tensor(Random& random, Kernel& kernel, DType dtype, Layout layout,
                       bool is_sink) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.num_elements =
      layout == Layout::kScalar ? 1 : static_cast<size_t>(kernel.numel());
  if (layout == Layout::kStrided) make_strides(random, kernel, tensor, is_sink);
  tensor.bytes.resize(tensor.num_elements * itemsize_of(dtype));
  fill(random, dtype, tensor.bytes.data(), tensor.num_elements);
  kernel.tensors.push_back(std::move(tensor));
}

inline void add_source(Random& random, Kernel& kernel, DType dtype, Layout layout) {
  kernel.code.sources.push_back({false, type_of(dtype), dtype, layout});
  kernel.reals.push_back(0);
  kernel.integers.push_back(0);
  add_tensor(random, kernel, dtype, layout, /*is_sink=*/false);
}

inline void add_number(Random& random, Kernel& kernel, ValueType type) {
  kernel.code.sources.push_back({true, type, dtype_of(type), Layout::kLinear});
  kernel.reals.push_back(random_real(random));
  kernel.integers.push_back(pick(random, 7) - 3);
}

inline void add_sink(Random& random, Kernel& kernel, int reg, DType dtype,
                     Layout layout) {
  kernel.code.sinks.push_back({static_cast<uint16_t>(reg), dtype, layout});
  add_tensor(random, kernel, dtype, layout, /*is_sink=*/true);
}

// --- comparison ---------------------------------------------------------------------

// Runs on copies of the kernel's tensors, and returns those.
template <class Run>
std::vector<Tensor> outcome(const Kernel& kernel, const Run& run) {
  std::vector<Tensor> copies = kernel.tensors;
  std::vector<ir::TensorArg> args;
  for (Tensor& tensor : copies) {
    Tensor& owner =
        tensor.aliases < 0 ? tensor : copies[static_cast<size_t>(tensor.aliases)];
    args.push_back({owner.bytes.data(), tensor.strides.data()});
  }
  run(ir::PointwiseArgs{kernel.numel(), static_cast<int>(kernel.sizes.size()),
                        kernel.sizes.data(), args.data(), kernel.reals.data(),
                        kernel.integers.data()});
  return copies;
}

// Which NaN an operation of two NaNs gives depends on the order of its operands, and
// compilers may swap them. So NaNs count as equal.
inline void expect_same(const Kernel& kernel, const std::vector<Tensor>& expected,
                        const std::vector<Tensor>& got, const char* what) {
  for (size_t t = 0; t < expected.size(); ++t) {
    if (expected[t].bytes == got[t].bytes) continue;
    const size_t itemsize = itemsize_of(expected[t].dtype);
    for (size_t i = 0; i < expected[t].num_elements; ++i) {
      uint64_t a = 0;
      uint64_t b = 0;
      std::memcpy(&a, expected[t].bytes.data() + i * itemsize, itemsize);
      std::memcpy(&b, got[t].bytes.data() + i * itemsize, itemsize);
      if (a == b || (is_nan(expected[t].dtype, a) && is_nan(expected[t].dtype, b)))
        continue;
      FAIL() << what << ": tensor " << t << " element " << i << " of " << kernel.numel()
             << std::hex << ": got " << b << ", expected " << a << "\n"
             << ir::print_code(kernel.code);
    }
  }
}
inline ValueType result_of(const Instr& instr) {
  if (ir::code_info(instr.code).returns_bool) return ValueType::kBool;
  switch (instr.code) {
    case Code::kF32ToF64:
    case Code::kI64ToF64:
      return ValueType::kF64;
    case Code::kF64ToF32:
    case Code::kI64ToF32:
    case Code::kBoolToF32:
      return ValueType::kF32;
    case Code::kF32ToI64:
    case Code::kF64ToI64:
    case Code::kBoolToI64:
      return ValueType::kI64;
    case Code::kF32ToBool:
    case Code::kF64ToBool:
    case Code::kI64ToBool:
      return ValueType::kBool;
    default:
      return instr.type;
  }
}

}  // namespace neuron::fusion
