// Journal: what the engine did and why, for whoever has asked to be told.
//
// Threads of the engine write and never wait for a reader, nor for the embedder's lock;
// a reader takes entries away on a thread of its own choice. While nobody reads, a writer
// pays for one relaxed load and a branch, per window or rarer; nothing is on the record
// path.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/site.h"

namespace neuron::lazy {

struct CapturedWindow;

/// What an entry is about. The names are those of NEURON_LOG.
enum class Topic : uint8_t {
  kWindows,   // windows that ended
  kFusion,    // kernels of several ops, and neighbours that stayed apart
  kCache,     // look-ups of kernels
  kCompile,   // machine code that was made or loaded
  kFallback,  // ops that ATen's CPU kernels ran
  kCapture,   // windows with their plans and kernels
  kCount
};
const char* topic_name(Topic topic);

/// One thing that happened: an event of a topic with named values.
struct JournalEntry {
  using Value = std::variant<int64_t, double, std::string, Site>;

  Topic topic = Topic::kWindows;
  const char* event = "";
  std::vector<std::pair<const char*, Value>> values;
  std::shared_ptr<const CapturedWindow> window;  // of kCapture
};
using JournalEntryPtr = std::shared_ptr<const JournalEntry>;

/// Gets the entries of some topics from its making on. Thread-safe. In a forked child it
/// may be closed and destroyed, and nothing else.
class JournalReader {
 public:
  /// Bit i of `topics`: Topic(i).
  explicit JournalReader(uint32_t topics);
  ~JournalReader();
  JournalReader(const JournalReader&) = delete;
  JournalReader& operator=(const JournalReader&) = delete;

  /// All entries since the last time.
  std::vector<JournalEntryPtr> take();
  /// Sleeps until there is an entry or the reader is closed; false when closed and empty.
  bool wait();
  /// No further entries; wakes who waits. Idempotent.
  void close();
  /// Entries that were lost because nobody took them.
  uint64_t num_lost() const;

 private:
  friend void write_journal(JournalEntry entry);
  static constexpr size_t kMaxEntries = 1 << 17;

  const uint32_t topics_;
  const int process_;
  std::unique_ptr<std::condition_variable> changed_;
  std::deque<JournalEntryPtr> entries_;  // this and the rest under the journal's mutex
  bool is_open_ = true;
  uint64_t num_lost_ = 0;
};

/// Bit i: somebody reads Topic(i).
extern std::atomic<uint32_t> journal_topics;

inline bool journal_wants(Topic topic) {
  const uint32_t topics = journal_topics.load(std::memory_order_relaxed);
  return (topics >> static_cast<int>(topic) & 1) != 0;
}
inline bool journal_wants_any() {
  return journal_topics.load(std::memory_order_relaxed) != 0;
}

/// Gives the entry to all readers of its topic.
void write_journal(JournalEntry entry);

}  // namespace neuron::lazy
