#include "lazy/compiler.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/notices.h"
#include "fusion/codegen/run_compiled.h"
#include "lazy/observe.h"

namespace neuron::lazy {
namespace {

constexpr int kNice = 10;
constexpr char kName[] = "neuron_kernel";
constexpr uint64_t kPointsOfUnit = 64;

int64_t work_of(const ir::PointwiseKernel& kernel) {
  return kernel.numel * static_cast<int64_t>(kernel.code.instrs.size());
}

}  // namespace

Compiler::Compiler(OpenFn open, int64_t runs, std::unique_ptr<cache::DiskCache> disk)
    : open_(open),
      wanted_points_(static_cast<uint64_t>(runs) * kPointsOfUnit),
      disk_(std::move(disk)) {}

// One instruction alone is a loop already.
bool Compiler::can_gain(const ir::PointwiseKernel& kernel) {
  const size_t num_instrs = kernel.code.instrs.size();
  return num_instrs >= 2 && num_instrs <= kMaxInstrs && work_of(kernel) >= kLeastWork;
}

void Compiler::count_run(const std::shared_ptr<cache::KernelEntry>& entry,
                         const cache::Key& key, const ir::PointwiseKernel& kernel) {
  if (entry->is_asked || is_off_.load(std::memory_order_relaxed)) return;
  if (entry->wanted_at == 0) entry->wanted_at = wanted_points_;
  // However large, it must have run before: most that runs once never comes again.
  const auto points = static_cast<uint64_t>(work_of(kernel)) * kPointsOfUnit / kUnit;
  entry->points += std::clamp<uint64_t>(points, 1, (wanted_points_ + 1) / 2);
  if (entry->points < entry->wanted_at) return;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    if (waiting_.size() >= kMaxWaiting) {
      entry->wanted_at *= 2;  // patience
      return;
    }
    entry->is_asked = true;
    unfinished_.fetch_add(1, std::memory_order_relaxed);
    waiting_.push_back(
        {entry,
         std::string(reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()),
         kernel.code});
    if (!thread_.joinable()) {
      process_ = ::getpid();
      thread_ = std::thread([this] { run(); });
    }
  }
  work_arrived_.notify_one();
}

void Compiler::run() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
  std::string reason;
  table_ = open_(reason);
  if (table_ == nullptr) {
    post_notice("[codegen] kernels are not compiled, and run slower: " + reason +
                "; set NEURON_COMPILE=0 to run without this warning");
    is_off_.store(true, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    unfinished_.fetch_sub(waiting_.size(), std::memory_order_relaxed);
    waiting_.clear();
    return;
  }
  target_ = std::string(table_->fingerprint) + " " + table_->target() + " level " +
            std::to_string(static_cast<int>(kLevel)) + "\n";
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      work_arrived_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
    }
    compile(job);
    unfinished_.fetch_sub(1, std::memory_order_release);
  }
}

void Compiler::compile(Job& job) {
  const auto start = std::chrono::steady_clock::now();
  CompileEvent event;
  const std::vector<char> object = object_of(job, event);
  auto compiled = std::make_shared<fusion::CompiledPointwise>();
  if (!object.empty()) {
    *compiled = fusion::load_by(*table_, object, kName, event.failure);
  }
  const bool is_there = static_cast<bool>(*compiled);
  if (is_there) {
    const void* code = compiled.get();
    job.entry->owner = std::move(compiled);
    job.entry->code.store(code, std::memory_order_release);
  } else if (failures_++ == 0) {
    post_notice(
        "[codegen] a kernel was not compiled and stays interpreted, with the "
        "same results: " +
        event.failure + "; torch.neuron.compile_report() counts further failures");
  }
  const auto time = std::chrono::steady_clock::now() - start;
  nanoseconds_ += static_cast<uint64_t>(std::chrono::nanoseconds(time).count());
  if (!journal_wants(Topic::kCompile)) return;
  event.num_instrs = job.code.instrs.size();
  event.num_bytes = object.size();
  event.milliseconds = std::chrono::duration<double, std::milli>(time).count();
  event.level = static_cast<int>(kLevel);
  if (!is_there && event.failure.empty()) event.failure = "no reason was given";
  observe_compile(event);
}

std::vector<char> Compiler::object_of(const Job& job, CompileEvent& event) {
  if (fails_.load(std::memory_order_relaxed)) {
    event.failure = "a test asked for a failure";
    return {};
  }
  const std::string key = target_ + job.key;
  if (disk_ != nullptr) {
    auto object = disk_->find(key);
    event.is_from_disk = object.has_value();
    ++(event.is_from_disk ? disk_hits_ : disk_misses_);
    if (journal_wants(Topic::kCache)) {
      observe_disk_lookup(*disk_, key, event.is_from_disk);
    }
    if (event.is_from_disk) return std::move(*object);
  }
  ++compiles_;
  std::vector<char> object =
      fusion::emit_by(*table_, job.code, kLevel, kName, event.failure);
  if (disk_ != nullptr && !object.empty()) disk_->store(key, object);
  return object;
}

CompileCounts Compiler::counts() const {
  CompileCounts counts;
  counts.waiting = unfinished_.load(std::memory_order_acquire);
  counts.compiles = compiles_;
  counts.failures = failures_;
  counts.disk_hits = disk_hits_;
  counts.disk_misses = disk_misses_;
  counts.nanoseconds = nanoseconds_;
  return counts;
}

void Compiler::shut_down() {
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    unfinished_.fetch_sub(waiting_.size(), std::memory_order_relaxed);
    waiting_.clear();
    if (thread_.joinable() && process_ == ::getpid()) thread = std::move(thread_);
  }
  work_arrived_.notify_all();
  if (thread.joinable()) thread.join();
}

}  // namespace neuron::lazy
