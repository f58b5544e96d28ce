#include "device/timeline.h"

#include <algorithm>

#include "device/cost.h"
#include "device/program.h"

namespace neuron::device {

void HostLog::wait(const Mark& mark) {
  if (mark.sequence == 0) return;
  for (const Entry& entry : entries_) {
    if (entry.kind == Kind::kWait && entry.stream == mark.stream &&
        entry.amount >= mark.sequence) {
      return;
    }
  }
  entries_.push_back({Kind::kWait, mark.stream, mark.sequence, 1});
}

void HostLog::add_copy(Kind kind, uint32_t stream, uint64_t bytes) {
  if (!entries_.empty() && entries_.back().kind == kind &&
      entries_.back().stream == stream) {
    entries_.back().amount += bytes;
    ++entries_.back().count;
  } else {
    entries_.push_back({kind, stream, bytes, 1});
  }
}

void HostLog::copy(uint64_t bytes, bool to_device) {
  add_copy(to_device ? Kind::kCopyIn : Kind::kCopyOut, 0, bytes);
}

void HostLog::copy_later(uint32_t stream, uint64_t bytes) {
  add_copy(Kind::kCopyLater, stream, bytes);
}

Timeline::StreamClock& Timeline::clock_of(uint32_t stream) {
  if (stream >= streams_.size()) streams_.resize(stream + 1);
  return streams_[stream];
}

// Later programs than kMaxInFlight overwrite an end, and the host has waited for those.
double Timeline::end_of(const Mark& mark) {
  const StreamClock& clock = clock_of(mark.stream);
  const size_t slot = mark.sequence % kMaxInFlight;
  return slot < clock.ends.size() ? clock.ends[slot] : 0;
}

void Timeline::copy_by_host(uint64_t bytes, uint64_t count) {
  const double start = host_;
  host_ += static_cast<double>(count) * core_.target->link_start +
           static_cast<double>(bytes) / core_.target->link_rate;
  counts_.host += host_ - start;
}

void Timeline::settle(const HostLog& log) {
  for (const HostLog::Entry& entry : log.entries()) {
    switch (entry.kind) {
      case HostLog::Kind::kWait:
        host_ = std::max(host_, end_of({entry.stream, entry.amount}));
        break;
      case HostLog::Kind::kCopyIn:
        counts_.bytes_to_device += entry.amount;
        copy_by_host(entry.amount, entry.count);
        break;
      case HostLog::Kind::kCopyOut:
        counts_.bytes_to_host += entry.amount;
        copy_by_host(entry.amount, entry.count);
        break;
      case HostLog::Kind::kCopyLater: {
        StreamClock& clock = clock_of(entry.stream);
        const double start = std::max({host_, clock.ready, to_device_free_});
        to_device_free_ = start +
                          static_cast<double>(entry.count) * core_.target->link_start +
                          static_cast<double>(entry.amount) / core_.target->link_rate;
        clock.ready = to_device_free_;
        counts_.bytes_to_device += entry.amount;
        break;
      }
    }
  }
}

void Timeline::begin(const Program& program) {
  settle(program.host_log);
  if (program.is_window) {
    const double recording = core_.target->record_op * program.num_ops;
    host_ += recording;
    counts_.host += recording;
  }
  double ready = clock_of(program.stream).ready;
  for (const Mark& mark : program.after) ready = std::max(ready, end_of(mark));
  program_ = &program;
  now_ = std::max(host_, ready);
  counts_.ops += program.num_ops;
}

// The host submits, the queue loads and starts the program.
void Timeline::launch() {
  const Target& target = *core_.target;
  const size_t slot = counts_.launches % kMaxInFlight;
  if (slot == launch_ends_.size()) launch_ends_.push_back(0);
  const double ready = now_;
  host_ = std::max(host_, launch_ends_[slot]);
  const double submit = program_->is_window ? target.submit_window : target.submit_op;
  host_ += submit;
  counts_.host += submit;
  launched_at_ = std::max({host_, ready, compute_free_});
  now_ = launched_at_ + target.launch + 2 * target.dma_start;
  if (program_->signature != loaded_) {
    now_ += target.swap;
    ++counts_.swaps;
    loaded_ = program_->signature;
  }
  is_launched_ = true;
}

void Timeline::close_launch() {
  if (!is_launched_) return;
  launch_ends_[counts_.launches % kMaxInFlight] = now_;
  ++counts_.launches;
  counts_.queue += now_ - launched_at_;
  compute_free_ = now_;
  is_launched_ = false;
}

// The host waits, takes the inputs, computes and gives the outputs back.
void Timeline::run_on_host(const Work& work) {
  close_launch();
  host_ = std::max(host_, now_) + core_.target->host_op;
  counts_.host += core_.target->host_op;
  copy_by_host(work.bytes_read + work.bytes_written, 0);
  counts_.bytes_to_host += work.bytes_read;
  counts_.bytes_to_device += work.bytes_written;
  ++counts_.host_ops;
  now_ = host_;
}

void Timeline::copy_to_host(const Work& work) {
  close_launch();
  to_host_free_ = std::max(now_, to_host_free_) + core_.target->link_start +
                  static_cast<double>(work.bytes_read) / core_.target->link_rate;
  counts_.bytes_to_host += work.bytes_read;
  now_ = to_host_free_;
}

void Timeline::add(const Work& work) {
  switch (work.kind) {
    case Work::Kind::kFree:
      return;
    case Work::Kind::kHost:
      return run_on_host(work);
    case Work::Kind::kDownload:
      return copy_to_host(work);
    case Work::Kind::kCompute:
      break;
  }
  if (!is_launched_) launch();
  const Cost cost = cost_of(work, core_);
  now_ += cost.total;
  for (int e = 0; e < kNumEngines; ++e) counts_.engines[e] += cost.engines[e];
  counts_.dma += cost.dma;
  counts_.bytes_read += work.bytes_read;
  counts_.bytes_written += work.bytes_written;
}

void Timeline::end(const Program& program) {
  close_launch();
  StreamClock& clock = clock_of(program.stream);
  clock.ready = now_;
  const size_t slot = program.sequence % kMaxInFlight;
  if (slot >= clock.ends.size()) clock.ends.resize(slot + 1);
  clock.ends[slot] = now_;
  program_ = nullptr;
}

ClockCounts Timeline::counts() const {
  ClockCounts counts = counts_;
  counts.now = std::max({host_, compute_free_, to_device_free_, to_host_free_});
  for (const StreamClock& clock : streams_) {
    counts.now = std::max(counts.now, clock.ready);
  }
  return counts;
}

}  // namespace neuron::device
