#include "lazy/journal.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace neuron::lazy {
namespace {

constexpr uint32_t bit(Topic topic) { return uint32_t{1} << static_cast<int>(topic); }

JournalEntry entry_of(Topic topic, int64_t number) {
  JournalEntry entry;
  entry.topic = topic;
  entry.values = {{"number", number}};
  return entry;
}

int64_t number_of(const JournalEntryPtr& entry) {
  return std::get<int64_t>(entry->values[0].second);
}

TEST(Journal, NobodyWantsAnythingWithoutAReader) {
  EXPECT_FALSE(journal_wants_any());
  EXPECT_FALSE(journal_wants(Topic::kWindows));
}

TEST(Journal, AReaderGetsItsTopicsInOrder) {
  JournalReader reader(bit(Topic::kCache) | bit(Topic::kFusion));
  EXPECT_TRUE(journal_wants(Topic::kCache));
  EXPECT_FALSE(journal_wants(Topic::kWindows));
  write_journal(entry_of(Topic::kCache, 1));
  write_journal(entry_of(Topic::kWindows, 2));
  write_journal(entry_of(Topic::kFusion, 3));
  const auto entries = reader.take();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(number_of(entries[0]), 1);
  EXPECT_EQ(number_of(entries[1]), 3);
  EXPECT_TRUE(reader.take().empty());
}

TEST(Journal, AClosedReaderGetsNothingAndOthersGoOn) {
  JournalReader first(bit(Topic::kCache)), second(bit(Topic::kCache));
  first.close();
  first.close();
  write_journal(entry_of(Topic::kCache, 1));
  EXPECT_TRUE(first.take().empty());
  EXPECT_EQ(second.take().size(), 1u);
  second.close();
  EXPECT_FALSE(journal_wants_any());
}

TEST(Journal, WaitingEndsWithAnEntryAndWithTheReader) {
  JournalReader reader(bit(Topic::kCompile));
  std::thread writer([] { write_journal(entry_of(Topic::kCompile, 1)); });
  EXPECT_TRUE(reader.wait());
  writer.join();
  EXPECT_EQ(reader.take().size(), 1u);
  std::thread closer([&] { reader.close(); });
  EXPECT_FALSE(reader.wait());
  closer.join();
}

TEST(Journal, WhatNobodyTakesIsCountedAsLost) {
  JournalReader reader(bit(Topic::kCache));
  const int most = 1 << 17;
  for (int i = 0; i < most + 5; ++i) write_journal(entry_of(Topic::kCache, i));
  EXPECT_EQ(reader.num_lost(), 5u);
  EXPECT_EQ(reader.take().size(), static_cast<size_t>(most));
}

}  // namespace
}  // namespace neuron::lazy
