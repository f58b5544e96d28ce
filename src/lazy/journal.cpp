#include "lazy/journal.h"

#include <unistd.h>

#include <algorithm>
#include <mutex>

namespace neuron::lazy {
namespace {

struct Journal {
  std::mutex mutex;
  std::vector<JournalReader*> readers;
};

Journal& the_journal() {
  static auto* journal = new Journal;  // threads may outlive static objects
  return *journal;
}

constexpr const char* kNames[] = {"windows", "fusion",   "cache",
                                  "compile", "fallback", "capture"};
static_assert(std::size(kNames) == static_cast<size_t>(Topic::kCount));

}  // namespace

std::atomic<uint32_t> journal_topics{0};

const char* topic_name(Topic topic) { return kNames[static_cast<int>(topic)]; }

JournalReader::JournalReader(uint32_t topics)
    : topics_(topics),
      process_(::getpid()),
      changed_(std::make_unique<std::condition_variable>()) {
  const std::lock_guard lock(the_journal().mutex);
  the_journal().readers.push_back(this);
  journal_topics.fetch_or(topics, std::memory_order_relaxed);
}

JournalReader::~JournalReader() {
  close();
  // In a child the thread that waited is gone, and destroying would wait for it.
  if (::getpid() != process_) static_cast<void>(changed_.release());
}

void JournalReader::close() {
  {
    const std::lock_guard lock(the_journal().mutex);
    if (!is_open_) return;
    is_open_ = false;
    auto& readers = the_journal().readers;
    readers.erase(std::find(readers.begin(), readers.end(), this));
    uint32_t topics = 0;
    for (const JournalReader* reader : readers) topics |= reader->topics_;
    journal_topics.store(topics, std::memory_order_relaxed);
  }
  changed_->notify_all();
}

std::vector<JournalEntryPtr> JournalReader::take() {
  const std::lock_guard lock(the_journal().mutex);
  std::vector<JournalEntryPtr> taken(entries_.begin(), entries_.end());
  entries_.clear();
  return taken;
}

bool JournalReader::wait() {
  std::unique_lock lock(the_journal().mutex);
  changed_->wait(lock, [this] { return !is_open_ || !entries_.empty(); });
  return !entries_.empty();
}

uint64_t JournalReader::num_lost() const {
  const std::lock_guard lock(the_journal().mutex);
  return num_lost_;
}

void write_journal(JournalEntry entry) {
  const uint32_t topic = uint32_t{1} << static_cast<int>(entry.topic);
  const auto shared = std::make_shared<const JournalEntry>(std::move(entry));
  const std::lock_guard lock(the_journal().mutex);
  for (JournalReader* reader : the_journal().readers) {
    if ((reader->topics_ & topic) == 0) continue;
    if (reader->entries_.size() >= JournalReader::kMaxEntries) {
      ++reader->num_lost_;
      continue;
    }
    reader->entries_.push_back(shared);
    reader->changed_->notify_one();
  }
}

}  // namespace neuron::lazy
