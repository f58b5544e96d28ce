// Machine code for pointwise kernels. It gives the same bits as run_pointwise.
//
// A kernel works on dense vectors only. PointwiseRun does the rest: it walks through
// strided tensors and hands the kernel staged copies where elements are not neighbours,
// and at the ends, where a whole vector does not fit. So the machine code knows neither
// sizes, strides nor numbers, and linear and strided tensors have the same code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/pointwise.h"

namespace neuron::fusion {

/// How much the back end of LLVM optimises: kNone compiles two to four times as fast,
/// kDefault gives code that is 3 to 10 % faster. The bits are the same, except which NaN
/// comes of two NaNs.
enum class OptLevel : uint8_t { kNone, kDefault };

/// A kernel computes at most this many elements at a time.
inline constexpr int64_t kKernelStep = 64;

/// Runs `count` > 0 elements. Unless that is a multiple of kKernelStep, up to the next
/// one further elements may be read and written. `tensors`: sources that are tensors,
/// then sinks. `numbers`: the bits of each source that is a number in its value type, in
/// the low bytes; other entries are unused.
using KernelFn = void (*)(void* const* tensors, const uint64_t* numbers, int64_t count);

/// Owns the machine code of one kernel. Movable; freed with the object, from any thread,
/// when no run uses it any more.
class CompiledPointwise {
 public:
  CompiledPointwise() = default;
  CompiledPointwise(KernelFn function, std::shared_ptr<void> code)
      : function_(function), code_(std::move(code)) {}

  explicit operator bool() const { return function_ != nullptr; }
  KernelFn function() const { return function_; }

 private:
  KernelFn function_ = nullptr;
  std::shared_ptr<void> code_;
};

/// Compiles for this machine; empty, with the reason in `*reason`, when the code has
/// something that is not generated or the machine lacks AVX2. `name` is what debuggers
/// and profilers show. Any thread, many at once. The first call also starts LLVM (5 ms,
/// 13 MB; that libLLVM is loaded at all costs 14 ms and 42 MB before).
CompiledPointwise compile_pointwise(const ir::PointwiseCode& code, OptLevel level,
                                    std::string_view name = "neuron_pointwise",
                                    std::string* reason = nullptr);

/// The two halves of it, for a cache on disk. An object is good for machines of the same
/// `codegen_target()` only. Empty on failure.
std::vector<char> emit_object(const ir::PointwiseCode& code, OptLevel level,
                              std::string_view name = "neuron_pointwise",
                              std::string* reason = nullptr);
CompiledPointwise load_object(const std::vector<char>& object,
                              std::string_view name = "neuron_pointwise",
                              std::string* reason = nullptr);

/// Names all that object bytes depend on besides the code, level and name: the version of
/// LLVM and of this generator, and the processor with its features.
const std::string& codegen_target();

/// The kernel as LLVM IR and as assembly; a reason in parentheses on failure.
std::string llvm_text(const ir::PointwiseCode& code);
std::string assembly_text(const ir::PointwiseCode& code,
                          OptLevel level = OptLevel::kDefault);

/// From now on kernels that are loaded are listed in /tmp/perf-<pid>.map, where `perf`
/// looks names up.
void enable_perf_map();

/// Compiles as if the processor had AVX2 but not AVX-512. For tests; not while others
/// compile.
void use_avx2_only(bool on);

/// Checks the IR of every kernel before it is compiled; on in debug builds.
void set_verify_ir(bool on);

}  // namespace neuron::fusion
