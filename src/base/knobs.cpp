#include "base/knobs.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <regex>
#include <string_view>

extern char** environ;

namespace neuron {
namespace {

constexpr std::string_view kOurPrefixes[] = {"NEURON_", "TORCH_NEURONX_"};

// Variables of the real software stack that have no meaning for a simulator: accepted in
// silence. A name that ends in '*' stands for all that begin so.
constexpr std::string_view kForeign[] = {"NEURON_RT_*",
                                         "NEURON_CC_FLAGS",
                                         "NEURON_COMPILE*",
                                         "NEURON_COMPILER_*",
                                         "NEURON_FRAMEWORK_DEBUG",
                                         "NEURON_SCRATCHPAD_PAGE_SIZE",
                                         "NEURON_EAGER_MODEL_CACHE_SIZE",
                                         "NEURON_FALLBACK_ENABLED",
                                         "NEURON_PARALLEL_*",
                                         "NEURON_NUM_*",
                                         "NEURON_TEST_*",
                                         "TORCH_NEURONX_DEBUG_DIR",
                                         "TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS",
                                         "TORCH_NEURONX_DISABLE_*",
                                         "TORCH_NEURONX_COMPLEX_DECOMPOSE",
                                         "TORCH_NEURONX_DYNAMO_*",
                                         "TORCH_NEURONX_LOG_LEVEL",
                                         "TORCH_NEURONX_ENABLE_*",
                                         "TORCH_NEURONX_NEFF_*"};

bool is_foreign(std::string_view name) {
  return std::any_of(std::begin(kForeign), std::end(kForeign),
                     [&](std::string_view known) {
                       if (known.back() != '*') return name == known;
                       return name.starts_with(known.substr(0, known.size() - 1));
                     });
}

// Levenshtein distance.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

const std::vector<std::string>& known_names() {
  static const std::vector<std::string> names = {
#define NEURON_KNOB(member, env, type, def, least, most, help) env,
#include "base/knobs.def"
#undef NEURON_KNOB
  };
  return names;
}

std::string nearest_name(std::string_view name) {
  const auto& names = known_names();
  return *std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return edit_distance(name, a) < edit_distance(name, b);
  });
}

std::string refuse(const char* env, const std::string& got, const std::string& allowed) {
  return std::string("[knobs] ") + env + " has a bad value: got '" + got +
         "', expected " + allowed + "; correct or unset it";
}

// "0,2-3": numbers and rising ranges between commas.
bool is_core_list(const std::string& text) {
  static const std::regex form("[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*");
  if (!std::regex_match(text, form)) return false;
  static const std::regex range("([0-9]+)-([0-9]+)");
  for (std::sregex_iterator at(text.begin(), text.end(), range), end; at != end; ++at) {
    if (std::stoi((*at)[1]) > std::stoi((*at)[2])) return false;
  }
  return true;
}

void parse(const char* env, const std::string& text, int64_t, int64_t, bool& value,
           KnobReport& report) {
  if (text == "0" || text == "1") {
    value = text == "1";
  } else {
    report.errors.push_back(refuse(env, text, "0 or 1"));
  }
}

void parse(const char* env, const std::string& text, int64_t least, int64_t most,
           int64_t& value, KnobReport& report) {
  char* end = nullptr;
  const long long parsed = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || parsed < least || parsed > most) {
    report.errors.push_back(refuse(
        env, text,
        "a whole number from " + std::to_string(least) + " to " + std::to_string(most)));
    return;
  }
  value = parsed;
}

void parse(const char* env, const std::string& text, int64_t, int64_t, std::string& value,
           KnobReport& report) {
  if (!text.empty() && !is_core_list(text)) {
    report.errors.push_back(refuse(env, text, "core numbers such as 0,2-3"));
    return;
  }
  value = text;
}

void parse(const char* env, const std::string& text, int64_t, int64_t, Chip& value,
           KnobReport& report) {
  if (text == "trn2" || text == "gen3") {
    value = Chip::kTrn2;
  } else if (text == "trn3" || text == "gen4") {
    value = Chip::kTrn3;
  } else {
    report.errors.push_back(refuse(env, text, "trn2, gen3, trn3 or gen4"));
  }
}

void parse(const char* env, const std::string& text, int64_t, int64_t, NameList& value,
           KnobReport& report) {
  static const std::regex form("([A-Za-z0-9_:.]+(,[A-Za-z0-9_:.]+)*)?");
  if (!std::regex_match(text, form)) {
    report.errors.push_back(refuse(env, text, "names between commas, such as a,b"));
    return;
  }
  value.text = text;
}

void parse(const char*, const std::string& text, int64_t, int64_t,
           std::filesystem::path& value, KnobReport&) {
  value = text;
}

void read_one(const std::string& name, const std::string& text, Knobs& knobs,
              KnobReport& report) {
#define NEURON_KNOB(member, env, type, def, least, most, help) \
  if (name == env) return parse(env, text, least, most, knobs.member, report);
#include "base/knobs.def"
#undef NEURON_KNOB
  if (is_foreign(name)) return;
  report.warnings.push_back("[knobs] unknown variable " + name + "; did you mean " +
                            nearest_name(name) + "?");
}

std::string show(bool value) { return value ? "1" : "0"; }
std::string show(Chip value) { return value == Chip::kTrn3 ? "trn3" : "trn2"; }
std::string show(int64_t value) { return std::to_string(value); }
std::string show(const std::string& value) { return value; }
std::string show(const NameList& value) { return value.text; }
std::string show(const std::filesystem::path& value) { return value.string(); }

struct State {
  Knobs knobs;
  KnobReport report;
  State() {
    std::vector<std::string> environment;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      environment.emplace_back(*entry);
    }
    knobs = read_knobs(environment, report);
  }
};

const State& state() {
  static const State* state = new State;  // never destroyed: exit handlers read knobs
  return *state;
}

}  // namespace

Knobs read_knobs(const std::vector<std::string>& environment, KnobReport& report) {
  Knobs knobs;
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = entry.substr(0, equals);
    const bool ours =
        std::any_of(std::begin(kOurPrefixes), std::end(kOurPrefixes),
                    [&](std::string_view p) { return name.starts_with(p); });
    if (ours) read_one(name, entry.substr(equals + 1), knobs, report);
  }
  return knobs;
}

const Knobs& knobs() { return state().knobs; }
const KnobReport& knob_report() { return state().report; }

std::filesystem::path user_cache_directory() {
  const char* caches = std::getenv("XDG_CACHE_HOME");
  if (caches != nullptr && caches[0] == '/') return caches;
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::filesystem::path(home) / ".cache";
  const passwd* user = ::getpwuid(::geteuid());
  const std::filesystem::path start = user == nullptr ? "/tmp" : user->pw_dir;
  return start / ".cache";
}

std::vector<KnobInfo> list_knobs() {
  const Knobs& now = knobs();
  const Knobs initial;
  return {
#define NEURON_KNOB(member, env, type, def, least, most, help) \
  KnobInfo{#member, env, show(now.member), show(initial.member), help},
#include "base/knobs.def"
#undef NEURON_KNOB
  };
}

}  // namespace neuron
