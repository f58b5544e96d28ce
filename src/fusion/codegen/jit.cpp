#include "fusion/codegen/jit.h"

#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <utility>

#include "fusion/codegen/codegen.h"

namespace neuron::fusion {
namespace {

namespace orc = llvm::orc;

std::atomic<bool> perf_map_enabled{false};

// Writes the functions of each object to the file in which `perf` looks for names.
class PerfMap : public orc::ObjectLinkingLayer::Plugin {
 public:
  void modifyPassConfig(orc::MaterializationResponsibility&, llvm::jitlink::LinkGraph&,
                        llvm::jitlink::PassConfiguration& config) override {
    if (!perf_map_enabled.load(std::memory_order_relaxed)) return;
    config.PostFixupPasses.emplace_back([](llvm::jitlink::LinkGraph& graph) {
      const std::string path = "/tmp/perf-" + std::to_string(::getpid()) + ".map";
      std::FILE* file = std::fopen(path.c_str(), "a");
      if (file == nullptr) return llvm::Error::success();
      for (const auto* symbol : graph.defined_symbols()) {
        if (!symbol->hasName() || !symbol->isCallable()) continue;
        // One write a line, so that threads do not mix.
        std::fprintf(file, "%llx %llx %s\n",
                     static_cast<unsigned long long>(symbol->getAddress().getValue()),
                     static_cast<unsigned long long>(symbol->getSize()),
                     (*symbol->getName()).str().c_str());
      }
      std::fclose(file);
      return llvm::Error::success();
    });
  }
  llvm::Error notifyFailed(orc::MaterializationResponsibility&) override {
    return llvm::Error::success();
  }
  llvm::Error notifyRemovingResources(orc::JITDylib&, orc::ResourceKey) override {
    return llvm::Error::success();
  }
  void notifyTransferringResources(orc::JITDylib&, orc::ResourceKey,
                                   orc::ResourceKey) override {}
};

struct Jit {
  std::unique_ptr<orc::LLJIT> lljit;
  std::string reason;

  Jit() {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    orc::LLJITBuilder builder;
    // Kernels are built to call nothing: no process symbols, no platform.
    builder.setLinkProcessSymbolsByDefault(false);
    builder.setPlatformSetUp(orc::setUpInactivePlatform);
    builder.setObjectLinkingLayerCreator([](orc::ExecutionSession& session) {
      auto layer = std::make_unique<orc::ObjectLinkingLayer>(session);
      layer->addPlugin(std::make_shared<PerfMap>());
      return llvm::Expected<std::unique_ptr<orc::ObjectLayer>>(std::move(layer));
    });
    auto made = builder.create();
    if (made) {
      lljit = std::move(*made);
      // Errors come back from the look-up; do not print them as well.
      lljit->getExecutionSession().setErrorReporter(
          [](llvm::Error error) { llvm::consumeError(std::move(error)); });
    } else {
      reason = llvm::toString(made.takeError());
    }
  }
};

// Never destroyed: kernels may outlive static objects.
Jit& jit() {
  static auto* instance = new Jit;
  return *instance;
}

void remove_library(void* library) {
  auto& session = jit().lljit->getExecutionSession();
  llvm::consumeError(session.removeJITDylib(*static_cast<orc::JITDylib*>(library)));
}

}  // namespace

void enable_perf_map() { perf_map_enabled.store(true, std::memory_order_relaxed); }

LoadedSymbol load_symbol(const std::vector<char>& object, const std::string& name,
                         std::string& reason) {
  if (jit().lljit == nullptr) {
    reason = jit().reason;
    return {};
  }
  orc::LLJIT& lljit = *jit().lljit;
  // A library of its own: two kernels may have the same name.
  static std::atomic<uint64_t> next_library{0};
  orc::JITDylib& created = lljit.getExecutionSession().createBareJITDylib(
      "kernel" + std::to_string(next_library.fetch_add(1, std::memory_order_relaxed)));
  std::shared_ptr<void> library(static_cast<void*>(&created), &remove_library);
  // LLVM wants a copy whose start is aligned.
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy({object.data(), object.size()});
  if (auto error = lljit.addObjectFile(created, std::move(buffer))) {
    reason = llvm::toString(std::move(error));
    return {};
  }
  auto address = lljit.lookupLinkerMangled(created, name);
  if (!address) {
    reason = llvm::toString(address.takeError());
    return {};
  }
  return {address->toPtr<void*>(), std::move(library)};
}

}  // namespace neuron::fusion
