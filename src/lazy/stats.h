// Counters of the recorder: what happened and why, for reports.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <tsl/robin_map.h>

#include "base/site.h"
#include "lazy/window.h"

namespace neuron::lazy {

/// What the recorder counts. Guarded by the recorder's lock.
class Stats {
 public:
  /// How often a window ended for one reason at one line of the user's program, and how
  /// many ops these windows held.
  struct Line {
    Site site;
    WindowEnd end;
    uint64_t count;
    uint64_t ops;
  };

  void count_op() { ++ops_; }
  void count_end(WindowEnd end, const Site& site, uint64_t ops);
  void reset() { *this = Stats(); }

  uint64_t ops() const { return ops_; }
  uint64_t windows() const { return windows_; }
  uint64_t ends(WindowEnd end) const { return ends_[static_cast<size_t>(end)]; }
  std::vector<Line> lines() const;

 private:
  struct Place {
    const void* code;
    int32_t instruction;
    WindowEnd end;
    bool operator==(const Place&) const = default;
  };
  struct PlaceHash {
    size_t operator()(const Place& place) const {
      return reinterpret_cast<size_t>(place.code) / 16 * 31 +
             static_cast<size_t>(place.instruction) * 131 +
             static_cast<size_t>(place.end);
    }
  };

  uint64_t ops_ = 0;
  uint64_t windows_ = 0;
  std::array<uint64_t, static_cast<size_t>(WindowEnd::kCount)> ends_{};
  struct Counts {
    uint64_t windows = 0;
    uint64_t ops = 0;
  };
  tsl::robin_map<Place, Counts, PlaceHash> lines_;
};

}  // namespace neuron::lazy
