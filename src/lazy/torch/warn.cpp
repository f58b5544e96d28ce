#include "lazy/torch/warn.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <utility>

namespace neuron::lazy {
namespace {

// A name that lives as long as the process: PyTorch keeps warnings until its call ends.
const char* keep(std::string name) {
  static std::mutex mutex;
  static auto* names = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return names->insert(std::move(name)).first->c_str();
}

}  // namespace

void warn_at(const Site& site, std::string text) {
  // "file.py:12", and lines of the stack behind it.
  std::string place = describe_site(site);
  place.resize(std::min(place.find('\n'), place.size()));
  const size_t colon = std::min(place.rfind(':'), place.size());
  uint32_t line = 0;
  if (colon < place.size()) {
    line = static_cast<uint32_t>(std::strtoul(place.c_str() + colon + 1, nullptr, 10));
  }
  c10::warn(c10::Warning(c10::UserWarning(), {"", keep(place.substr(0, colon)), line},
                         std::move(text), /*verbatim=*/true));
}

}  // namespace neuron::lazy
