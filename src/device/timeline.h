// Timeline: the clock of one simulated core. It is moved by what programs do and by what
// the host does between them, never by the time that passes here.
#pragma once

#include <cstdint>
#include <vector>

#include "device/clock.h"
#include "device/target.h"

namespace neuron::device {

class Program;

/// Resources: the host; one compute queue for all streams; one copy queue in each
/// direction. A stream is in order; so two streams overlap where one computes and the
/// other copies. Used by the thread that executes.
class Timeline {
 public:
  /// The host runs at most so many programs ahead of the device.
  static constexpr uint64_t kMaxInFlight = 1024;

  void set_core(const LogicalCore& core) { core_ = core; }
  const LogicalCore& core() const { return core_; }

  /// The steps of a program are told one by one between `begin` and `end`.
  void begin(const Program& program);
  void add(const Work& work);
  void end(const Program& program);
  /// When all steps so far of the present program are done.
  double now() const { return now_; }

  /// Accounts for what the host did last.
  void settle(const HostLog& log);
  ClockCounts counts() const;

 private:
  struct StreamClock {
    double ready = 0;          // when its last program is done
    std::vector<double> ends;  // of program s at s modulo kMaxInFlight
  };

  StreamClock& clock_of(uint32_t stream);
  double end_of(const Mark& mark);
  void launch();
  void close_launch();
  void run_on_host(const Work& work);
  void copy_to_host(const Work& work);
  void copy_by_host(uint64_t bytes, uint64_t count);

  LogicalCore core_;
  std::vector<StreamClock> streams_;
  double host_ = 0;          // the host's clock
  double compute_free_ = 0;  // when the compute queue is
  double to_device_free_ = 0, to_host_free_ = 0;
  uint64_t loaded_ = 0;              // signature of the program on the compute queue
  std::vector<double> launch_ends_;  // of launch n at n modulo kMaxInFlight

  const Program* program_ = nullptr;  // the present one
  double now_ = 0;
  double launched_at_ = 0;
  bool is_launched_ = false;

  ClockCounts counts_;
};

}  // namespace neuron::device
