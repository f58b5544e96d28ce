// Replays a recorded step without running any kernel: what is left is the time of the
// script itself, of autograd, of the dispatcher and of making tensors. No engine that
// leaves the script alone can be faster than that.
//
// A boxed fallback on a dispatch key that lies below autograd sees every op. In mode 1 it
// runs the op and keeps the outputs; in mode 2 it gives fresh handles of the kept
// outputs. Views really run (they are metadata). In-place ops give back their argument. A
// host read gives the kept value, so control flow repeats.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/add.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <chrono>
#include <unordered_map>
#include <vector>

namespace {

constexpr auto kKey = c10::DispatchKey::Fake;
enum class Kind : uint8_t { kView, kInPlace, kFunctional };

struct Entry {
  const void* op;
  std::vector<c10::IValue> outs;
};

int mode = 0;
size_t pos = 0, mismatches = 0;
std::vector<Entry> tape;
std::unordered_map<const void*, Kind> kinds;

Kind kind_of(const c10::FunctionSchema& s) {
  bool view = !s.returns().empty(), in_place = false;
  for (auto& r : s.returns()) view &= r.alias_info() && !r.alias_info()->isWrite();
  for (auto& a : s.arguments()) in_place |= a.alias_info() && a.alias_info()->isWrite();
  return view ? Kind::kView : in_place ? Kind::kInPlace : Kind::kFunctional;
}

at::Tensor fresh(const at::Tensor& t) {
  if (!t.defined()) return t;
  return at::Tensor(
      t.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), true));
}

c10::IValue fresh(const c10::IValue& v) {
  if (v.isTensor()) return fresh(v.toTensor());
  if (v.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const at::Tensor t : v.toTensorList()) out.push_back(fresh(t));
    return out;
  }
  return v;
}

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet ks,
              torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const auto below = ks & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey);
  auto [it, added] = kinds.try_emplace(&schema, Kind::kView);
  if (added) it->second = kind_of(schema);
  const Kind kind = it->second;
  if (mode == 2 && kind != Kind::kView) {
    const size_t args = schema.arguments().size();
    if (pos >= tape.size() || tape[pos].op != &schema) {
      ++mismatches;  // then run it for real
    } else if (kind == Kind::kInPlace) {
      ++pos;
      std::vector<c10::IValue> outs;
      for (auto& r : schema.returns())
        for (size_t i = 0; i < args; ++i) {
          auto* a = schema.arguments()[i].alias_info();
          if (r.alias_info() && a && a->isWrite() &&
              a->beforeSets() == r.alias_info()->beforeSets()) {
            outs.push_back((*stack)[stack->size() - args + i]);
            break;
          }
        }
      torch::jit::drop(*stack, args);
      for (auto& o : outs) stack->push_back(std::move(o));
      return;
    } else {
      torch::jit::drop(*stack, args);
      for (auto& o : tape[pos].outs) stack->push_back(fresh(o));
      ++pos;
      return;
    }
  }
  c10::impl::ExcludeDispatchKeyGuard guard(kKey);
  op.redispatchBoxed(below, stack);
  if (mode == 1 && kind != Kind::kView) {
    Entry e{&schema, {}};
    if (kind == Kind::kFunctional) {
      const size_t n = schema.returns().size();
      for (size_t i = 0; i < n; ++i)
        e.outs.push_back(fresh((*stack)[stack->size() - n + i]));
    }
    tape.push_back(std::move(e));
  }
}

TORCH_LIBRARY_IMPL(_, Fake, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace

extern "C" {
void floor_mode(int m) {
  mode = m;
  pos = 0;
  if (m == 1) tape.clear();
  c10::impl::tls_set_dispatch_key_included(kKey, m != 0);
}
// us per at::add called from C++ in mode m, no autograd: the cost of this fallback when m
// is 2.
double floor_add_us(int m, int n) {
  c10::InferenceMode inference;
  auto a = at::ones({8, 8}), b = at::ones({8, 8});
  double best = 1e9;
  for (int round = 0; round < 50; ++round) {
    if (m == 2) {
      floor_mode(1);
      for (int i = 0; i < n; ++i) at::add(a, b);
    }
    floor_mode(m);
    const auto t = std::chrono::steady_clock::now();
    for (int i = 0; i < n; ++i) at::add(a, b);
    best = std::min(best, std::chrono::duration<double, std::micro>(
                              std::chrono::steady_clock::now() - t)
                                  .count() /
                              n);
    floor_mode(0);
  }
  return best;
}
// The same for a view.
double floor_view_us(int m, int n) {
  c10::InferenceMode inference;
  auto a = at::ones({8, 8});
  double best = 1e9;
  for (int round = 0; round < 50; ++round) {
    floor_mode(m);
    const auto t = std::chrono::steady_clock::now();
    for (int i = 0; i < n; ++i) a.view({64});
    best = std::min(best, std::chrono::duration<double, std::micro>(
                              std::chrono::steady_clock::now() - t)
                                  .count() /
                              n);
    floor_mode(0);
  }
  return best;
}
size_t floor_mismatches() { return mismatches; }
size_t floor_tape() { return tape.size(); }
size_t floor_pos() { return pos; }
}
