// The tunables of the project, read once from the environment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace neuron {

/// The chips that can be simulated.
enum class Chip : uint8_t { kTrn2, kTrn3 };

/// Words between commas.
struct NameList {
  std::string text;
  NameList(const char* names) : text(names) {}  // NOLINT: a default of the table
};

/// Values of all knobs; one member per row of knobs.def.
struct Knobs {
  using Bool = bool;
  using Int = int64_t;
  using Text = std::string;
  using Path = std::filesystem::path;
  using Names = NameList;
#define NEURON_KNOB(member, env, type, def, least, most, help) type member = def;
#include "base/knobs.def"
#undef NEURON_KNOB
};

/// One row of the table with its present value as text, for documentation and `doctor`.
struct KnobInfo {
  std::string name, env, value, default_value, help;
};

/// What reading the environment found.
struct KnobReport {
  std::vector<std::string>
      errors;  // bad values, each naming the variable and what is allowed
  std::vector<std::string>
      warnings;  // unknown variables, each with the nearest known name
};

/// The knobs of this process. The first call reads the environment; bad values keep their
/// default and are listed in `knob_report`.
const Knobs& knobs();
const KnobReport& knob_report();
std::vector<KnobInfo> list_knobs();

/// Where the user's caches are: XDG_CACHE_HOME, or .cache in the home directory.
std::filesystem::path user_cache_directory();

/// Reads knobs from `environment` ("NAME=value" strings); for tests.
Knobs read_knobs(const std::vector<std::string>& environment, KnobReport& report);

}  // namespace neuron
