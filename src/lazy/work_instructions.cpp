#include "lazy/work_instructions.h"

#include <array>

namespace neuron::lazy {
namespace {

using ir::Code;

constexpr Instructions row_of(Code code) {
  switch (code) {
    case Code::kReciprocalSquare:
    case Code::kRsqrt:
    case Code::kSqrt:
    case Code::kExp:
    case Code::kExp2:
    case Code::kExpm1:
    case Code::kLog:
    case Code::kLog2:
    case Code::kLog10:
    case Code::kLog1p:
    case Code::kSin:
    case Code::kCos:
    case Code::kTan:
    case Code::kAsin:
    case Code::kAcos:
    case Code::kAtan:
    case Code::kSinh:
    case Code::kCosh:
    case Code::kTanh:
    case Code::kAsinh:
    case Code::kAcosh:
    case Code::kAtanh:
    case Code::kErf:
    case Code::kErfc:
    case Code::kSigmoid:
    case Code::kRelu:
    case Code::kLeakyRelu:
      return {0, 1};
    case Code::kGelu:
    case Code::kGeluTanh:
    case Code::kSilu:
    case Code::kXlogy:
    case Code::kSoftplus:
    case Code::kElu:
    case Code::kAtan2:
      return {1, 1};
    case Code::kPow:
      return {1, 2};
    case Code::kClamp:
    case Code::kAddScaled:
    case Code::kSubScaled:
    case Code::kThreshold:
      return {1, 0};
    case Code::kAddcmul:
    case Code::kAddcdiv:
    case Code::kLerp:
    case Code::kMulMul:
    case Code::kSquaredError:
    case Code::kSmoothL1:
    case Code::kTanhBackward:
    case Code::kSigmoidBackward:
      return {2, 0};
    case Code::kGeluBackward:
    case Code::kGeluTanhBackward:
    case Code::kSiluBackward:
    case Code::kSoftplusBackward:
    case Code::kBceWithLogits:
      return {3, 1};
    default:
      return {1, 0};
  }
}

// Conversions are the last codes.
constexpr bool is_conversion(Code code) { return code >= Code::kF32ToF64; }
static_assert(is_conversion(Code::kWrapU8) && !is_conversion(Code::kXlogy));

constexpr auto kTable = [] {
  std::array<Instructions, static_cast<size_t>(Code::kCount)> table{};
  for (size_t i = 0; i < table.size(); ++i) {
    const auto code = static_cast<Code>(i);
    table[i] = is_conversion(code) ? Instructions{0, 0} : row_of(code);
  }
  return table;
}();

}  // namespace

Instructions instructions_of(Code code) { return kTable[static_cast<size_t>(code)]; }

}  // namespace neuron::lazy
