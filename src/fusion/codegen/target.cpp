#include "fusion/codegen/target.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CodeGen.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "base/check.h"

namespace neuron::fusion {
namespace {

// Rises whenever the same code is compiled to other bytes.
constexpr int kGeneratorVersion = 1;

struct Host {
  const llvm::Target* target = nullptr;
  std::string cpu;
  std::string features;
  std::string name;
  std::string missing;
  bool has_avx512 = false;

  explicit Host(bool avx2_only) {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    std::string error;
    target = llvm::TargetRegistry::lookupTarget(
        llvm::Triple(llvm::sys::getProcessTriple()), error);
    cpu = llvm::sys::getHostCPUName().str();
    const auto flags = llvm::sys::getHostCPUFeatures();
    std::vector<std::string> names;
    for (const auto& flag : flags) {
      names.push_back((flag.second ? "+" : "-") + flag.first().str());
    }
    // The map has no order, and the text is part of keys on disk.
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) features += name + ",";
    // Vectors of 64 bytes stay whole. Half conversions are the instructions of F16C,
    // which the baseline kernels use too.
    features += "-prefer-256-bit,-avx512fp16";
    if (avx2_only) features += ",-avx512f";
    has_avx512 = !avx2_only && flags.lookup("avx512f") && flags.lookup("avx512vl") &&
                 flags.lookup("avx512bw") && flags.lookup("avx512dq");
    const bool is_enough =
        flags.lookup("avx2") && flags.lookup("fma") && flags.lookup("f16c");
    name = "generator " + std::to_string(kGeneratorVersion) + " llvm " +
           LLVM_VERSION_STRING + " " + cpu + " " + features;
    if (target == nullptr) {
      missing = error;
    } else if (!is_enough) {
      missing = "the processor lacks AVX2, FMA or F16C";
    }
  }
};

std::atomic<bool> avx2_only{false};

const Host& host() {
  if (avx2_only.load(std::memory_order_relaxed)) {
    static const Host* instance = new Host(true);
    return *instance;
  }
  static const Host* instance = new Host(false);
  return *instance;
}

using Machine = std::unique_ptr<llvm::TargetMachine>;

Machine new_machine(const Host& host, OptLevel level) {
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  const auto codegen_level = level == OptLevel::kNone ? llvm::CodeGenOptLevel::None
                                                      : llvm::CodeGenOptLevel::Default;
  return Machine(host.target->createTargetMachine(
      llvm::Triple(llvm::sys::getProcessTriple()), host.cpu, host.features, options,
      llvm::Reloc::PIC_, llvm::CodeModel::Small, codegen_level, /*JIT=*/true));
}

// Machines that no thread uses now. One costs 0.4 ms and serves one thread at a time.
class MachinePool {
 public:
  Machine take(const Host& host, OptLevel level) {
    {
      const std::lock_guard lock(mutex_);
      auto& free = free_of(host, level);
      if (!free.empty()) {
        Machine machine = std::move(free.back());
        free.pop_back();
        return machine;
      }
    }
    return new_machine(host, level);
  }
  void give_back(const Host& host, OptLevel level, Machine machine) {
    const std::lock_guard lock(mutex_);
    free_of(host, level).push_back(std::move(machine));
  }

 private:
  std::vector<Machine>& free_of(const Host& host, OptLevel level) {
    return free_[host.has_avx512 ? 1 : 0][static_cast<int>(level)];
  }

  std::mutex mutex_;  // guards free_
  std::vector<Machine> free_[2][2];
};

MachinePool& pool() {
  static auto* instance = new MachinePool;
  return *instance;
}

}  // namespace

const std::string& missing_feature() { return host().missing; }
bool has_avx512() { return host().has_avx512; }
void use_avx2_only(bool on) { avx2_only.store(on, std::memory_order_relaxed); }

const std::string& codegen_target() { return host().name; }

std::vector<char> emit_machine_code(llvm::Module& module, OptLevel level, bool as_text) {
  const Host& on = host();
  Machine machine = pool().take(on, level);
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  {
    llvm::legacy::PassManager passes;
    const auto type =
        as_text ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
    const bool failed = machine->addPassesToEmitFile(passes, stream, nullptr, type);
    NEURON_CHECK(!failed, "[codegen] LLVM cannot emit this kind of file");
    passes.run(module);
  }
  pool().give_back(on, level, std::move(machine));
  return {bytes.begin(), bytes.end()};
}

}  // namespace neuron::fusion
