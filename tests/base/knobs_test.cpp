#include "base/knobs.h"

#include <gtest/gtest.h>

namespace neuron {
namespace {

struct Reading {
  Knobs knobs;
  KnobReport report;
};

Reading read(const std::vector<std::string>& environment) {
  Reading reading;
  reading.knobs = read_knobs(environment, reading.report);
  return reading;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The only complaint of reading `entry`, which must be an error.
std::string error_of(const std::string& entry) {
  const Reading reading = read({entry});
  EXPECT_EQ(reading.report.errors.size(), 1u) << entry;
  EXPECT_TRUE(reading.report.warnings.empty()) << entry;
  return reading.report.errors.empty() ? "" : reading.report.errors[0];
}

std::string warning_of(const std::string& entry) {
  const Reading reading = read({entry});
  EXPECT_EQ(reading.report.warnings.size(), 1u) << entry;
  EXPECT_TRUE(reading.report.errors.empty()) << entry;
  return reading.report.warnings.empty() ? "" : reading.report.warnings[0];
}

void expect_silence(const std::string& entry) {
  const Reading reading = read({entry});
  EXPECT_TRUE(reading.report.errors.empty()) << entry;
  EXPECT_TRUE(reading.report.warnings.empty()) << entry;
}

TEST(Knobs, AnEmptyEnvironmentGivesTheDefaults) {
  const Knobs knobs = read({}).knobs;
  EXPECT_FALSE(knobs.adaptive_eager);
  EXPECT_EQ(knobs.num_cores, 1);
  EXPECT_EQ(knobs.visible_cores, "");
  EXPECT_EQ(knobs.chip, Chip::kTrn2);
  EXPECT_EQ(knobs.hbm_bytes, 0);  // the chip's
}

TEST(Knobs, NamesAreWordsBetweenCommas) {
  EXPECT_EQ(read({}).knobs.log.text, "");
  EXPECT_EQ(read({"NEURON_LOG=windows,cache"}).knobs.log.text, "windows,cache");
  EXPECT_EQ(read({"NEURON_DENY_OPS=aten::add,gelu"}).knobs.deny_ops.text,
            "aten::add,gelu");
  EXPECT_TRUE(has(error_of("NEURON_LOG=windows cache"), "names between commas"));
  EXPECT_TRUE(has(error_of("NEURON_DENY_OPS=,add"), "names between commas"));
}

TEST(Knobs, GoodValuesAreTaken) {
  const Reading reading = read({"NEURON_ADAPTIVE_EAGER=1", "NEURON_WINDOW_OPS=32",
                                "NEURON_RT_VISIBLE_CORES=0,2-3"});
  EXPECT_TRUE(reading.knobs.adaptive_eager);
  EXPECT_EQ(reading.knobs.window_ops, 32);
  EXPECT_EQ(reading.knobs.visible_cores, "0,2-3");
  EXPECT_TRUE(reading.report.errors.empty());
}

TEST(Knobs, ABadBoolIsRefusedByNameWithWhatIsAllowed) {
  const std::string error = error_of("NEURON_ADAPTIVE_EAGER=yes");
  EXPECT_TRUE(has(error, "NEURON_ADAPTIVE_EAGER")) << error;
  EXPECT_TRUE(has(error, "'yes'")) << error;
  EXPECT_TRUE(has(error, "0 or 1")) << error;
}

TEST(Knobs, ABadNumberIsRefusedByNameWithItsBounds) {
  const std::string error = error_of("NEURON_RT_NUM_CORES=many");
  EXPECT_TRUE(has(error, "NEURON_RT_NUM_CORES")) << error;
  EXPECT_TRUE(has(error, "'many'")) << error;
  EXPECT_TRUE(has(error, "1 to 64")) << error;
}

TEST(Knobs, ABadListOfCoresIsRefused) {
  EXPECT_TRUE(has(error_of("NEURON_RT_VISIBLE_CORES=all"), "0,2-3"));
}

TEST(Knobs, ABadValueKeepsTheDefault) {
  EXPECT_EQ(read({"NEURON_WINDOW_OPS=0"}).knobs.window_ops, Knobs().window_ops);
}

TEST(Knobs, BothBoundsAreAllowedAndNothingBeyond) {
  EXPECT_EQ(read({"NEURON_RT_NUM_CORES=1"}).knobs.num_cores, 1);
  EXPECT_EQ(read({"NEURON_RT_NUM_CORES=64"}).knobs.num_cores, 64);
  error_of("NEURON_RT_NUM_CORES=0");
  error_of("NEURON_RT_NUM_CORES=65");
  error_of("NEURON_RT_NUM_CORES=-1");
}

TEST(Knobs, ANumberThatFitsNoWordIsRefused) {
  error_of("NEURON_SIM_HBM_BYTES=99999999999999999999999");
}

TEST(Knobs, ANumberWithATailIsRefused) {
  error_of("NEURON_SIM_HBM_BYTES=24GiB");
  error_of("NEURON_SIM_HBM_BYTES=");
}

TEST(Knobs, EachBadValueIsReported) {
  EXPECT_EQ(read({"NEURON_STRICT=2", "NEURON_WINDOW_OPS=x"}).report.errors.size(), 2u);
}

TEST(Knobs, AnUnknownVariableGetsTheNearestName) {
  const std::string warning = warning_of("NEURON_ADAPTIV_EAGER=1");
  EXPECT_TRUE(has(warning, "NEURON_ADAPTIV_EAGER")) << warning;
  EXPECT_TRUE(has(warning, "did you mean NEURON_ADAPTIVE_EAGER?")) << warning;
  EXPECT_TRUE(has(warning_of("TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED=1"),
                  "TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS"));
}

TEST(Knobs, VariablesOfTheRealStackAreSilent) {
  expect_silence("NEURON_CC_FLAGS=--lnc=1");
  expect_silence("NEURON_RT_LOG_LEVEL=INFO");
  expect_silence("NEURON_COMPILE_CACHE_URL=x");
  expect_silence("TORCH_NEURONX_LOG_LEVEL=2");
}

TEST(Knobs, VariablesOfOthersAreSilent) {
  expect_silence("PATH=/bin");
  expect_silence("MY_NEURON_STRICT=7");
  expect_silence("no equals sign");
}

TEST(Knobs, TheListHasEveryRowWithItsDefault) {
  bool found = false;
  for (const KnobInfo& info : list_knobs()) {
    EXPECT_FALSE(info.help.empty()) << info.name;
    if (info.name != "window_ops") continue;
    found = true;
    EXPECT_EQ(info.env, "NEURON_WINDOW_OPS");
    EXPECT_EQ(info.default_value, "256");
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace neuron
