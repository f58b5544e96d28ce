#include "device/queue.h"

#include <exception>
#include <new>
#include <string>

#include "base/blocking.h"
#include "base/check.h"
#include "device/memory.h"
#include "device/timeline.h"

namespace neuron::device {
namespace {

// Why something that is read does not exist; nullptr if all of it does.
ErrorPtr inherited_error(const Program& program, std::span<const Access> accesses) {
  for (const Access& access : accesses) {
    const Buffer* buffer = program.buffers[access.buffer];
    if (access.reads && buffer->error != nullptr) return buffer->error;
  }
  return nullptr;
}

bool has_error(const Program& program, std::span<const Access> accesses) {
  return inherited_error(program, accesses) != nullptr;
}

// Whatever a kernel throws becomes its status: a worker must go on.
template <class Run>
Status run_safely(const Run& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return {ErrorKind::kOutOfMemory,
            "[execute] the host has no memory for the simulated device"};
  } catch (const std::exception& error) {
    return {ErrorKind::kRuntime,
            std::string("[execute] a kernel threw an exception: ") + error.what()};
  }
}

}  // namespace

Queue::Queue() : timeline_(std::make_unique<Timeline>()) {}

Queue::~Queue() { shut_down(); }

void Queue::in_scope(const std::function<void()>& body) {
  if (thread_scope_) {
    thread_scope_(body);
  } else {
    body();
  }
}

void Queue::submit(ProgramPtr program, StreamState& stream, bool waits) {
  bool wake = false;
  {
    std::unique_lock lock(mutex_);
    if (stopping_) {
      lock.unlock();
      for (Buffer* buffer : program->buffers) Memory::release(buffer);
      stream.completed.store(program->sequence, std::memory_order_release);
      return;
    }
    if (!worker_.joinable()) worker_ = std::thread([this] { worker_loop(); });
    backlog_.fetch_add(program->weight, std::memory_order_relaxed);
    pending_.push_back({std::move(program), &stream});
    wake = worker_sleeps_ && !waits;
    if (wake) worker_sleeps_ = false;
  }
  if (wake) work_arrived_.notify_one();
}

void Queue::worker_loop() {
  in_scope([this] {
    std::unique_lock lock(mutex_);
    while (true) {
      // While somebody waits, that thread runs the programs itself.
      while (!stopping_ && (pending_.empty() || waiters_.load() > 0)) {
        worker_sleeps_ = true;
        work_arrived_.wait(lock);
      }
      worker_sleeps_ = false;
      if (stopping_) return;
      lock.unlock();
      {
        std::lock_guard execution(execution_mutex_);
        run_next();
      }
      lock.lock();
    }
  });
}

bool Queue::run_next() {
  Item item;
  {
    std::lock_guard lock(mutex_);
    if (pending_.empty()) return false;
    item = std::move(pending_.front());
    pending_.pop_front();
  }
  backlog_.fetch_sub(item.program->weight, std::memory_order_relaxed);
  run(item);
  return true;
}

void Queue::run(Item& item) {
  Program& program = *item.program;
  program.prepare();
  if (program.is_timed) timeline_->begin(program);
  for (const Step& step : program.steps) {
    if (program.is_timed) timeline_->add(step.work);
    const Status status = is_skipped(step) ? Status() : run_step(program, step);
    if (!status.is_ok()) {
      std::lock_guard lock(mutex_);
      if (item.stream->first_error == nullptr) {
        item.stream->first_error = status.error();
        item.stream->error_number = ++errors_;
      }
    }
    for (uint32_t i = 0; i < step.num_releases; ++i) {
      Memory::release(program.buffers[program.releases[step.first_release + i]]);
    }
  }
  if (program.is_timed) timeline_->end(program);
  item.stream->completed.store(program.sequence, std::memory_order_release);
  item.program.reset();
}

bool Queue::is_skipped(const Step& step) const {
  if (!is_dry()) return false;
  return step.work.kind == Work::Kind::kCompute || step.work.kind == Work::Kind::kHost;
}

// Law 3.
template <class Run>
Status Queue::run_part(Program& program, const Step& step,
                       std::span<const Access> accesses, const Run& run) {
  ErrorPtr inherited = inherited_error(program, accesses);
  Status status;
  if (inherited == nullptr) {
    status = run_safely(run);
    if (!status.is_ok()) {
      auto error = std::make_shared<Error>(*status.error());
      error->context = program.describe(step);
      status = Status(ErrorPtr(error));
      inherited = status.error();
    }
  }
  for (const Access& access : accesses) {
    if (!access.writes) continue;
    Buffer* buffer = program.buffers[access.buffer];
    if (inherited != nullptr || buffer->error != nullptr) buffer->error = inherited;
  }
  return status;
}

Status Queue::run_step(Program& program, const Step& step) {
  const std::span<const Access> accesses(program.accesses.data() + step.first_access,
                                         step.num_accesses);
  const Executable& executable = *step.executable;
  if (executable.split != nullptr && has_error(program, accesses)) {
    Status first;
    for (const Part& part : executable.split(program, step)) {
      const Status status = run_part(program, step, part.accesses, part.run);
      if (first.is_ok()) first = status;
    }
    return first;
  }
  return run_part(program, step, accesses,
                  [&] { return executable.run(executable, program, step); });
}

void Queue::wait(StreamState& stream, uint64_t sequence) {
  const auto is_done = [&] {
    return stream.completed.load(std::memory_order_acquire) >= sequence;
  };
  if (is_done()) return;
  const bool done = run_until(is_done);
  if (done) return;
  std::lock_guard lock(mutex_);
  NEURON_CHECK(stopping_, "waiting for a program that was never submitted");
}

void Queue::relieve() {
  run_until(
      [this] { return backlog_.load(std::memory_order_relaxed) <= kMaxBacklog / 2; });
}

bool Queue::run_until(const std::function<bool()>& is_done) {
  BlockingRegion region;
  bool done = false;
  waiters_.fetch_add(1);
  in_scope([&] {
    bool more = true;
    while (!(done = is_done()) && more) {
      std::lock_guard execution(execution_mutex_);
      if ((done = is_done())) break;
      more = run_next();
    }
  });
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    wake = waiters_.fetch_sub(1) == 1 && !pending_.empty();
    if (wake) worker_sleeps_ = false;
  }
  if (wake) work_arrived_.notify_one();
  return done;
}

void Queue::drain() {
  run_until([] { return false; });
}

ErrorPtr Queue::take_error(StreamState& stream) {
  std::lock_guard lock(mutex_);
  return std::exchange(stream.first_error, nullptr);
}

uint64_t Queue::error_number(StreamState& stream) {
  std::lock_guard lock(mutex_);
  return stream.first_error != nullptr ? stream.error_number : 0;
}

void Queue::shut_down() {
  std::deque<Item> dropped;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(pending_);
  }
  work_arrived_.notify_all();
  {
    BlockingRegion region;
    if (worker_.joinable()) worker_.join();
    // A waiting thread may still be running a program.
    std::lock_guard execution(execution_mutex_);
  }
  for (Item& item : dropped) {
    for (Buffer* buffer : item.program->buffers) Memory::release(buffer);
    item.stream->completed.store(item.program->sequence, std::memory_order_release);
  }
}

}  // namespace neuron::device
