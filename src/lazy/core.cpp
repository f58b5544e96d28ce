#include "lazy/core.h"

#include <algorithm>

#include "base/bisect.h"
#include "base/blocking.h"
#include "base/knobs.h"
#include "device/timeline.h"
#include "lazy/observe.h"

namespace neuron::lazy {
namespace {

// After a read the first windows are small, so that the device is fed early.
constexpr uint32_t kFirstLimit = 16;

std::atomic<uint64_t> next_window{1};

// How many ops a window may ever hold.
uint32_t last_limit() {
  const int64_t most = bisect_switches().flush_every.load(std::memory_order_relaxed);
  return static_cast<uint32_t>(most > 0 ? std::min(most, knobs().window_ops)
                                        : knobs().window_ops);
}

uint32_t first_limit() { return std::min(kFirstLimit, last_limit()); }

// The host looked at something that the device made.
bool is_read(WindowEnd end) {
  return end == WindowEnd::kValueRead || end == WindowEnd::kSynchronize ||
         end == WindowEnd::kDataShape || end == WindowEnd::kNoShapeFunction ||
         end == WindowEnd::kPointerTaken;
}

std::string gib(uint64_t bytes) {
  char text[48];
  std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

// The largest tensors with the lines that made them, for an error message.
std::string largest_tensors(device::Memory& memory) {
  constexpr size_t kShown = 5;
  auto live = memory.live();
  std::erase_if(live, [](const auto& entry) { return !entry.is_alive; });
  const size_t count = std::min(kShown, live.size());
  std::partial_sort(live.begin(), live.begin() + count, live.end(),
                    [](const auto& a, const auto& b) { return a.nbytes > b.nbytes; });
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(live[i].nbytes) + " bytes";
    if (live[i].site.code != nullptr) text += " at " + describe_site(live[i].site);
  }
  if (count == 0) return "";
  return "\n  largest of " + std::to_string(live.size()) + " live tensors: " + text +
         (memory.records_sites()
              ? ""
              : " (torch.neuron.record_memory_history() before they are made "
                "names their lines)");
}

}  // namespace

Modes& modes() {
  static Modes modes;
  return modes;
}

Core::Core(uint16_t index, uint64_t hbm_bytes, FindExecutable find_executable)
    : index_(index),
      memory_(index, hbm_bytes),
      road_{.find_executable = find_executable},
      pool_(road_) {
  for (uint32_t id = 0; id < kNumStreams; ++id) {
    streams_.push_back(std::make_unique<Stream>());
    streams_.back()->id = id;
    streams_.back()->window = next_window.fetch_add(1);
    streams_.back()->limit = first_limit();
  }
}

Status Core::allocate(uint64_t nbytes, device::Buffer*& buffer) {
  buffer = memory_.allocate(nbytes);
  if (buffer != nullptr) return {};
  // Recorded work may hold the last references of buffers whose tensors are gone.
  memory_.count_retry();
  flush_all(WindowEnd::kMemoryPressure);
  queue_.drain();
  buffer = memory_.allocate(nbytes);
  if (buffer != nullptr) return {};
  memory_.count_out_of_memory();
  const uint64_t used = static_cast<uint64_t>(memory_.active_bytes());
  const uint64_t capacity = memory_.capacity();
  return {ErrorKind::kOutOfMemory,
          "[memory] neuron:" + std::to_string(index_) + " is out of memory: requested " +
              gib(nbytes) + " (" + std::to_string(nbytes) + " bytes), in use " +
              gib(used) + ", free " + gib(capacity > used ? capacity - used : 0) +
              " of " + gib(capacity) + "; free tensors or use smaller batches" +
              largest_tensors(memory_)};
}

uint32_t Core::buffer_index(Stream& stream, device::Buffer& buffer) {
  if (buffer.window == stream.window) return buffer.index;
  if (buffer.last_use != 0 && buffer.use_stream != stream.id) {
    // Used on another stream: that work is submitted first, so recorded order is run
    // order.
    Stream& other = *streams_[buffer.use_stream];
    if (buffer.window == other.window) flush_locked(other, WindowEnd::kStreamUse, Site{});
  }
  auto& buffers = stream.program->buffers;
  buffer.window = stream.window;
  buffer.index = static_cast<uint32_t>(buffers.size());
  buffer.use_stream = stream.id;
  buffer.last_use = stream.sequence;
  device::Memory::retain(&buffer);
  buffers.push_back(&buffer);
  return buffer.index;
}

void Core::record(uint32_t stream_id, OpSpec op) {
  std::lock_guard lock(mutex_);
  Stream& stream = *streams_[stream_id];
  if (stream.program == nullptr) stream.program = pool_.take();
  ir::Graph& graph = stream.program->graph;
  ir::Node& node = graph.nodes.emplace_back();
  node.op = op.op;
  node.first_operand = static_cast<uint32_t>(graph.operands.size());
  node.num_operands = static_cast<uint32_t>(op.operands.size());
  node.number_kinds = op.number_kinds;
  node.number_slots = op.number_slots;
  node.code = op.code;
  node.dtype = op.dtype;
  node.variant = op.variant;
  node.numbers[0] = op.numbers[0];
  node.numbers[1] = op.numbers[1];
  node.site = op.site;
  if (op.call != nullptr) {
    graph.calls.push_back(std::move(op.call));
    node.call = static_cast<uint32_t>(graph.calls.size());
  }
  graph.operands.resize(node.first_operand + op.operands.size());
  ir::Operand* next = graph.operands.data() + node.first_operand;
  for (const OperandSpec& spec : op.operands) {
    ir::Operand& operand = *next++;
    operand.buffer = buffer_index(stream, *spec.buffer);
    operand.offset = spec.offset;
    operand.dtype = spec.dtype;
    operand.rank = spec.rank;
    operand.flags = spec.flags;
    operand.dims = static_cast<uint32_t>(graph.dims.size());
    graph.dims.resize(operand.dims + (spec.strides != nullptr ? 2 : 1) * spec.rank);
    int64_t* dims = graph.dims.data() + operand.dims;
    for (uint8_t i = 0; i < spec.rank; ++i) dims[i] = spec.sizes[i];
    if (spec.strides != nullptr) {
      for (uint8_t i = 0; i < spec.rank; ++i) dims[spec.rank + i] = spec.strides[i];
    } else {
      operand.flags |= ir::Operand::kContiguous;
    }
    if (operand.writes()) {
      spec.buffer->write_stream = stream.id;
      spec.buffer->last_write = stream.sequence;
    }
  }
  graph.num_buffers = static_cast<uint32_t>(stream.program->buffers.size());
  stats_.count_op();
  if (!modes().adaptive.load(std::memory_order_relaxed)) {
    flush_locked(stream, WindowEnd::kPlainEager, op.site);
  } else if (graph.nodes.size() >= stream.limit) {
    stream.limit = std::min(stream.limit * 2, last_limit());
    flush_locked(stream, WindowEnd::kSizeCap, op.site);
  }
}

void Core::flush_locked(Stream& stream, WindowEnd end, const Site& site, bool waits) {
  if (is_read(end)) stream.limit = first_limit();
  if (end == WindowEnd::kModeSwitch) {
    // What a window may hold may have changed; what it has grown to stays.
    stream.limit = std::clamp(stream.limit, first_limit(), last_limit());
  }
  if (stream.is_empty()) return;
  WindowProgramPtr program = std::move(stream.program);
  program->close();
  program->stream = stream.id;
  program->sequence = stream.sequence++;
  stream.window = next_window.fetch_add(1, std::memory_order_relaxed);
  stats_.count_end(end, site, program->graph.nodes.size());
  if (journal_wants(Topic::kWindows)) observe_window_end(*program, end, site);
  program->weight = static_cast<uint32_t>(program->graph.nodes.size());
  if (is_timed_) {
    program->is_timed = true;
    program->is_window = end != WindowEnd::kPlainEager;
    program->host_log.swap(host_log_);
    program->after.swap(stream.after);
  }
  queue_.submit(device::ProgramPtr(program.release()), stream.state, waits);
}

void Core::flush(uint32_t stream, WindowEnd end) {
  const Site site = capture_site();
  BlockingRegion region;
  std::lock_guard lock(mutex_);
  flush_locked(*streams_[stream], end, site);
}

void Core::flush_all(WindowEnd end) {
  const Site site = capture_site();
  BlockingRegion region;
  std::lock_guard lock(mutex_);
  for (auto& stream : streams_) flush_locked(*stream, end, site);
}

uint32_t Core::wait_for_write(device::Buffer& buffer, WindowEnd end) {
  StreamPoint point;
  {
    std::lock_guard lock(mutex_);
    point = {buffer.write_stream, buffer.last_write};
  }
  wait(point, end);
  return point.stream;
}

void Core::wait_for_use(device::Buffer& buffer, WindowEnd end) {
  StreamPoint point;
  {
    std::lock_guard lock(mutex_);
    point = {buffer.use_stream, buffer.last_use};
  }
  wait(point, end);
}

bool Core::is_idle(device::Buffer& buffer) {
  std::lock_guard lock(mutex_);
  return buffer.last_use == 0 ||
         streams_[buffer.use_stream]->state.completed.load() >= buffer.last_use;
}

bool Core::is_written(device::Buffer& buffer) {
  std::lock_guard lock(mutex_);
  return buffer.last_write == 0 ||
         streams_[buffer.write_stream]->state.completed.load() >= buffer.last_write;
}

ErrorPtr Core::take_error(uint32_t stream) {
  return queue_.take_error(streams_[stream]->state);
}

ErrorPtr Core::synchronize_stream(uint32_t stream) {
  wait(mark(stream), WindowEnd::kSynchronize);
  return take_error(stream);
}

ErrorPtr Core::synchronize() {
  flush_all(WindowEnd::kSynchronize);
  ErrorPtr first;
  uint64_t first_number = 0;
  for (uint32_t id = 0; id < kNumStreams; ++id) {
    Stream& stream = *streams_[id];
    wait(mark(id), WindowEnd::kSynchronize);
    const uint64_t number = queue_.error_number(stream.state);
    ErrorPtr error = queue_.take_error(stream.state);
    if (error == nullptr || (first != nullptr && number > first_number)) continue;
    first = std::move(error);
    first_number = number;
  }
  return first;
}

StreamPoint Core::mark(uint32_t stream_id) {
  std::lock_guard lock(mutex_);
  const Stream& stream = *streams_[stream_id];
  return {stream_id, stream.is_empty() ? stream.sequence - 1 : stream.sequence};
}

void Core::wait(const StreamPoint& point, WindowEnd end) {
  const Site site = capture_site();
  BlockingRegion region;
  Stream& stream = *streams_[point.stream];
  {
    std::lock_guard lock(mutex_);
    if (point.sequence == stream.sequence || end == WindowEnd::kSynchronize) {
      flush_locked(stream, end, site, /*waits=*/true);
    }
    if (is_timed_) host_log_.wait(point);
  }
  queue_.wait(stream.state, point.sequence);
}

bool Core::has_reached(const StreamPoint& point, WindowEnd end) {
  const Site site = capture_site();
  BlockingRegion region;
  std::lock_guard lock(mutex_);
  Stream& stream = *streams_[point.stream];
  if (point.sequence == stream.sequence) flush_locked(stream, end, site);
  return stream.state.completed.load() >= point.sequence;
}

void Core::order_after(uint32_t stream_id, const StreamPoint& point) {
  if (point.stream == stream_id) return;
  const Site site = capture_site();
  BlockingRegion region;
  std::lock_guard lock(mutex_);
  // One hardware queue: what is submitted first runs first.
  Stream& producer = *streams_[point.stream];
  if (point.sequence == producer.sequence) {
    flush_locked(producer, WindowEnd::kEventWaited, site);
  }
  if (is_timed_) streams_[stream_id]->after.push_back(point);
}

void Core::set_logical_core(const device::LogicalCore& core) {
  queue_.with_timeline([&](device::Timeline& timeline) { timeline.set_core(core); });
  road_.sbuf_bytes = core.sbuf_bytes();
}

// What is in an open window has to be uploaded behind it, without a wait.
void Core::log_wait_for_use(const device::Buffer& buffer) {
  const bool is_submitted = buffer.last_use < streams_[buffer.use_stream]->sequence;
  if (is_submitted) host_log_.wait({buffer.use_stream, buffer.last_use});
}

void Core::count_upload(const device::Buffer& buffer, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (!is_timed_) return;
  log_wait_for_use(buffer);
  host_log_.copy(bytes, /*to_device=*/true);
}

void Core::count_late_upload(const device::Buffer& buffer, uint64_t bytes,
                             uint32_t stream) {
  std::lock_guard lock(mutex_);
  if (!is_timed_) return;
  log_wait_for_use(buffer);
  host_log_.copy_later(stream, bytes);
}

void Core::count_download(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (is_timed_) host_log_.copy(bytes, /*to_device=*/false);
}

void Core::start_clock() {
  std::lock_guard lock(mutex_);
  is_timed_ = true;
}

void Core::set_dry(bool is_dry) {
  clock();
  queue_.set_dry(is_dry);
}

device::ClockCounts Core::clock() {
  start_clock();
  flush_all(WindowEnd::kSynchronize);
  for (uint32_t id = 0; id < kNumStreams; ++id) wait(mark(id), WindowEnd::kSynchronize);
  device::HostLog log;
  {
    std::lock_guard lock(mutex_);
    log.swap(host_log_);
  }
  BlockingRegion region;
  return queue_.with_timeline([&](device::Timeline& timeline) {
    timeline.settle(log);
    return timeline.counts();
  });
}

Stats Core::stats() {
  std::lock_guard lock(mutex_);
  return stats_;
}

void Core::reset_stats() {
  std::lock_guard lock(mutex_);
  stats_.reset();
}

}  // namespace neuron::lazy
