#include "lazy/capture.h"

#include "fusion/codegen/module.h"
#include "ir/print.h"
#include "lazy/compiler.h"
#include "lazy/observe.h"
#include "lazy/window.h"

namespace neuron::lazy {
namespace {

std::string text_of(const ir::PointwiseCode& code, fusion::CodegenText kind) {
  std::string reason;
  const fusion::CodegenTable* table = fusion::open_codegen(reason);
  if (table == nullptr) return "(" + reason + ")\n";
  return fusion::text_by(*table, code, Compiler::kLevel, kind);
}

}  // namespace

std::shared_ptr<const CapturedWindow> capture_window(const WindowProgram& program) {
  auto captured = std::make_shared<CapturedWindow>();
  captured->device = device_of(program);
  captured->stream = program.stream;
  captured->number = program.sequence;
  captured->ir = ir::print_graph(program.graph);
  for (const ir::Node& node : program.graph.nodes) captured->sites.push_back(node.site);
  captured->plan = ir::print_plan(program.graph, program.plan);
  for (const ir::Kernel& kernel : program.plan.kernels) {
    CapturedKernel& made = captured->kernels.emplace_back();
    made.ops = ir::print_ops(program.graph, program.plan, kernel);
    if (!kernel.is_pointwise()) continue;
    made.is_fused = true;
    made.numel = program.plan.pointwise[kernel.pointwise].numel;
    made.code = program.plan.pointwise[kernel.pointwise].code;
  }
  return captured;
}

std::string llvm_text_of(const ir::PointwiseCode& code) {
  return text_of(code, fusion::CodegenText::kLlvmIr);
}
std::string assembly_text_of(const ir::PointwiseCode& code) {
  return text_of(code, fusion::CodegenText::kAssembly);
}

}  // namespace neuron::lazy
