// Matrix products by our kernels next to the library's (at::mm, at::bmm on the CPU).
//
//   matmul            float32, one thread and all
//   matmul f64        float64
//   matmul f32 quick  fewer rounds
//
// Rounds alternate between the two sides. A row gives GFLOP/s of the fastest round and
// the median over rounds of the ratio of paired times: above 1 ours is faster.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "fusion/kernels/matmul.h"

namespace {

using neuron::fusion::Matrices;

struct Shape {
  const char* what;
  int64_t batch;
  int64_t m;
  int64_t n;
  int64_t k;
  const char* layouts;  // of a and b: N row-major, T column-major
};

const Shape kShapes[] = {
    {"square", 1, 256, 256, 256, "NN"},
    {"square", 1, 256, 256, 256, "NT"},
    {"square", 1, 384, 384, 384, "NN"},
    {"square", 1, 512, 512, 512, "NN"},
    {"square", 1, 512, 512, 512, "NT"},
    {"square", 1, 512, 512, 512, "TN"},
    {"square", 1, 768, 768, 768, "NN"},
    {"square", 1, 1024, 1024, 1024, "NN"},
    {"square", 1, 1024, 1024, 1024, "NT"},
    {"square", 1, 1024, 1024, 1024, "TN"},
    {"square", 1, 1000, 1000, 1000, "NN"},
    {"block, up", 1, 512, 1024, 256, "NT"},
    {"block, down", 1, 512, 256, 1024, "NT"},
    {"block, gradient", 1, 1024, 256, 512, "TN"},
    {"vocabulary", 1, 512, 2000, 256, "NT"},
    {"small", 1, 8, 8, 8, "NN"},
    {"small", 1, 16, 16, 16, "NN"},
    {"small", 1, 32, 32, 32, "NN"},
    {"small", 1, 64, 64, 64, "NN"},
    {"small", 1, 64, 64, 64, "NT"},
    {"small", 1, 128, 128, 128, "NN"},
    {"small", 1, 128, 128, 128, "NT"},
    {"thin", 1, 1, 512, 512, "NT"},
    {"thin", 1, 1, 1024, 1024, "NN"},
    {"thin", 1, 4, 256, 256, "NT"},
    {"thin", 1, 8, 1024, 1024, "NT"},
    {"thin", 1, 16, 512, 512, "NT"},
    {"thin", 1, 16, 512, 512, "NN"},
    {"thin", 1, 32, 256, 784, "NT"},
    {"thin", 1, 32, 10, 256, "NT"},
    {"thin", 1, 64, 10, 784, "NT"},
    {"tall", 1, 4096, 10, 64, "NT"},
    {"tall", 1, 4096, 64, 16, "NT"},
    {"tall", 1, 1024, 1, 64, "NT"},
    {"vector", 1, 256, 1, 256, "NN"},
    {"vector", 1, 1024, 1, 1024, "NN"},
    {"vector", 1, 1024, 1, 1024, "TN"},
    {"outer", 1, 512, 512, 1, "NN"},
    {"outer", 1, 256, 256, 8, "TN"},
    {"long", 1, 10, 64, 4096, "TN"},
    {"long", 1, 64, 64, 4096, "TN"},
    {"long", 1, 1, 64, 4096, "TN"},
    {"heads", 64, 64, 64, 32, "NT"},
    {"heads", 64, 64, 32, 64, "NN"},
    {"heads", 64, 64, 32, 64, "TN"},
    {"heads", 32, 128, 128, 64, "NT"},
    {"heads", 12, 256, 256, 64, "NT"},
    {"heads", 12, 256, 64, 256, "NN"},
    {"batch", 256, 16, 16, 16, "NN"},
    {"batch", 1000, 4, 4, 4, "NN"},
};

// With one thread its own time, which does not run while other processes do.
double seconds_now() {
  timespec now{};
  clock_gettime(neuron::num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC,
                &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Body>
double seconds_of(int64_t calls, const Body& body) {
  const double start = seconds_now();
  for (int64_t i = 0; i < calls; ++i) body();
  return (seconds_now() - start) / static_cast<double>(calls);
}

at::Tensor stack_of(int64_t batch, int64_t rows, int64_t columns, bool is_transposed,
                    at::ScalarType dtype) {
  const auto options = at::TensorOptions().dtype(dtype);
  if (!is_transposed) return at::randn({batch, rows, columns}, options);
  return at::randn({batch, columns, rows}, options).transpose(1, 2);
}

Matrices matrices_of(const at::Tensor& stack) {
  return {stack.data_ptr(), stack.stride(1), stack.stride(2), stack.stride(0)};
}

void run(const Shape& shape, at::ScalarType dtype, int rounds) {
  const at::Tensor a =
      stack_of(shape.batch, shape.m, shape.k, shape.layouts[0] == 'T', dtype);
  const at::Tensor b =
      stack_of(shape.batch, shape.k, shape.n, shape.layouts[1] == 'T', dtype);
  const at::Tensor out = at::empty({shape.batch, shape.m, shape.n}, a.options());
  const at::Tensor theirs_out = at::empty(out.sizes(), a.options());
  const auto kind =
      dtype == at::kFloat ? neuron::ir::DType::kFloat32 : neuron::ir::DType::kFloat64;
  const at::Tensor a2 = a[0];
  const at::Tensor b2 = b[0];
  at::Tensor out2 = theirs_out[0];
  at::Tensor out3 = theirs_out;
  const auto ours = [&] {
    neuron::fusion::matmul(kind, {shape.batch, shape.m, shape.n, shape.k}, matrices_of(a),
                           matrices_of(b), {}, out.data_ptr());
  };
  const auto theirs = [&] {
    if (shape.batch == 1) {
      at::mm_out(out2, a2, b2);
    } else {
      at::bmm_out(out3, a, b);
    }
  };
  ours();
  theirs();
  const auto calls =
      static_cast<int64_t>(1 + 2e-4 / std::max(seconds_of(1, theirs), 1e-7));
  std::vector<double> ratios;
  double best = 1;
  double their_best = 1;
  for (int i = 0; i < rounds; ++i) {
    const double x = seconds_of(calls, ours);
    const double y = seconds_of(calls, theirs);
    ratios.push_back(y / x);
    best = std::min(best, x);
    their_best = std::min(their_best, y);
  }
  std::sort(ratios.begin(), ratios.end());
  const double work = 2e-9 * static_cast<double>(shape.batch * shape.m * shape.n) *
                      static_cast<double>(shape.k);
  std::printf("%-16s %4ld x %4ld %4ld %4ld %s  %7.1f %7.1f %9.2f us  %5.2f  %5.2f\n",
              shape.what, shape.batch, shape.m, shape.n, shape.k, shape.layouts,
              work / best, work / their_best, best * 1e6, their_best / best,
              ratios[ratios.size() / 2]);
}

}  // namespace

int main(int argc, char** argv) {
  const auto dtype = argc > 1 && std::string(argv[1]) == "f64" ? at::kDouble : at::kFloat;
  const int rounds = argc > 2 ? 15 : 51;
  const int machine = neuron::num_threads();
  for (int threads : {1, machine}) {
    neuron::set_num_threads(threads);
    at::set_num_threads(threads);
    std::printf("\n%d threads, %s\n%-38s %7s %7s %12s  %5s  %5s\n", threads,
                dtype == at::kFloat ? "float32" : "float64", "batch x m n k", "ours",
                "library", "ours", "best", "median");
    for (const Shape& shape : kShapes) run(shape, dtype, rounds);
  }
  return 0;
}
