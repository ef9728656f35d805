#include "compile/program.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "axpy_graph.h"
#include "device_test.h"
#include "fake_control.h"
#include "lasting_runtime.h"

namespace torch_pjrt::compile {
namespace {

using pjrt::error_of;
using pjrt::HostArray;

// x + alpha * y for two f32[s0,16], alpha a value.
Graph add_graph(double alpha, bool names_symbol = true) {
  Graph g;
  Size rows = 4;
  if (names_symbol) rows = Size::symbolic(g.exprs.add_symbol("s0"), 4);
  const Scalar factor = Scalar::constant(ScalarKind::kFloat, Number::of_float(alpha));
  return axpy_graph(rows, factor, std::move(g));
}

class ProgramTest : public testing::Test {
 protected:
  // One for all: a client is made once per process.
  static Runtime& runtime() {
    static Runtime& instance = lasting_runtime();
    return instance;
  }

  ProgramTest() : control_(FAKE_PLUGIN) { runtime().stats().reset(); }

  static Options options() { return {FAKE_PLUGIN, {}}; }

  // One call as a front end makes it.
  static run::Origin call(Program& program, int64_t rows, run::HostLock& lock,
                          bool transposed = false) {
    const size_t bytes = static_cast<size_t>(rows) * 16 * sizeof(float);
    const HostArray x(bytes);
    const HostArray y(bytes);
    const HostArray z(bytes);
    const Dims dims = {rows, 16};
    const Dims strides = transposed ? Dims{1, rows} : Dims{16, 1};
    const std::vector<Argument> arguments = {{true, {x.data(), DType::kF32, dims, strides}, 0},
                                             {true, {y.data(), DType::kF32, dims, strides}, 0}};
    Program::Found found{program.match(arguments, lower::Precision::kHighest),
                         run::Origin::kMemory};
    if (!found.entry) found = program.find(arguments, lower::Precision::kHighest, lock);
    const std::vector<void*> outputs = {z.data()};
    program.run(found, arguments, program.symbols(*found.entry, arguments), outputs, lock);
    return found.origin;
  }
  static run::Origin call(Program& program, int64_t rows, bool transposed = false) {
    run::NoLock lock;
    return call(program, rows, lock, transposed);
  }

  static constexpr run::Origin kCompiled = run::Origin::kCompiled;
  static constexpr run::Origin kMemory = run::Origin::kMemory;

  pjrt::FakeControl control_;
};

TEST_F(ProgramTest, CompilesOncePerSizeAndLayout) {
  Program program(add_graph(2.5), runtime(), options());
  EXPECT_EQ(call(program, 21), kCompiled);
  EXPECT_EQ(call(program, 21), kMemory);
  EXPECT_EQ(call(program, 22), kCompiled);
  EXPECT_EQ(call(program, 21), kMemory);
  EXPECT_EQ(call(program, 21, true), kCompiled);
  EXPECT_EQ(call(program, 21, true), kMemory);
  const run::Counts counts = runtime().stats().snapshot();
  EXPECT_EQ(counts.compiles, 3);
  EXPECT_EQ(counts.executions, counts.compiles + counts.memory_hits);
}

TEST_F(ProgramTest, ManySizesAreEachFoundAgain) {
  Program program(add_graph(2.5), runtime(), options());
  for (int64_t rows = 100; rows < 140; ++rows) EXPECT_EQ(call(program, rows), kCompiled);
  for (int64_t rows = 139; rows >= 100; --rows) EXPECT_EQ(call(program, rows), kMemory);
}

TEST_F(ProgramTest, WhatLeavesTheMemoryIsCompiledAgain) {
  Runtime& small = lasting_runtime({std::nullopt, 0});
  std::vector<std::string> warnings;
  small.log().set([&](const std::string& kind, const std::string& text) {
    if (kind == "warning") warnings.push_back(text);
  });
  Program program(add_graph(2.5), small, options());
  call(program, 20);
  const int64_t live = control_.live("executable");
  for (int64_t rows : {21, 22, 21, 22}) {
    EXPECT_EQ(call(program, rows), kCompiled);
    EXPECT_EQ(call(program, rows), kMemory);
  }
  EXPECT_EQ(small.stats().snapshot().evictions, 4);
  // The thread that compiled holds its program for a moment.
  for (int i = 0; i < 5000 && control_.live("executable") != live; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(control_.live("executable"), live) << "the plugin's memory is given back";
  EXPECT_EQ(warnings.size(), 1u) << "said once";
  small.log().set({});
}

TEST_F(ProgramTest, ARunningCallHoldsWhatIsEvicted) {
  Runtime& small = lasting_runtime({std::nullopt, 0});
  Program program(add_graph(2.5), small, options());
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 25; ++i) call(program, 41 + (i + t) % 3);
    });
  }
  for (auto& thread : threads) thread.join();
  const run::Counts counts = small.stats().snapshot();
  EXPECT_EQ(counts.executions, 100);
  EXPECT_EQ(small.programs().size(), 1);
}

TEST_F(ProgramTest, AnotherNumberIsNoOtherProgram) {
  Program first(add_graph(2.5), runtime(), options());
  Program second(add_graph(3.5), runtime(), options());
  EXPECT_EQ(call(first, 31), kCompiled);
  EXPECT_EQ(call(second, 31), kMemory);
}

TEST_F(ProgramTest, ReportsEachCopiedInputOnce) {
  std::vector<std::string> reports;
  runtime().copies().set([&](const std::vector<CopiedInput>& inputs) {
    std::string text;
    for (const CopiedInput& input : inputs) text += input.name + " " + run::name(input.reason);
    reports.push_back(text);
  });
  Program program(add_graph(2.5), runtime(), options());
  const std::vector<run::Copied> x = {{0, run::CopyReason::kNotAligned}};
  const std::vector<run::Copied> both = {x[0], {1, run::CopyReason::kNotDense}};
  program.report(x);
  program.report(x);
  program.report(both);
  Program(add_graph(2.5), runtime(), options()).report(x);
  runtime().copies().set({});
  Program(add_graph(2.5), runtime(), options()).report(x);
  EXPECT_EQ(reports, (std::vector<std::string>{"x not aligned", "y not dense", "x not aligned"}));
}

TEST_F(ProgramTest, WantsTwoNumbersForEachDraw) {
  Graph graph = add_graph(2.5);
  graph.add_draw();
  Program program(std::move(graph), runtime(), options());
  EXPECT_NE(error_of([&] { call(program, 81); }).find("0 random numbers for 1 draws"),
            std::string::npos);
}

TEST_F(ProgramTest, DrawsArePartOfTheGraph) {
  Graph graph = add_graph(2.5);
  const std::string without = canonical_bytes(graph);
  const ValueId draw = graph.add_draw();
  EXPECT_NE(canonical_bytes(graph), without);
  Output output;
  output.kind = Output::Kind::kValue;
  output.value = draw;
  output.type = {DType::kI64, {2}, {1}, 0};
  graph.outputs.push_back(output);
  EXPECT_NE(lower_text(graph, std::vector<int64_t>{4}).find("tensor<2xi64>"), std::string::npos);
}

TEST_F(ProgramTest, CompilesOnceHoweverManyThreadsCall) {
  Program program(add_graph(2.5), runtime(), options());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) call(program, 41 + i % 2);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(runtime().stats().snapshot().compiles, 2);
  EXPECT_EQ(runtime().stats().snapshot().executions, 400);
}

TEST_F(ProgramTest, EqualProgramsOfManyThreadsShareACompile) {
  std::atomic<int> ready = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      Program program(add_graph(2.5), runtime(), options());
      ++ready;
      while (ready < 8) std::this_thread::yield();
      for (int i = 0; i < 20; ++i) call(program, 61 + i % 2);
      EXPECT_GE(runtime().stats().snapshot().executions, 20);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(runtime().stats().snapshot().compiles, 2);
  EXPECT_EQ(runtime().stats().snapshot().executions, 160);
}

// Programs that came with a graph, in a Runtime without a disk.
class StoredProgramTest : public ProgramTest {
 protected:
  static std::shared_ptr<StoredPrograms> stored(std::initializer_list<int64_t> all_rows) {
    Program program(add_graph(2.5), runtime(), options());
    auto programs = std::make_shared<StoredPrograms>();
    for (const int64_t rows : all_rows) {
      const HostArray memory(static_cast<size_t>(rows) * 16 * sizeof(float));
      const Dims dims = {rows, 16};
      const Dims strides = {16, 1};
      const Argument argument{true, {memory.data(), DType::kF32, dims, strides}, 0};
      run::NoLock lock;
      const std::vector<Argument> arguments = {argument, argument};
      programs->by_key.insert(program.store(arguments, lower::Precision::kHighest, lock));
    }
    return programs;
  }
  Runtime& start() {
    Runtime& runtime = lasting_runtime();
    runtime.log().set([this](const std::string& kind, const std::string& text) {
      if (kind == "warning") warnings_.push_back(text);
    });
    return runtime;
  }

  std::vector<std::string> warnings_;
};

TEST_F(StoredProgramTest, AreLoadedAndOthersCompiled) {
  const auto programs = stored({91, 92});
  EXPECT_EQ(runtime().stats().snapshot().executions, 0) << "nothing is run";
  Options with = options();
  with.stored = programs;
  Program program(add_graph(2.5), start(), with);
  EXPECT_EQ(call(program, 92), run::Origin::kDisk);
  EXPECT_EQ(call(program, 91), run::Origin::kDisk);
  EXPECT_EQ(call(program, 93), kCompiled);
  EXPECT_EQ(call(program, 91), kMemory);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(StoredProgramTest, WhatThePluginRefusesIsCompiledAndSaid) {
  Options with = options();
  with.stored = stored({94});
  Program program(add_graph(2.5), start(), with);
  control_.fail_at("PJRT_Executable_DeserializeAndLoad", 1);
  EXPECT_EQ(call(program, 94), kCompiled);
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(StoredProgramTest, OtherSurroundingsAreSaidOnce) {
  Options with = options();
  with.stored = stored({95, 96});
  with.overrides = {{"some_flag", true}};
  Program program(add_graph(2.5), start(), with);
  EXPECT_EQ(call(program, 95), kCompiled);
  EXPECT_EQ(call(program, 96), kCompiled);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("another compile options"), std::string::npos);
}

// A Runtime per process, as it were, over one folder.
class KeptProgramTest : public ProgramTest {
 protected:
  KeptProgramTest() {
    std::string name = testing::TempDir() + "program_test-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~KeptProgramTest() override { std::filesystem::remove_all(folder_); }

  // Its clients end with the test's process, as every Runtime's do.
  Runtime& start() {
    Runtime& runtime = lasting_runtime({cache::Disk::Options{folder_, 1 << 20}});
    runtime.log().set([this](const std::string& kind, const std::string& text) {
      if (kind == "warning") warnings_.push_back(text);
    });
    return runtime;
  }

  std::string folder_;
  std::vector<std::string> warnings_;
};

TEST_F(KeptProgramTest, IsLoadedByTheNext) {
  Runtime& first = start();
  Program compiled(add_graph(2.5), first, options());
  EXPECT_EQ(call(compiled, 21), kCompiled);
  Runtime& next = start();
  Program loaded(add_graph(2.5), next, options());
  EXPECT_EQ(call(loaded, 21), run::Origin::kDisk);
  EXPECT_EQ(call(loaded, 21), kMemory);
  const run::Counts counts = next.stats().snapshot();
  EXPECT_EQ(counts.disk_hits, 1);
  EXPECT_EQ(counts.executions, counts.compiles + counts.memory_hits + counts.disk_hits);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(KeptProgramTest, WhatLeavesTheMemoryComesBackFromDisk) {
  Runtime& runtime = start();
  runtime.programs().set_max_bytes(0);
  Program program(add_graph(2.5), runtime, options());
  EXPECT_EQ(call(program, 21), kCompiled);
  EXPECT_EQ(call(program, 22), kCompiled);
  EXPECT_EQ(call(program, 21), run::Origin::kDisk);
  EXPECT_EQ(call(program, 22), run::Origin::kDisk);
  EXPECT_EQ(runtime.stats().snapshot().compiles, 2);
  EXPECT_EQ(runtime.stats().snapshot().lowerings, 2);
}

TEST_F(KeptProgramTest, WhereCompilingIsNotAllowedTheDiskIs) {
  Program first(add_graph(2.5), start(), options());
  call(first, 21);
  Runtime& runtime = start();
  Options named{FAKE_PLUGIN, {}};
  named.source = "model.py:3";
  Program program(add_graph(2.5), runtime, named);
  runtime.policies().set(Policy::kError);
  EXPECT_EQ(call(program, 21), run::Origin::kDisk);
  EXPECT_EQ(call(program, 21), kMemory);
  const std::string error = error_of([&] { call(program, 22); });
  for (const char* part : {"not_compiled: ", "model.py:3", "x f32[22,16]", "warmup"}) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }
  Policies::exchange_of_thread(Policy::kAllow);
  EXPECT_EQ(call(program, 22), kCompiled);
  EXPECT_EQ(Policies::exchange_of_thread(std::nullopt), Policy::kAllow);
}

TEST_F(KeptProgramTest, APluginThatCannotStoreIsSaidOnce) {
  Runtime& runtime = start();
  Program program(add_graph(2.5), runtime, options());
  for (int64_t rows : {21, 22}) {
    control_.fail_at("PJRT_Executable_Serialize", 1);
    EXPECT_EQ(call(program, rows), kCompiled);
  }
  EXPECT_EQ(runtime.stats().snapshot().disk_faults, 2);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("can't be kept on disk"), std::string::npos);
}

TEST_F(KeptProgramTest, WhatThePluginRefusesIsCompiledAndReplaced) {
  Program first(add_graph(2.5), start(), options());
  call(first, 21);
  Runtime& runtime = start();
  Program second(add_graph(2.5), runtime, options());
  control_.fail_at("PJRT_Executable_DeserializeAndLoad", 1);
  EXPECT_EQ(call(second, 21), kCompiled);
  EXPECT_EQ(runtime.stats().snapshot().disk_faults, 1);
  Program third(add_graph(2.5), start(), options());
  EXPECT_EQ(call(third, 21), run::Origin::kDisk);
}

TEST_F(ProgramTest, AFailedCompileIsTriedAgain) {
  Program program(add_graph(2.5), runtime(), options());
  call(program, 51);  // the client is there
  ASSERT_TRUE(control_.fail_at("PJRT_Client_Compile", 1));
  EXPECT_NE(error_of([&] { call(program, 52); }), "");
  EXPECT_EQ(call(program, 52), kCompiled);
}

TEST_F(ProgramTest, AnswersAnInterruptWhileItWaits) {
  class Interrupted final : public run::HostLock {
   public:
    void release() noexcept override { held = false; }
    void acquire() noexcept override { held = true; }
    void check_interrupt() override {
      acquire();
      throw std::runtime_error("interrupted");
    }
    bool held = true;
  };
  Program program(add_graph(2.5), runtime(), options());
  call(program, 61);
  // The first compile holds up on the log, which is asked for on its thread.
  std::atomic<bool> go = false;
  runtime().log().set([&](const std::string&, const std::string&) {
    while (!go) std::this_thread::yield();
  });
  Interrupted lock;
  control_.reset();
  EXPECT_THROW(call(program, 62, lock), std::runtime_error);
  EXPECT_TRUE(lock.held);
  runtime().log().set({});
  go = true;
  EXPECT_EQ(call(program, 62), kCompiled) << "the first call to get its program";
  EXPECT_EQ(call(program, 62), kMemory);
  EXPECT_EQ(control_.calls("PJRT_Client_Compile"), 1) << "the compile went on";
}

TEST_F(ProgramTest, SaysWhyItCompiles) {
  std::vector<std::string> lines;
  runtime().log().set([&](const std::string& kind, const std::string& text) {
    if (kind == "compile") lines.push_back(text);
  });
  Program program(add_graph(2.5), runtime(), options());
  call(program, 71);
  call(program, 72);
  runtime().log().set({});
  ASSERT_EQ(lines.size(), 2);
  EXPECT_NE(lines[0].find("the first program of this graph"), std::string::npos);
  EXPECT_NE(
      lines[1].find("differs from this graph's last program in: symbol s0 (x.shape[0]): 71 -> 72;"),
      std::string::npos);
}

TEST_F(ProgramTest, RefusesWhatTheGraphDoesntSay) {
  Program program(add_graph(2.5, false), runtime(), options());
  EXPECT_EQ(error_of([&] { call(program, 5); }),
            "invalid: input 0 (x): expected f32[4,16], got f32[5,16]");
  EXPECT_EQ(call(program, 4), kCompiled);
}

TEST_F(ProgramTest, SaysThatThereIsNoPlugin) {
  Program program(add_graph(2.5), runtime(), {"/no/such.so", {}});
  EXPECT_NE(error_of([&] { call(program, 4); }).find("/no/such.so"), std::string::npos);
}

}  // namespace
}  // namespace torch_pjrt::compile
