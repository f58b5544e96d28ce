// Generated code against the baseline kernels, bit for bit.
#include "fusion/codegen/codegen.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fusion/codegen/run_compiled.h"
#include "fusion/kernels/pointwise_run.h"
#include "fusion/pointwise_kernels.h"

namespace neuron::fusion {
namespace {

// A code compiled in every way.
struct Variant {
  const char* name;
  CompiledPointwise compiled;
};

std::vector<Variant> compile_all(const PointwiseCode& code) {
  std::vector<Variant> variants;
  for (const bool avx2_only : {false, true}) {
    use_avx2_only(avx2_only);
    for (const OptLevel level : {OptLevel::kNone, OptLevel::kDefault}) {
      constexpr const char* kNames[2][2] = {{"host, none", "host, default"},
                                            {"AVX2, none", "AVX2, default"}};
      std::string reason;
      auto compiled = compile_pointwise(code, level, "test", &reason);
      EXPECT_TRUE(compiled) << reason << "\n" << ir::print_code(code);
      if (!compiled) continue;
      variants.push_back(
          {kNames[avx2_only][static_cast<int>(level)], std::move(compiled)});
    }
  }
  use_avx2_only(false);
  return variants;
}

void check(const Kernel& kernel, const std::vector<Variant>& variants) {
  const auto expected = outcome(
      kernel, [&](const ir::PointwiseArgs& args) { run_pointwise(kernel.code, args); });
  for (const Variant& variant : variants) {
    const auto got = outcome(kernel, [&](const ir::PointwiseArgs& args) {
      run_compiled(variant.compiled, kernel.code, args);
    });
    expect_same(kernel, expected, got, variant.name);
  }
}
void check(const Kernel& kernel) { check(kernel, compile_all(kernel.code)); }

class CodegenTest : public testing::Test {
 protected:
  void SetUp() override { set_verify_ir(true); }
  Random random_{42};
};

TEST_F(CodegenTest, EveryCodeGivesTheBitsOfTheBaseline) {
  for (int c = 1; c < static_cast<int>(Code::kCount); ++c) {
    for (const ValueType type : kTypes) {
      Instr instr{static_cast<Code>(c), type, 0, {}};
      if (!ir::has_body(instr.code, type)) continue;
      Kernel kernel;
      kernel.sizes = {4099};
      const int arity = ir::code_info(instr.code).arity;
      for (int i = 0; i < arity; ++i) {
        const bool is_condition = instr.code == Code::kWhere && i == 0;
        instr.in[i] = static_cast<uint16_t>(i);
        add_source(random_, kernel, dtype_of(is_condition ? ValueType::kBool : type),
                   Layout::kLinear);
      }
      instr.out = static_cast<uint16_t>(arity);
      kernel.code.instrs.push_back(instr);
      kernel.code.num_registers = static_cast<uint16_t>(arity + 1);
      add_sink(random_, kernel, arity, dtype_of(result_of(instr)), Layout::kLinear);
      check(kernel);
    }
  }
}

TEST_F(CodegenTest, EveryStorageAndLayoutGivesTheBitsOfTheBaseline) {
  for (const DType dtype : kDTypes) {
    for (const Layout layout : {Layout::kLinear, Layout::kScalar, Layout::kStrided}) {
      for (int i = 0; i < 2; ++i) {
        Kernel kernel;
        kernel.sizes = {3, 5 + 90 * i, 7 + 200 * i};
        add_source(random_, kernel, dtype, layout);
        kernel.code.num_registers = 1;
        add_sink(random_, kernel, 0, dtype,
                 layout == Layout::kScalar ? Layout::kLinear : layout);
        check(kernel);
      }
    }
  }
}

TEST_F(CodegenTest, EveryHalfIsLoadedAndStored) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    Kernel kernel;
    kernel.sizes = {65536};
    add_source(random_, kernel, dtype, Layout::kLinear);
    for (uint32_t i = 0; i < 65536; ++i) {
      std::memcpy(kernel.tensors[0].bytes.data() + i * 2, &i, 2);
    }
    kernel.code.num_registers = 1;
    add_sink(random_, kernel, 0, DType::kFloat32, Layout::kLinear);
    add_sink(random_, kernel, 0, dtype, Layout::kLinear);
    check(kernel);
  }
}

Kernel silu_kernel(Random& random, std::vector<int64_t> sizes, Layout bias) {
  Kernel kernel;
  kernel.sizes = std::move(sizes);
  add_source(random, kernel, DType::kFloat32, Layout::kLinear);
  add_source(random, kernel, DType::kFloat32, bias);
  add_number(random, kernel, ValueType::kF32);
  kernel.code.instrs = {{Code::kAdd, ValueType::kF32, 3, {0, 1}},
                        {Code::kSilu, ValueType::kF32, 4, {3}},
                        {Code::kMul, ValueType::kF32, 5, {4, 2}}};
  kernel.code.num_registers = 6;
  add_sink(random, kernel, 5, DType::kFloat32, Layout::kLinear);
  return kernel;
}

TEST_F(CodegenTest, EverySizeGivesTheBitsOfTheBaseline) {
  for (const Layout layout : {Layout::kLinear, Layout::kStrided}) {
    const auto variants = compile_all(silu_kernel(random_, {1}, layout).code);
    for (int64_t n = 0; n <= 140; ++n) check(silu_kernel(random_, {n}, layout), variants);
    for (const int64_t n : {511, 512, 513, 5000}) {
      check(silu_kernel(random_, {n}, layout), variants);
      check(silu_kernel(random_, {3, n}, layout), variants);
    }
  }
}

TEST_F(CodegenTest, ASinkMayLieOnASource) {
  for (const int64_t n : {1, 15, 16, 17, 1000, 20000}) {
    for (const Layout layout : {Layout::kLinear, Layout::kStrided}) {
      Kernel kernel = silu_kernel(random_, {2, n}, layout);
      kernel.code.sinks[0].layout = layout;
      // The source of the same layout: the first is linear.
      const int source = layout == Layout::kLinear ? 0 : 1;
      if (layout == Layout::kStrided) {
        Tensor& tensor = kernel.tensors[1];
        make_strides(random_, kernel, tensor, /*is_sink=*/true);
        tensor.bytes.resize(tensor.num_elements * 4);
      }
      kernel.tensors[2].strides = kernel.tensors[static_cast<size_t>(source)].strides;
      kernel.tensors[2].aliases = source;
      check(kernel);
    }
  }
}

TEST_F(CodegenTest, ManyThreadsGiveTheBitsOfOne) {
  check(silu_kernel(random_, {7, 131, 301}, Layout::kStrided));
}

// Memory that ends where none follows.
class Fenced {
 public:
  explicit Fenced(size_t num_bytes) {
    const auto page = static_cast<size_t>(::getpagesize());
    mapped_ = (num_bytes + page - 1) / page * page + page;
    start_ = static_cast<std::byte*>(::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::mprotect(start_ + mapped_ - page, page, PROT_NONE);
    data = start_ + mapped_ - page - num_bytes;
  }
  ~Fenced() { ::munmap(start_, mapped_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  std::byte* data;

 private:
  std::byte* start_;
  size_t mapped_;
};

TEST_F(CodegenTest, NothingIsTouchedBehindATensor) {
  for (const DType dtype : kDTypes) {
    const size_t itemsize = itemsize_of(dtype);
    Kernel kernel;
    kernel.sizes = {1};
    add_source(random_, kernel, dtype, Layout::kLinear);
    kernel.code.num_registers = 1;
    add_sink(random_, kernel, 0, dtype, Layout::kLinear);
    const auto compiled = compile_pointwise(kernel.code, OptLevel::kNone);
    for (int64_t n = 1; n < 200; n += 7) {
      const Fenced from(static_cast<size_t>(n) * itemsize);
      const Fenced to(static_cast<size_t>(n) * itemsize);
      const ir::TensorArg tensors[] = {{from.data, nullptr}, {to.data, nullptr}};
      run_compiled(compiled, kernel.code, {n, 1, &n, tensors, nullptr, nullptr});
    }
  }
}

// --- random programs ----------------------------------------------------------------

constexpr Layout kLayouts[] = {Layout::kLinear, Layout::kLinear, Layout::kStrided,
                               Layout::kScalar};

std::vector<int64_t> random_sizes(Random& random) {
  std::vector<int64_t> sizes(static_cast<size_t>(1 + pick(random, 4)));
  for (int64_t& size : sizes) size = 1 + pick(random, 12);
  sizes[static_cast<size_t>(pick(random, static_cast<int>(sizes.size())))] +=
      pick(random, 200);
  return sizes;
}

void add_random_sources(Random& random, Kernel& kernel, std::vector<ValueType>& types) {
  for (int i = 1 + pick(random, 5); i > 0; --i) {
    if (pick(random, 4) == 0) {
      add_number(random, kernel, kTypes[pick(random, 4)]);
    } else {
      add_source(random, kernel, kDTypes[pick(random, std::size(kDTypes))],
                 kLayouts[pick(random, 4)]);
    }
    types.push_back(kernel.code.sources.back().type);
  }
}

// The last register of a type, or one of the others; -1 if there is none.
int random_register(Random& random, const std::vector<ValueType>& types, ValueType type) {
  const int n = static_cast<int>(types.size());
  const int first = pick(random, 2) == 0 ? n - 1 : pick(random, n);
  for (int i = 0; i < n; ++i) {
    const int reg = (first - i + n) % n;
    if (types[static_cast<size_t>(reg)] == type) return reg;
  }
  return -1;
}

bool add_random_instr(Random& random, Kernel& kernel, std::vector<ValueType>& types) {
  Instr instr;
  instr.code = static_cast<Code>(1 + pick(random, static_cast<int>(Code::kCount) - 1));
  instr.type = kTypes[pick(random, 4)];
  if (!ir::has_body(instr.code, instr.type)) return false;
  for (int i = 0; i < ir::code_info(instr.code).arity; ++i) {
    const bool is_condition = instr.code == Code::kWhere && i == 0;
    const int reg =
        random_register(random, types, is_condition ? ValueType::kBool : instr.type);
    if (reg < 0) return false;
    instr.in[i] = static_cast<uint16_t>(reg);
  }
  instr.out = static_cast<uint16_t>(types.size());
  types.push_back(result_of(instr));
  kernel.code.instrs.push_back(instr);
  return true;
}

TEST_F(CodegenTest, RandomProgramsGiveTheBitsOfTheBaseline) {
  for (int round = 0; round < 40; ++round) {
    Kernel kernel;
    std::vector<ValueType> types;
    kernel.sizes = random_sizes(random_);
    add_random_sources(random_, kernel, types);
    const size_t length = 1 + static_cast<size_t>(pick(random_, 40));
    for (int tries = 0; kernel.code.instrs.size() < length && tries < 5000; ++tries) {
      add_random_instr(random_, kernel, types);
    }
    kernel.code.num_registers = static_cast<uint16_t>(types.size());
    for (int s = 1 + pick(random_, 3); s > 0; --s) {
      const DType dtype = kDTypes[pick(random_, std::size(kDTypes))];
      const int reg = random_register(random_, types, type_of(dtype));
      if (reg >= 0) add_sink(random_, kernel, reg, dtype, kLayouts[pick(random_, 3)]);
    }
    if (!kernel.code.sinks.empty()) check(kernel);
    if (HasFailure()) return;
  }
}

// --- the rest of the interface ------------------------------------------------------

TEST_F(CodegenTest, AnObjectCanBeKeptAndLoadedTwice) {
  const Kernel kernel = silu_kernel(random_, {100}, Layout::kLinear);
  const auto object = emit_object(kernel.code, OptLevel::kNone, "kept");
  ASSERT_FALSE(object.empty());
  const auto first = load_object(object, "kept");
  const auto second = load_object(object, "kept");
  ASSERT_TRUE(first && second);
  EXPECT_NE(first.function(), second.function());
}

TEST_F(CodegenTest, ABrokenObjectIsRefused) {
  std::string reason;
  EXPECT_FALSE(load_object(std::vector<char>(100, 'x'), "kept", &reason));
  EXPECT_FALSE(reason.empty());
  const Kernel kernel = silu_kernel(random_, {100}, Layout::kLinear);
  EXPECT_FALSE(load_object(emit_object(kernel.code, OptLevel::kNone, "a"), "b", &reason));
  EXPECT_FALSE(reason.empty());
}

TEST_F(CodegenTest, ACodeOfWrongTypesIsRefused) {
  Kernel kernel = silu_kernel(random_, {100}, Layout::kLinear);
  kernel.code.instrs[1].type = ValueType::kF64;
  std::string reason;
  EXPECT_FALSE(compile_pointwise(kernel.code, OptLevel::kNone, "x", &reason));
  EXPECT_EQ(reason, "no code for Silu");
}

TEST_F(CodegenTest, TextsShowTheKernel) {
  const Kernel kernel = silu_kernel(random_, {100}, Layout::kLinear);
  EXPECT_NE(llvm_text(kernel.code).find("fmul <"), std::string::npos);
  EXPECT_NE(assembly_text(kernel.code).find("neuron_pointwise:"), std::string::npos);
}

TEST_F(CodegenTest, ATargetWithoutAvx512HasShorterVectors) {
  const Kernel kernel = silu_kernel(random_, {100}, Layout::kLinear);
  const std::string host = codegen_target();
  use_avx2_only(true);
  EXPECT_NE(codegen_target(), host);
  EXPECT_EQ(assembly_text(kernel.code).find("zmm"), std::string::npos);
  use_avx2_only(false);
}

TEST_F(CodegenTest, SumsAndProductsStaySeparate) {
  Kernel kernel;
  kernel.sizes = {1};
  for (int i = 0; i < 3; ++i)
    add_source(random_, kernel, DType::kFloat32, Layout::kLinear);
  kernel.code.instrs = {{Code::kAddScaled, ValueType::kF32, 3, {0, 1, 2}}};
  kernel.code.num_registers = 4;
  add_sink(random_, kernel, 3, DType::kFloat32, Layout::kLinear);
  EXPECT_EQ(assembly_text(kernel.code).find("vfmadd"), std::string::npos);
}

TEST_F(CodegenTest, ALoadedKernelIsListedForPerf) {
  enable_perf_map();
  const Kernel kernel = silu_kernel(random_, {100}, Layout::kLinear);
  const auto compiled = compile_pointwise(kernel.code, OptLevel::kNone, "listed_kernel");
  const std::string path = "/tmp/perf-" + std::to_string(::getpid()) + ".map";
  unsigned long long address = 0;
  unsigned long long size = 0;
  std::string name;
  std::ifstream(path) >> std::hex >> address >> size >> name;
  std::remove(path.c_str());
  EXPECT_EQ(address, reinterpret_cast<uintptr_t>(compiled.function()));
  EXPECT_GT(size, 100u);
  EXPECT_EQ(name, "listed_kernel");
}

TEST_F(CodegenTest, ManyThreadsCompileAtOnce) {
  const Kernel kernel = silu_kernel(random_, {100}, Layout::kLinear);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        EXPECT_TRUE(compile_pointwise(kernel.code, OptLevel::kNone));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace neuron::fusion
