// Essay. A kernel is one loop without branches:
//  1. Before it, what is the same for all elements is loaded and spread: numbers and
//     tensors of one element.
//  2. A step loads all other sources, then computes, then stores. So a sink may lie on a
//     source at the same elements, and nothing claims that tensors are distinct.
//  3. There is no code for a last, partial step: the caller runs it on copies.
#include "fusion/codegen/emit_pointwise.h"

#include <llvm/IR/IRBuilder.h>

#include <utility>
#include <vector>

#include "fusion/codegen/codegen.h"
#include "fusion/codegen/emit_instr.h"

namespace neuron::fusion {
namespace {

using ir::Layout;
using ir::Source;

class KernelBuilder {
 public:
  KernelBuilder(llvm::Module& module, const ir::PointwiseCode& code, unsigned width,
                const std::string& name)
      : code_(code), width_(width), builder_(module.getContext()) {
    auto* type = llvm::FunctionType::get(
        builder_.getVoidTy(),
        {builder_.getPtrTy(), builder_.getPtrTy(), builder_.getInt64Ty()}, false);
    function_ =
        llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
    function_->addFnAttr(llvm::Attribute::NoUnwind);
    function_->addFnAttr("frame-pointer", "all");  // For stacks in profiles.
  }

  /// Returns the reason why not, or an empty string.
  std::string build() {
    const EmitScope scope(builder_, width_);
    values_.resize(code_.num_registers);
    auto* entry = new_block("entry");
    loop_ = new_block("loop");
    builder_.SetInsertPoint(entry);
    load_pointers();
    load_uniform_sources();
    builder_.CreateBr(loop_);
    begin_loop(entry);
    load_sources();
    std::string reason = run_instrs();
    if (reason.empty()) reason = store_sinks();
    end_loop();
    if (reason.empty()) erase_unused();
    return reason;
  }

 private:
  llvm::BasicBlock* new_block(const char* name) {
    return llvm::BasicBlock::Create(builder_.getContext(), name, function_);
  }

  void load_pointers() {
    size_t num_tensors = code_.sinks.size();
    for (const Source& source : code_.sources) num_tensors += source.is_number ? 0 : 1;
    for (size_t i = 0; i < num_tensors; ++i) {
      auto* slot =
          builder_.CreateConstGEP1_64(builder_.getPtrTy(), function_->getArg(0), i);
      pointers_.push_back(builder_.CreateLoad(builder_.getPtrTy(), slot));
    }
  }

  // The conversions need vectors, so one element is spread before it is converted.
  void load_uniform_sources() {
    size_t tensor = 0;
    for (size_t i = 0; i < code_.sources.size(); ++i) {
      const Source& source = code_.sources[i];
      if (source.is_number) {
        values_[i] = load_number(i, source.type);
        continue;
      }
      llvm::Value* pointer = pointers_[tensor++];
      if (source.layout != Layout::kScalar) continue;
      llvm::Type* type = scalar_type(storage_of(source.dtype));
      llvm::Value* element = builder_.CreateAlignedLoad(type, pointer, align_of(type));
      values_[i] = emit_load(source.dtype, builder_.CreateVectorSplat(width_, element));
    }
  }

  Value load_number(size_t source, ir::ValueType value_type) {
    auto* slot =
        builder_.CreateConstGEP1_64(builder_.getInt64Ty(), function_->getArg(1), source);
    const Elem elem =
        value_type == ir::ValueType::kBool ? Elem::kI8 : elem_of(value_type);
    llvm::Type* type = scalar_type(elem);
    llvm::Value* number = builder_.CreateAlignedLoad(type, slot, align_of(type));
    number = builder_.CreateVectorSplat(width_, number);
    return {elem == Elem::kI8 ? emit_is_not_zero(number) : number, value_type};
  }

  static llvm::Align align_of(llvm::Type* type) {
    return llvm::Align(type->getScalarSizeInBits() / 8);
  }

  void begin_loop(llvm::BasicBlock* entry) {
    builder_.SetInsertPoint(loop_);
    index_ = builder_.CreatePHI(builder_.getInt64Ty(), 2);
    index_->addIncoming(builder_.getInt64(0), entry);
  }

  void end_loop() {
    auto* next = builder_.CreateAdd(index_, builder_.getInt64(width_));
    index_->addIncoming(next, loop_);
    auto* exit = new_block("exit");
    builder_.CreateCondBr(builder_.CreateICmpULT(next, function_->getArg(2)), loop_,
                          exit);
    builder_.SetInsertPoint(exit);
    builder_.CreateRetVoid();
  }

  llvm::Value* place_of(llvm::Value* pointer, ir::DType dtype) {
    return builder_.CreateGEP(scalar_type(storage_of(dtype)), pointer, index_);
  }

  void load_sources() {
    size_t tensor = 0;
    for (size_t i = 0; i < code_.sources.size(); ++i) {
      const Source& source = code_.sources[i];
      if (source.is_number) continue;
      llvm::Value* pointer = pointers_[tensor++];
      if (source.layout == Layout::kScalar) continue;
      llvm::Type* type = vector_type(storage_of(source.dtype));
      values_[i] = emit_load(
          source.dtype, builder_.CreateAlignedLoad(type, place_of(pointer, source.dtype),
                                                   align_of(type)));
    }
  }

  std::string run_instrs() {
    for (const ir::Instr& instr : code_.instrs) {
      Value in[4];
      for (int k = 0; k < ir::code_info(instr.code).arity; ++k) {
        if (instr.in[k] < values_.size()) in[k] = values_[instr.in[k]];
      }
      const Value out = emit_instr(instr, in);
      if (out.ref == nullptr || instr.out >= values_.size()) {
        return std::string("no code for ") + ir::code_info(instr.code).name;
      }
      values_[instr.out] = out;
    }
    return {};
  }

  std::string store_sinks() {
    const size_t first = pointers_.size() - code_.sinks.size();
    for (size_t i = 0; i < code_.sinks.size(); ++i) {
      const ir::Sink& sink = code_.sinks[i];
      ir::ValueType type = ir::ValueType::kF32;
      if (sink.reg >= values_.size() || values_[sink.reg].ref == nullptr ||
          !ir::value_type_of(sink.dtype, type) || values_[sink.reg].type != type) {
        return std::string("no store for ") + ir::dtype_name(sink.dtype);
      }
      llvm::Value* storage = emit_store(sink.dtype, values_[sink.reg]);
      builder_.CreateAlignedStore(storage, place_of(pointers_[first + i], sink.dtype),
                                  align_of(storage->getType()));
    }
    return {};
  }

  // Bodies share building blocks and use parts of what those return.
  void erase_unused() {
    for (llvm::BasicBlock& block : *function_) {
      for (auto it = block.rbegin(); it != block.rend();) {
        llvm::Instruction& instr = *it++;
        if (instr.use_empty() && !instr.mayHaveSideEffects() && !instr.isTerminator()) {
          instr.eraseFromParent();
        }
      }
    }
  }

  const ir::PointwiseCode& code_;
  const unsigned width_;
  llvm::IRBuilder<> builder_;
  llvm::Function* function_ = nullptr;
  llvm::BasicBlock* loop_ = nullptr;
  llvm::PHINode* index_ = nullptr;
  std::vector<llvm::Value*> pointers_;
  std::vector<Value> values_;  // per register
};

std::string check_sources(const ir::PointwiseCode& code) {
  if (code.sources.size() > code.num_registers) return "more sources than registers";
  if (code.sinks.empty()) return "no sink";
  for (const Source& source : code.sources) {
    ir::ValueType type = source.type;
    if (source.is_number) continue;
    if (!ir::value_type_of(source.dtype, type) || type != source.type) {
      return std::string("no load for ") + ir::dtype_name(source.dtype);
    }
  }
  return {};
}

}  // namespace

std::unique_ptr<llvm::Module> build_pointwise(llvm::LLVMContext& context,
                                              const ir::PointwiseCode& code,
                                              unsigned width, const std::string& name,
                                              std::string& reason) {
  reason = check_sources(code);
  if (!reason.empty()) return nullptr;
  auto module = std::make_unique<llvm::Module>(name, context);
  reason = KernelBuilder(*module, code, width, name).build();
  return reason.empty() ? std::move(module) : nullptr;
}

KernelSize kernel_size(const llvm::Module& module) {
  KernelSize size;
  for (const llvm::Function& function : module) {
    for (const llvm::BasicBlock& block : function) {
      for (const llvm::Instruction& instr : block) {
        const llvm::Type* type = instr.getType();
        size.has_wide_values |= type->isVectorTy() && type->getScalarSizeInBits() == 64;
        ++size.num_instrs;
      }
    }
  }
  return size;
}

}  // namespace neuron::fusion
