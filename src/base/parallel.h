// parallel_for: shares independent pieces of work among the cores.
#pragma once

#include <cstdint>

namespace neuron {

/// A function of a half-open range, borrowed for the time of a call.
class RangeFn {
 public:
  template <class F>
  RangeFn(const F& function)  // NOLINT(google-explicit-constructor)
      : object_(&function), call_([](const void* object, int64_t begin, int64_t end) {
          (*static_cast<const F*>(object))(begin, end);
        }) {}
  void operator()(int64_t begin, int64_t end) const { call_(object_, begin, end); }

 private:
  const void* object_;
  void (*call_)(const void*, int64_t, int64_t);
};

/// Calls `body` on pieces of [0, count) that cover it, at least `grain` long but for the
/// last. Serial when there are fewer than two pieces or one core. Pieces run on any
/// thread in any order, so the result must not depend on where [0, count) is divided.
/// `body` must not throw. Returns when all pieces are done.
void parallel_for(int64_t count, int64_t grain, RangeFn body);

/// How many threads parallel_for may use; from the machine, or `set_num_threads`.
int num_threads();
/// 0: as many as the machine has cores. For tests and benchmarks.
void set_num_threads(int count);

}  // namespace neuron
