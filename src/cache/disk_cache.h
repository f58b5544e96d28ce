// DiskCache: bytes by key in a private folder that processes share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace neuron::cache {

/// A cache of small files. Nothing is ever an error: what cannot be read, or is not what
/// was written, is a miss; what cannot be written is not there. Any number of processes;
/// one thread per object.
class DiskCache {
 public:
  /// Makes `directory` (mode 0700) at the first `store`. A directory of another user, or
  /// that others may write, is not used.
  DiskCache(std::filesystem::path directory, uint64_t max_bytes);

  /// The bytes that were stored for the very same key.
  std::optional<std::vector<char>> find(std::string_view key);

  /// Stores atomically; readers see the whole entry or none.
  void store(std::string_view key, const std::vector<char>& bytes);

  /// The keys of some of the entries, for reports: reads up to `most` files.
  std::vector<std::string> keys(size_t most) const;

  /// Removes what was used least recently until three quarters of the room are in use, if
  /// it is full, and temporary files that a killed process left behind.
  void trim();

 private:
  std::filesystem::path path_of(std::string_view key) const;
  bool is_private() const;

  const std::filesystem::path directory_;
  const uint64_t max_bytes_;
  uint64_t stored_bytes_ = 0;  // since the last trim
  bool was_trimmed_ = false;
};

}  // namespace neuron::cache
