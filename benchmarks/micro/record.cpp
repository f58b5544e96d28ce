// What recording one op costs the calling thread from C++, next to CPU eager's whole op.
//
// Sixteen floats, so that CPU eager's time is the dispatcher, the allocation and the loop
// over TensorIterator, which is what a recorder replaces. A batch stays below the size
// cap of a window; the device runs and drops it while the clock stands still.
//
//   record --benchmark_enable_random_interleaving=true
//   record.py runs this too and prints the ratios.
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <benchmark/benchmark.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr int kBatch = 200;
constexpr int kRepetitions = 9;

void synchronize(c10::DeviceType device) {
  if (device == c10::kPrivateUse1) {
    c10::impl::getDeviceGuardImpl(device)->synchronizeDevice(0);
  }
}

/// Times `call(a, b)`; `a` needs a gradient if `grad`.
template <typename Call>
void measure(const std::string& name, bool grad, Call call) {
  for (const auto device : {c10::kCPU, c10::kPrivateUse1}) {
    const char* suffix = device == c10::kCPU ? "/cpu" : "/neuron";
    auto body = [=](benchmark::State& state) {
      const auto options = at::TensorOptions().device(device);
      const at::Tensor a = at::ones({16}, options).set_requires_grad(grad);
      const at::Tensor b = at::ones({16}, options);
      synchronize(device);
      while (state.KeepRunningBatch(kBatch)) {
        // Stopping the benchmark's own clock costs as much as several ops.
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < kBatch; ++i) benchmark::DoNotOptimize(call(a, b));
        const std::chrono::duration<double> taken =
            std::chrono::steady_clock::now() - start;
        state.SetIterationTime(taken.count());
        synchronize(device);
      }
    };
    benchmark::RegisterBenchmark((name + suffix).c_str(), body)
        ->UseManualTime()
        ->Repetitions(kRepetitions)
        ->ReportAggregatesOnly()
        ->ComputeStatistics("min", [](const std::vector<double>& times) {
          return *std::min_element(times.begin(), times.end());
        });
  }
}

void register_all() {
  const auto add = [](const at::Tensor& a, const at::Tensor& b) { return at::add(a, b); };
  measure("add", false, add);
  measure("add_needs_grad", true, add);
  measure("add_in_no_grad", true, [=](const at::Tensor& a, const at::Tensor& b) {
    const c10::AutoGradMode off(false);
    return add(a, b);
  });
  measure("mul", false,
          [](const at::Tensor& a, const at::Tensor& b) { return at::mul(a, b); });
  measure("as_strided", false, [](const at::Tensor& a, const at::Tensor&) {
    return at::as_strided(a, {4}, {1}, 2);
  });
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  // The device takes its mode from the environment when it starts.
  setenv("NEURON_ADAPTIVE_EAGER", "1", /*overwrite=*/1);
  register_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
