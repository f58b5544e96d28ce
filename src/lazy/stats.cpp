#include "lazy/stats.h"

namespace neuron::lazy {

void Stats::count_end(WindowEnd end, const Site& site) {
  ++windows_;
  ++ends_[static_cast<size_t>(end)];
  ++lines_[Place{site.code, site.instruction, end}];
}

std::vector<Stats::Line> Stats::lines() const {
  std::vector<Line> lines;
  lines.reserve(lines_.size());
  for (const auto& [place, count] : lines_) {
    lines.push_back({Site{place.code, place.instruction, 0}, place.end, count});
  }
  return lines;
}

}  // namespace neuron::lazy
