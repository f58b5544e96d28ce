#include "lazy/window.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ir/graph_maker.h"
#include "lazy/flush.h"

namespace neuron::lazy {
namespace {

TEST(WindowEnd, EveryReasonHasANameOfItsOwnAndAnExplanation) {
  std::set<std::string> names;
  for (int i = 0; i < static_cast<int>(WindowEnd::kCount); ++i) {
    const auto end = static_cast<WindowEnd>(i);
    EXPECT_TRUE(names.insert(window_end_name(end)).second) << window_end_name(end);
    EXPECT_STRNE(window_end_help(end), "");
  }
}

TEST(WindowEnd, TheNameBelongsToTheReason) {
  EXPECT_STREQ(window_end_name(WindowEnd::kValueRead), "value-read");
  EXPECT_STREQ(window_end_name(WindowEnd::kLaunchBlocking), "launch-blocking");
}

TEST(WindowProgram, DescribesTheOpTheStreamAndTheLine) {
  Road road;
  ProgramPool pool(road);
  WindowProgram program(pool, road);
  add_node(program.graph, ir::Op::kNeg, {{0}});
  program.stream = 3;
  EXPECT_EQ(program.describe({}),
            "while running aten::neg f32[4] b0 ->  on stream 3, recorded at "
            "<no Python line>");
}

TEST(ProgramPool, ARetiredProgramIsEmptiedAndUsedAgain) {
  Road road;
  ProgramPool pool(road);
  WindowProgramPtr program = pool.take();
  WindowProgram* address = program.get();
  add_node(program->graph, ir::Op::kNeg, {{0}}, "aten::neg");
  program->steps.emplace_back();
  program->accesses.emplace_back();
  program->releases.push_back(0);
  program.reset();
  program = pool.take();
  EXPECT_EQ(program.get(), address);
  EXPECT_TRUE(program->graph.nodes.empty() && program->graph.calls.empty());
  EXPECT_TRUE(program->buffers.empty() && program->steps.empty());
  EXPECT_TRUE(program->accesses.empty() && program->releases.empty());
}

TEST(ProgramPool, ProgramsInUseAreDistinct) {
  Road road;
  ProgramPool pool(road);
  const WindowProgramPtr one = pool.take(), two = pool.take();
  EXPECT_NE(one, two);
}

TEST(ProgramPool, MoreProgramsThanItKeepsMayComeBack) {
  Road road;
  ProgramPool pool(road);
  std::vector<WindowProgramPtr> programs;
  for (int i = 0; i < 200; ++i) programs.push_back(pool.take());
  programs.clear();
  EXPECT_NE(pool.take(), nullptr);
}

TEST(ProgramPool, ThreadsTakeAndReturn) {
  Road road;
  ProgramPool pool(road);
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([&pool] {
      for (int i = 0; i < 500; ++i) {
        const WindowProgramPtr program = pool.take();
        EXPECT_TRUE(program->graph.nodes.empty());
        add_node(program->graph, ir::Op::kNeg, {{0}});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Stream, IsEmptyUntilAnOpIsRecorded) {
  Road road;
  ProgramPool pool(road);
  Stream stream;
  EXPECT_TRUE(stream.is_empty());
  stream.program = pool.take();
  EXPECT_TRUE(stream.is_empty());
  add_node(stream.program->graph, ir::Op::kNeg, {{0}});
  EXPECT_FALSE(stream.is_empty());
}

}  // namespace
}  // namespace neuron::lazy
