// Essay. A register holds a block of kBlock values. Laws:
//  1. A source that is dense in its value type and that no sink stores is read where it
//     lies; all others are loaded into their registers at the start of a block (numbers
//     and single elements once per run).
//  2. A sink that is dense in its value type is written by the last instruction that
//     computes its register, if no later instruction reads a source at the same place;
//     else it is stored at the end of the block.
//  3. Blocks are independent, so they may run on any thread; bits do not depend on it.
#include "fusion/kernels/pointwise_run.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/parallel.h"
#include "fusion/kernels/pointwise_table.h"
#include "ir/itemsize.h"

extern "C" const void* neuron_pointwise_table_avx2();
extern "C" const void* neuron_pointwise_table_avx512();

namespace neuron::fusion {
namespace {

using ir::Instr;
using ir::Layout;
using ir::Sink;
using ir::Source;
using ir::TensorArg;

constexpr int64_t kBlock = 512;
constexpr size_t kRegisterBytes = kBlock * sizeof(double);
constexpr int kMaxRank = 16;
constexpr uint16_t kNever = 0xffff;

// The iteration space with dimensions merged where every strided tensor allows it.
struct Space {
  int rank = 0;
  int64_t sizes[kMaxRank];
};

struct Strided {
  int64_t strides[kMaxRank];  // per dimension of the merged space
};

// What is fixed for a run and shared by its blocks. Kept per thread for its memory.
struct Run {
  ir::PointwiseArgs args;
  const PointwiseTable& table = pointwise_table();
  Space space;
  std::vector<const TensorArg*> tensors;  // per source, nullptr for numbers
  std::vector<Strided> strided;           // per source, then per sink
  std::vector<uint16_t> direct_sink;  // per instruction: the sink it writes, or kNever
  std::vector<uint8_t> is_direct;     // per sink
  std::vector<uint8_t> is_in_place;   // per source: law 1

  const TensorArg* sinks = nullptr;

  void start(const ir::PointwiseCode& code, const ir::PointwiseArgs& args);

 private:
  void merge_dimensions(const ir::PointwiseCode& code);
  void choose_direct_sinks(const ir::PointwiseCode& code);
  std::vector<const int64_t*> walks_;  // per source, then per sink: strides, or nullptr
};

bool is_dense_value(Layout layout, ir::DType dtype) {
  return layout == Layout::kLinear &&
         (dtype == ir::DType::kFloat32 || dtype == ir::DType::kFloat64 ||
          dtype == ir::DType::kInt64);
}

void Run::start(const ir::PointwiseCode& code, const ir::PointwiseArgs& run_args) {
  args = run_args;
  size_t next = 0;
  tensors.clear();
  is_in_place.clear();
  for (const Source& source : code.sources) {
    tensors.push_back(source.is_number ? nullptr : &args.tensors[next++]);
  }
  sinks = args.tensors + next;
  for (const Source& source : code.sources) {
    is_in_place.push_back(!source.is_number &&
                          is_dense_value(source.layout, source.dtype));
  }
  for (const Sink& sink : code.sinks) {
    if (sink.reg < is_in_place.size()) is_in_place[sink.reg] = 0;
  }
  merge_dimensions(code);
  choose_direct_sinks(code);
}

void Run::merge_dimensions(const ir::PointwiseCode& code) {
  std::vector<const int64_t*>& all = walks_;
  all.clear();
  space.rank = 0;
  const size_t num_sources = code.sources.size();
  for (size_t i = 0; i < num_sources; ++i) {
    const bool is_strided =
        !code.sources[i].is_number && code.sources[i].layout == Layout::kStrided;
    all.push_back(is_strided ? tensors[i]->strides : nullptr);
  }
  for (size_t s = 0; s < code.sinks.size(); ++s) {
    all.push_back(code.sinks[s].layout == Layout::kStrided ? sinks[s].strides : nullptr);
  }
  if (std::all_of(all.begin(), all.end(),
                  [](const int64_t* s) { return s == nullptr; })) {
    return;
  }
  strided.resize(all.size());
  for (int d = 0; d < args.rank; ++d) {
    if (args.sizes[d] == 1) continue;
    const int last = space.rank - 1;
    bool joins = last >= 0;
    for (size_t k = 0; k < all.size() && joins; ++k) {
      joins = all[k] == nullptr || strided[k].strides[last] == all[k][d] * args.sizes[d];
    }
    const int target = joins ? last : space.rank++;
    space.sizes[target] = joins ? space.sizes[target] * args.sizes[d] : args.sizes[d];
    for (size_t k = 0; k < all.size(); ++k) {
      if (all[k] != nullptr) strided[k].strides[target] = all[k][d];
    }
  }
  if (space.rank == 0) {
    space.rank = 1;
    space.sizes[0] = 1;
    for (Strided& s : strided) s.strides[0] = 0;
  }
}

void Run::choose_direct_sinks(const ir::PointwiseCode& code) {
  direct_sink.assign(code.instrs.size(), kNever);
  is_direct.assign(code.sinks.size(), 0);
  for (size_t s = 0; s < code.sinks.size(); ++s) {
    if (!is_dense_value(code.sinks[s].layout, code.sinks[s].dtype)) continue;
    size_t last = code.instrs.size();
    while (last > 0 && code.instrs[last - 1].out != code.sinks[s].reg) --last;
    if (last == 0 || direct_sink[last - 1] != kNever) continue;
    bool is_free = true;
    for (size_t i = last; i < code.instrs.size() && is_free; ++i) {
      const Instr& instr = code.instrs[i];
      for (int k = 0; k < ir::code_info(instr.code).arity; ++k) {
        const uint16_t reg = instr.in[k];
        if (reg < tensors.size() && is_in_place[reg] != 0 &&
            tensors[reg]->data == sinks[s].data) {
          is_free = false;
        }
      }
    }
    if (!is_free) continue;
    direct_sink[last - 1] = static_cast<uint16_t>(s);
    is_direct[s] = 1;
  }
}

// Visits the runs of the innermost dimension that elements [start, start + n) consist of:
// body(first element's offset, length, inner stride, elements before).
template <class Body>
void for_runs(const Space& space, const Strided& walk, int64_t start, int64_t n,
              const Body& body) {
  int64_t index[kMaxRank];
  int64_t rest = start;
  int64_t offset = 0;
  const int inner = space.rank - 1;
  for (int d = inner; d >= 0; --d) {
    index[d] = rest % space.sizes[d];
    rest /= space.sizes[d];
    offset += index[d] * walk.strides[d];
  }
  int64_t done = 0;
  while (done < n) {
    const int64_t length = std::min(n - done, space.sizes[inner] - index[inner]);
    body(offset, length, walk.strides[inner], done);
    done += length;
    index[inner] += length;
    offset += length * walk.strides[inner];
    for (int d = inner; d > 0 && index[d] == space.sizes[d]; --d) {
      offset += walk.strides[d - 1] - index[d] * walk.strides[d];
      index[d] = 0;
      ++index[d - 1];
    }
  }
}

// The registers of one thread.
class Scratch {
 public:
  std::vector<std::byte*> now;   // where each register's values are
  std::vector<std::byte*> home;  // and where they are unless in a tensor
  std::byte* take(size_t num_registers) {
    const size_t wanted = num_registers * kRegisterBytes;
    if (wanted > size_) {
      size_ = wanted;
      bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(64, size_)));
      NEURON_CHECK(bytes_ != nullptr, "no memory for the registers of a kernel");
    }
    return bytes_.get();
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  size_t size_ = 0;
};

// Runs blocks of one piece of the iteration space.
class BlockRunner {
 public:
  BlockRunner(const ir::PointwiseCode& code, const Run& run, Scratch& scratch)
      : run_(run),
        code_(code),
        num_sources_(code.sources.size()),
        registers_(scratch.now),
        home_(scratch.home),
        sinks_(run.sinks) {
    std::byte* bytes = scratch.take(code.num_registers);
    home_.resize(code.num_registers);
    for (size_t i = 0; i < home_.size(); ++i) home_[i] = bytes + i * kRegisterBytes;
    registers_ = home_;
  }

  void run(int64_t begin, int64_t end) {
    load_constants(std::min(kBlock, end - begin));
    for (int64_t start = begin; start < end; start += kBlock) {
      const int64_t n = std::min(kBlock, end - start);
      load_sources(start, n);
      run_instrs(start, n);
      store_sinks(start, n);
    }
  }

 private:
  LoadFn load_of(ir::DType dtype) const {
    return run_.table.loads[static_cast<int>(dtype)];
  }

  void load_constants(int64_t n) {
    for (size_t i = 0; i < num_sources_; ++i) {
      const Source& source = code_.sources[i];
      if (source.is_number) {
        fill_number(i, n);
      } else if (source.layout == Layout::kScalar) {
        load_of(source.dtype)(registers_[i], run_.tensors[i]->data, n, 0);
      }
    }
  }

  void fill_number(size_t i, int64_t n) {
    switch (code_.sources[i].type) {
      case ir::ValueType::kF32:
        std::fill_n(reinterpret_cast<float*>(registers_[i]), n,
                    static_cast<float>(run_.args.reals[i]));
        break;
      case ir::ValueType::kF64:
        std::fill_n(reinterpret_cast<double*>(registers_[i]), n, run_.args.reals[i]);
        break;
      case ir::ValueType::kI64:
        std::fill_n(reinterpret_cast<int64_t*>(registers_[i]), n, run_.args.integers[i]);
        break;
      case ir::ValueType::kBool:
        std::fill_n(reinterpret_cast<uint8_t*>(registers_[i]), n,
                    static_cast<uint8_t>(run_.args.integers[i] != 0));
        break;
    }
  }

  void load_sources(int64_t start, int64_t n) {
    for (size_t i = 0; i < num_sources_; ++i) {
      const Source& source = code_.sources[i];
      if (source.is_number || source.layout == Layout::kScalar) continue;
      const int itemsize = ir::itemsize_of(source.dtype);
      auto* data = static_cast<std::byte*>(run_.tensors[i]->data);
      if (run_.is_in_place[i] != 0) {
        registers_[i] = data + start * itemsize;
      } else if (source.layout == Layout::kLinear) {
        load_of(source.dtype)(registers_[i], data + start * itemsize, n, 1);
      } else {
        const int width = ir::value_size(source.type);
        for_runs(run_.space, run_.strided[i], start, n,
                 [&](int64_t offset, int64_t length, int64_t stride, int64_t done) {
                   load_of(source.dtype)(registers_[i] + done * width,
                                         data + offset * itemsize, length, stride);
                 });
      }
    }
  }

  void run_instrs(int64_t start, int64_t n) {
    for (size_t i = 0; i < code_.instrs.size(); ++i) {
      const Instr& instr = code_.instrs[i];
      const void* in[4];
      for (int k = 0; k < 4; ++k) in[k] = registers_[instr.in[k]];
      const uint16_t sink = run_.direct_sink[i];
      if (sink == kNever) {
        registers_[instr.out] = home_[instr.out];
      } else {
        registers_[instr.out] = static_cast<std::byte*>(sinks_[sink].data) +
                                start * ir::itemsize_of(code_.sinks[sink].dtype);
      }
      run_.table.instrs[static_cast<int>(instr.code)][static_cast<int>(instr.type)](
          registers_[instr.out], in, n);
    }
  }

  void store_sinks(int64_t start, int64_t n) {
    for (size_t s = 0; s < code_.sinks.size(); ++s) {
      if (run_.is_direct[s] != 0) continue;
      const Sink& sink = code_.sinks[s];
      const StoreFn store = run_.table.stores[static_cast<int>(sink.dtype)];
      const int itemsize = ir::itemsize_of(sink.dtype);
      auto* data = static_cast<std::byte*>(sinks_[s].data);
      std::byte* values = registers_[sink.reg];
      if (sink.layout == Layout::kLinear) {
        store(data + start * itemsize, values, n, 1);
      } else if (sink.layout == Layout::kScalar) {
        store(data, values, 1, 1);
      } else {
        ir::ValueType type = ir::ValueType::kF32;
        ir::value_type_of(sink.dtype, type);
        const int width = ir::value_size(type);
        for_runs(run_.space, run_.strided[num_sources_ + s], start, n,
                 [&](int64_t offset, int64_t length, int64_t stride, int64_t done) {
                   store(data + offset * itemsize, values + done * width, length, stride);
                 });
      }
    }
  }

  const Run& run_;
  const ir::PointwiseCode& code_;
  const size_t num_sources_;
  std::vector<std::byte*>& registers_;
  std::vector<std::byte*>& home_;
  const TensorArg* sinks_;
};

// How many elements are worth a piece of their own: about 20 us of work.
int64_t grain_of(const ir::PointwiseCode& code) {
  const auto weight = static_cast<int64_t>(code.instrs.size() * 2 + code.sources.size());
  return std::max<int64_t>(
      4096, (200000 / std::max<int64_t>(weight, 1) + kBlock - 1) / kBlock * kBlock);
}

}  // namespace

const PointwiseTable& pointwise_table() {
  static const auto* table = static_cast<const PointwiseTable*>([] {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) {
      return neuron_pointwise_table_avx512();
    }
    NEURON_CHECK(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
                 "the simulator needs a processor with AVX2 and FMA");
    return neuron_pointwise_table_avx2();
  }());
  return *table;
}

void run_pointwise(const ir::PointwiseCode& code, const ir::PointwiseArgs& args) {
  if (args.numel == 0) return;
  static thread_local Run run;
  const Run& shared = run;
  run.start(code, args);
  parallel_for(args.numel, grain_of(code), [&](int64_t begin, int64_t end) {
    static thread_local Scratch scratch;
    BlockRunner(code, shared, scratch).run(begin, end);
  });
}

}  // namespace neuron::fusion
