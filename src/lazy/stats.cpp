#include "lazy/stats.h"

namespace neuron::lazy {

void Stats::count_end(WindowEnd end, const Site& site, uint64_t ops) {
  ++windows_;
  ++ends_[static_cast<size_t>(end)];
  Counts& counts = lines_[Place{site.code, site.instruction, end}];
  ++counts.windows;
  counts.ops += ops;
}

std::vector<Stats::Line> Stats::lines() const {
  std::vector<Line> lines;
  lines.reserve(lines_.size());
  for (const auto& [place, counts] : lines_) {
    const Site site{place.code, place.instruction, 0};
    lines.push_back({site, place.end, counts.windows, counts.ops});
  }
  return lines;
}

}  // namespace neuron::lazy
