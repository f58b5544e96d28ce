// The hardware queue of one core: programs of all streams, executed in order of
// submission.
//
// Ordering laws:
//  1. Programs run one after the other, in the order of `submit`, whichever stream they
//     belong to (streams share one hardware queue).
//  2. A stream's `completed` sequence number rises only after the program's last step.
//  3. A failing step stores its error on every buffer it would have written. Steps that
//     read such a buffer are skipped and pass the error on. The first error of a stream
//     is kept until somebody takes it.
//
// A thread that waits runs pending programs itself instead of sleeping through two
// wake-ups.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "device/program.h"

namespace neuron::device {

class Timeline;

/// State of one stream that outlives its programs.
struct StreamState {
  std::atomic<uint64_t> completed{0};  // sequence number of the last finished program
  ErrorPtr first_error;                // guarded by the queue's mutex
  uint64_t error_number = 0;           // place of first_error among the queue's errors
};

class Queue {
 public:
  /// Runs `body` with the thread set up for executing programs. Installed by the embedder
  /// (library threads, thread-local state); may be empty.
  using ThreadScope = std::function<void(const std::function<void()>& body)>;

  Queue();
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void set_thread_scope(ThreadScope scope) { thread_scope_ = std::move(scope); }

  /// Appends a program. Starts the worker on first use. Costs under 0.1 us unless the
  /// worker has to be woken; it is left asleep if the caller is going to wait at once.
  void submit(ProgramPtr program, StreamState& stream, bool waits = false);

  /// Returns when `stream` has completed `sequence`, which must have been submitted.
  void wait(StreamState& stream, uint64_t sequence);

  /// True when so much is pending that whoever records should stop and help.
  bool is_full() const { return backlog_.load(std::memory_order_relaxed) > kMaxBacklog; }
  /// Runs pending programs until half of the room is free.
  void relieve();

  /// Returns when all that was submitted has run.
  void drain();

  /// The stream's first stored error, which is then forgotten; nullptr if there is none.
  ErrorPtr take_error(StreamState& stream);
  /// The place of the stream's stored error among all errors of the queue, 0 for none.
  uint64_t error_number(StreamState& stream);

  /// True while a thread waits and runs programs itself.
  bool host_waits() const { return waiters_.load(std::memory_order_relaxed) > 0; }

  /// The clock. Only the thread that executes may use it: from a step of a program, or
  /// inside `with_timeline`.
  Timeline& timeline() { return *timeline_; }
  template <class Visit>
  auto with_timeline(Visit visit) {
    std::lock_guard execution(execution_mutex_);
    return visit(*timeline_);
  }

  /// In a dry run the clock goes on and steps that compute are skipped: what they would
  /// have written is undefined.
  void set_dry(bool is_dry) { is_dry_.store(is_dry, std::memory_order_relaxed); }
  bool is_dry() const { return is_dry_.load(std::memory_order_relaxed); }

  /// Drops what has not started, waits for what has, ends the worker. Further submissions
  /// are dropped (their buffers released). Idempotent.
  void shut_down();

 private:
  static constexpr int64_t kMaxBacklog = 8192;  // in units of Program::weight

  struct Item {
    ProgramPtr program;
    StreamState* stream;
  };

  void worker_loop();
  /// Runs programs on the calling thread until `is_done` or nothing is left; is it done?
  bool run_until(const std::function<bool()>& is_done);
  bool run_next();  // with execution_mutex_ held; false when nothing was pending
  void run(Item& item);
  bool is_skipped(const Step& step) const;
  Status run_step(Program& program, const Step& step);
  template <class Run>
  Status run_part(Program& program, const Step& step, std::span<const Access> accesses,
                  const Run& run);
  void in_scope(const std::function<void()>& body);

  ThreadScope thread_scope_;
  std::mutex mutex_;  // guards pending_, worker state, errors of streams
  std::condition_variable work_arrived_;
  std::deque<Item> pending_;
  bool worker_sleeps_ = false;
  bool stopping_ = false;
  uint64_t errors_ = 0;
  std::thread worker_;
  std::mutex execution_mutex_;                // held by the thread that runs a program
  const std::unique_ptr<Timeline> timeline_;  // guarded by execution_mutex_
  std::atomic<bool> is_dry_{false};
  std::atomic<int> waiters_{0};
  std::atomic<int64_t> backlog_{0};
};

}  // namespace neuron::device
