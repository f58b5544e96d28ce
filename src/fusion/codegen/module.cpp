#include "fusion/codegen/module.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

namespace neuron::fusion {
namespace {

namespace fs = std::filesystem;

constexpr char kFile[] = "_codegen.so";

void keep_text(void* context, const char* bytes, size_t size) {
  static_cast<std::string*>(context)->assign(bytes, size);
}
void keep_bytes(void* context, const char* bytes, size_t size) {
  static_cast<std::vector<char>*>(context)->assign(bytes, bytes + size);
}

// Beside this binary, as it was loaded or, if that is a link, where it really is.
std::string find_module() {
  Dl_info info;
  if (::dladdr(reinterpret_cast<const void*>(&open_codegen), &info) == 0) return kFile;
  const fs::path here(info.dli_fname);
  std::error_code error;
  const fs::path beside = here.parent_path() / kFile;
  if (fs::exists(beside, error)) return beside.string();
  return (fs::canonical(here, error).parent_path() / kFile).string();
}

CodegenCode parts_of(const ir::PointwiseCode& code) {
  return {code.sources.data(),
          code.instrs.data(),
          code.sinks.data(),
          static_cast<uint32_t>(code.sources.size()),
          static_cast<uint32_t>(code.instrs.size()),
          static_cast<uint32_t>(code.sinks.size()),
          code.num_registers};
}

}  // namespace

const CodegenTable* open_codegen(std::string& reason) {
  void* module = ::dlopen(find_module().c_str(), RTLD_NOW | RTLD_LOCAL);
  void* symbol = module == nullptr ? nullptr : ::dlsym(module, kCodegenSymbol);
  if (symbol == nullptr) {
    const char* error = ::dlerror();
    reason = error == nullptr ? "no such symbol" : error;
    return nullptr;
  }
  const auto* table = reinterpret_cast<const CodegenTable* (*)()>(symbol)();
  if (std::strcmp(table->fingerprint, kCodegenFingerprint) == 0) return table;
  reason = std::string(kFile) + " was built from other sources";
  return nullptr;
}

std::vector<char> emit_by(const CodegenTable& table, const ir::PointwiseCode& code,
                          OptLevel level, const char* name, std::string& reason) {
  const CodegenCode parts = parts_of(code);
  std::vector<char> object;
  const CodegenTaker take_object{&keep_bytes, &object};
  const CodegenTaker take_reason{&keep_text, &reason};
  table.emit(&parts, static_cast<int>(level), name, &take_object, &take_reason);
  return object;
}

CompiledPointwise load_by(const CodegenTable& table, const std::vector<char>& object,
                          const char* name, std::string& reason) {
  const CodegenTaker take_reason{&keep_text, &reason};
  void* handle = nullptr;
  void* address = table.load(object.data(), object.size(), name, &handle, &take_reason);
  if (address == nullptr) return {};
  return {reinterpret_cast<KernelFn>(address),
          std::shared_ptr<void>(handle, table.unload)};
}

std::string text_by(const CodegenTable& table, const ir::PointwiseCode& code,
                    OptLevel level, CodegenText kind) {
  const CodegenCode parts = parts_of(code);
  std::string text;
  const CodegenTaker take_text{&keep_text, &text};
  table.print(&parts, static_cast<int>(level), kind, &take_text);
  return text;
}

}  // namespace neuron::fusion
