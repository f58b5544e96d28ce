#include "lazy/compiler.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "base/notices.h"
#include "lazy/journal.h"

namespace neuron::lazy {
namespace {

// A code generator whose objects are the names of nothing.
struct FakeCodegen {
  std::atomic<int> emits{0};
  std::atomic<int> loads{0};
  std::atomic<bool> emits_nothing{false};
  std::atomic<bool> holds{false};  // emit does not return
};
FakeCodegen fake;

void kernel_function(void* const*, const uint64_t*, int64_t) {}

const char* fake_target() { return "no processor"; }
void fake_emit(const fusion::CodegenCode*, int, const char*,
               const fusion::CodegenTaker* object, const fusion::CodegenTaker* reason) {
  ++fake.emits;
  while (fake.holds) std::this_thread::yield();
  const auto* taker = fake.emits_nothing ? reason : object;
  taker->take(taker->context, "text", 4);
}
void* fake_load(const char*, size_t, const char*, void** handle,
                const fusion::CodegenTaker*) {
  ++fake.loads;
  *handle = &fake;
  return reinterpret_cast<void*>(&kernel_function);
}
void fake_unload(void*) { --fake.loads; }

constexpr fusion::CodegenTable kFake{"fake",     &fake_target, &fake_emit,
                                     &fake_load, &fake_unload, nullptr};
const fusion::CodegenTable* open_fake(std::string&) { return &kFake; }
const fusion::CodegenTable* open_none(std::string& reason) {
  reason = "the test has no LLVM";
  return nullptr;
}

// A kernel of `num_instrs` instructions over `numel` elements.
ir::PointwiseKernel kernel_of(size_t num_instrs, int64_t numel) {
  ir::PointwiseKernel kernel;
  kernel.code.instrs.resize(num_instrs);
  kernel.numel = numel;
  return kernel;
}

class CompilerTest : public testing::Test {
 protected:
  static constexpr int64_t kRuns = 8;

  static std::unique_ptr<cache::KernelCache> new_cache() {
    return std::make_unique<cache::KernelCache>();
  }

  void SetUp() override {
    fake.emits = fake.loads = 0;
    fake.emits_nothing = fake.holds = false;
  }

  // Counts runs until the kernel is asked for; how many it took, at most `limit`.
  int runs_until_asked(Compiler& compiler, const ir::PointwiseKernel& kernel, int limit) {
    cache::make_key(kernel.code, key_);
    entry_ = cache_->find_or_add(key_);
    for (int runs = 1; runs <= limit; ++runs) {
      compiler.count_run(entry_, key_, kernel);
      if (entry_->is_asked) return runs;
    }
    return limit + 1;
  }
  static void wait(const Compiler& compiler) {
    while (compiler.counts().waiting > 0) std::this_thread::yield();
  }

  std::unique_ptr<cache::KernelCache> cache_ = new_cache();
  cache::Key key_;
  std::shared_ptr<cache::KernelEntry> entry_;
};

TEST_F(CompilerTest, SmallKernelsAndSingleOpsCannotGain) {
  EXPECT_FALSE(Compiler::can_gain(kernel_of(4, 256)));
  EXPECT_FALSE(Compiler::can_gain(kernel_of(1, 1 << 20)));
  EXPECT_TRUE(Compiler::can_gain(kernel_of(4, 1024)));
  EXPECT_TRUE(Compiler::can_gain(kernel_of(64, 64)));
}

TEST_F(CompilerTest, LongKernelsAreNotCompiled) {
  EXPECT_TRUE(Compiler::can_gain(kernel_of(120, 1 << 20)));
  EXPECT_FALSE(Compiler::can_gain(kernel_of(121, 1 << 20)));
}

TEST_F(CompilerTest, AKernelOfUnitWorkIsAskedForAfterTheGivenRuns) {
  Compiler compiler(&open_fake, kRuns, nullptr);
  const auto kernel = kernel_of(4, Compiler::kUnit / 4);
  EXPECT_EQ(runs_until_asked(compiler, kernel, 100), kRuns);
}

TEST_F(CompilerTest, ALargeKernelIsAskedForAtItsSecondRun) {
  Compiler compiler(&open_fake, kRuns, nullptr);
  EXPECT_EQ(runs_until_asked(compiler, kernel_of(16, 1 << 24), 100), 2);
}

TEST_F(CompilerTest, ASmallKernelHasToRunLonger) {
  Compiler compiler(&open_fake, kRuns, nullptr);
  EXPECT_EQ(runs_until_asked(compiler, kernel_of(4, Compiler::kUnit / 64), 1000),
            kRuns * 16);
}

TEST_F(CompilerTest, CodeAppearsInTheEntry) {
  Compiler compiler(&open_fake, kRuns, nullptr);
  runs_until_asked(compiler, kernel_of(16, 1 << 24), 2);
  wait(compiler);
  const void* code = entry_->code.load();
  ASSERT_NE(code, nullptr);
  EXPECT_EQ(static_cast<const fusion::CompiledPointwise*>(code)->function(),
            &kernel_function);
  EXPECT_EQ(compiler.counts().compiles, 1u);
}

TEST_F(CompilerTest, CodeIsFreedWithTheLastEntry) {
  Compiler compiler(&open_fake, kRuns, nullptr);
  runs_until_asked(compiler, kernel_of(16, 1 << 24), 2);
  wait(compiler);
  compiler.shut_down();
  EXPECT_EQ(fake.loads, 1);
  cache_.reset();
  entry_.reset();
  EXPECT_EQ(fake.loads, 0);
}

TEST_F(CompilerTest, AKernelThatCannotBeCompiledIsTriedOnce) {
  fake.emits_nothing = true;
  Compiler compiler(&open_fake, kRuns, nullptr);
  const auto kernel = kernel_of(16, 1 << 24);
  runs_until_asked(compiler, kernel, 2);
  wait(compiler);
  for (int i = 0; i < 10; ++i) compiler.count_run(entry_, key_, kernel);
  wait(compiler);
  EXPECT_EQ(entry_->code.load(), nullptr);
  EXPECT_EQ(fake.emits, 1);
  EXPECT_EQ(compiler.counts().failures, 1u);
}

TEST_F(CompilerTest, WithoutACodeGeneratorNothingIsAskedForAgain) {
  take_notices();
  Compiler compiler(&open_none, kRuns, nullptr);
  runs_until_asked(compiler, kernel_of(16, 1 << 24), 2);
  wait(compiler);
  EXPECT_EQ(runs_until_asked(compiler, kernel_of(17, 1 << 24), 20), 21);
  const auto texts = take_notices();
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_NE(texts[0].find("the test has no LLVM"), std::string::npos) << texts[0];
}

TEST_F(CompilerTest, TheFirstFailureIsANoticeAndNoOther) {
  take_notices();
  fake.emits_nothing = true;
  Compiler compiler(&open_fake, kRuns, nullptr);
  for (size_t n = 2; n < 5; ++n) {
    runs_until_asked(compiler, kernel_of(n, 1 << 24), 2);
    wait(compiler);
  }
  EXPECT_EQ(compiler.counts().failures, 3u);
  EXPECT_EQ(take_notices().size(), 1u);
}

TEST_F(CompilerTest, WritesWhatItDidIntoTheJournal) {
  JournalReader reader(1u << static_cast<int>(Topic::kCompile));
  Compiler compiler(&open_fake, kRuns, nullptr);
  runs_until_asked(compiler, kernel_of(16, 1 << 24), 2);
  wait(compiler);
  compiler.fail_on_purpose(true);
  runs_until_asked(compiler, kernel_of(17, 1 << 24), 2);
  wait(compiler);
  const auto entries = reader.take();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_STREQ(entries[0]->event, "compiled");
  EXPECT_STREQ(entries[1]->event, "failed");
  EXPECT_EQ(std::get<int64_t>(entries[0]->values[0].second), 16);
}

TEST_F(CompilerTest, WhatWaitsIsBounded) {
  fake.holds = true;
  Compiler compiler(&open_fake, kRuns, nullptr);
  int asked = 0;
  for (size_t n = 2; n < 102; ++n) {
    asked += runs_until_asked(compiler, kernel_of(n, 1 << 24), 2) <= 2 ? 1 : 0;
  }
  EXPECT_GE(asked, 64);
  EXPECT_LE(asked, 65);
  fake.holds = false;
}

TEST_F(CompilerTest, ShutDownDropsWhatWaits) {
  fake.holds = true;
  Compiler compiler(&open_fake, kRuns, nullptr);
  for (size_t n = 2; n < 12; ++n) {
    runs_until_asked(compiler, kernel_of(n, 1 << 24), 2);
  }
  while (fake.emits == 0) std::this_thread::yield();
  std::thread ends([&] { compiler.shut_down(); });
  while (compiler.counts().waiting > 1) std::this_thread::yield();
  fake.holds = false;
  ends.join();
  EXPECT_EQ(fake.emits, 1);
  EXPECT_EQ(runs_until_asked(compiler, kernel_of(50, 1 << 24), 20), 21);
}

TEST_F(CompilerTest, AnotherProcessFindsTheObjectOnDisk) {
  const auto directory = std::filesystem::path(testing::TempDir()) /
                         ("compiler_test_" + std::to_string(::getpid()));
  const auto new_disk = [&] {
    return std::make_unique<cache::DiskCache>(directory, 1 << 20);
  };
  for (int round = 0; round < 2; ++round) {
    cache_ = new_cache();
    Compiler compiler(&open_fake, kRuns, new_disk());
    runs_until_asked(compiler, kernel_of(16, 1 << 24), 2);
    wait(compiler);
    EXPECT_NE(entry_->code.load(), nullptr);
    EXPECT_EQ(compiler.counts().disk_hits, round == 0 ? 0u : 1u);
  }
  EXPECT_EQ(fake.emits, 1);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace neuron::lazy
