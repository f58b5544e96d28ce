#include "cache/disk_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace neuron::cache {
namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<char>;

class DiskCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    directory_ = fs::path(testing::TempDir()) /
                 ("disk_cache_" + std::to_string(::getpid()) + test->name());
    fs::remove_all(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(directory_)) {
      found.push_back(entry.path());
    }
    return found;
  }
  fs::path only_file() const {
    const auto found = files();
    EXPECT_EQ(found.size(), 1u);
    return found.at(0);
  }
  static Bytes read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return Bytes(std::istreambuf_iterator<char>(file), {});
  }
  static void write(const fs::path& path, const Bytes& bytes) {
    std::ofstream(path, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  fs::path directory_;
  const Bytes object_{'o', 'b', 'j', 'e', 'c', 't', '\0', '\x7f'};
};

TEST_F(DiskCacheTest, AnotherObjectFindsWhatWasStored) {
  DiskCache(directory_, 1 << 20).store("key", object_);
  EXPECT_EQ(DiskCache(directory_, 1 << 20).find("key"), object_);
}

TEST_F(DiskCacheTest, AnotherKeyIsAMiss) {
  DiskCache cache(directory_, 1 << 20);
  EXPECT_EQ(cache.find("key"), std::nullopt);
  cache.store("key", object_);
  EXPECT_EQ(cache.find("key2"), std::nullopt);
}

TEST_F(DiskCacheTest, TheDirectoryIsPrivate) {
  DiskCache(directory_ / "deeper", 1 << 20).store("key", object_);
  struct stat info{};
  ASSERT_EQ(::stat((directory_ / "deeper").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(DiskCacheTest, ADirectoryThatOthersMayWriteIsNotUsed) {
  fs::create_directories(directory_);
  DiskCache cache(directory_, 1 << 20);
  cache.store("key", object_);
  ASSERT_TRUE(cache.find("key").has_value());
  ::chmod(directory_.c_str(), 0777);
  EXPECT_EQ(cache.find("key"), std::nullopt);
  cache.store("other", object_);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(DiskCacheTest, ATruncatedEntryIsAMiss) {
  DiskCache cache(directory_, 1 << 20);
  cache.store("key", object_);
  const Bytes whole = read(only_file());
  for (size_t size = 0; size < whole.size(); ++size) {
    write(only_file(), Bytes(whole.begin(), whole.begin() + static_cast<long>(size)));
    EXPECT_EQ(cache.find("key"), std::nullopt) << size;
  }
  write(only_file(), whole);
  EXPECT_EQ(cache.find("key"), object_);
}

TEST_F(DiskCacheTest, AnEntryWithOneWrongBitIsAMiss) {
  DiskCache cache(directory_, 1 << 20);
  cache.store("key", object_);
  const Bytes whole = read(only_file());
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    Bytes damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    write(only_file(), damaged);
    EXPECT_EQ(cache.find("key"), std::nullopt) << bit;
  }
}

TEST_F(DiskCacheTest, AnEntryOfAnotherKeyUnderThisNameIsAMiss) {
  DiskCache cache(directory_, 1 << 20);
  cache.store("version 1", object_);
  const Bytes foreign = read(only_file());
  fs::remove(only_file());
  cache.store("version 2", object_);
  write(only_file(), foreign);
  EXPECT_EQ(cache.find("version 2"), std::nullopt);
}

TEST_F(DiskCacheTest, ABadEntryIsReplaced) {
  DiskCache cache(directory_, 1 << 20);
  cache.store("key", object_);
  write(only_file(), {'x'});
  cache.store("key", object_);
  EXPECT_EQ(cache.find("key"), object_);
}

TEST_F(DiskCacheTest, ManyWritersLeaveWholeEntries) {
  const auto work = [this](char letter) {
    DiskCache cache(directory_, 1 << 24);
    for (int i = 0; i < 200; ++i) {
      cache.store("key", Bytes(5000, letter));
      const auto found = cache.find("key");
      ASSERT_TRUE(found.has_value());
      ASSERT_EQ(*found, Bytes(5000, found->at(0)));
    }
  };
  std::thread other(work, 'a');
  work('b');
  other.join();
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(DiskCacheTest, WhatAKilledWriterLeftIsRemovedLater) {
  DiskCache cache(directory_, 1 << 20);
  cache.store("key", object_);
  const fs::path left = directory_ / "0123.kernel.77.1.part";
  const fs::path fresh = directory_ / "0123.kernel.78.1.part";
  write(left, {'x'});
  write(fresh, {'x'});
  fs::last_write_time(left, fs::file_time_type::clock::now() - std::chrono::hours(1));
  cache.trim();
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_EQ(cache.find("key"), object_);
}

TEST_F(DiskCacheTest, TheOldestEntriesMakeRoom) {
  constexpr int kEntries = 20;
  constexpr uint64_t kRoom = 8;  // entries
  const auto key_of = [](int i) { return "key" + std::to_string(i); };
  const auto now = fs::file_time_type::clock::now();
  DiskCache cache(directory_, 1 << 20);
  for (int i = 0; i < kEntries; ++i) {
    cache.store(key_of(i), Bytes(1000, 'x'));
    for (const fs::path& path : files()) {
      if (fs::last_write_time(path) < now) continue;
      fs::last_write_time(path, now - std::chrono::seconds(kEntries - i));
    }
  }
  DiskCache(directory_, kRoom * 1100).trim();
  EXPECT_LE(files().size(), kRoom);
  EXPECT_GE(files().size(), kRoom / 2);
  EXPECT_TRUE(cache.find(key_of(kEntries - 1)).has_value());
  EXPECT_FALSE(cache.find(key_of(0)).has_value());
}

TEST_F(DiskCacheTest, ReadingKeepsAnEntryYoung) {
  DiskCache cache(directory_, 1 << 20);
  cache.store("key", object_);
  const fs::path file = only_file();
  fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(1));
  ASSERT_TRUE(cache.find("key").has_value());
  EXPECT_GT(fs::last_write_time(file),
            fs::file_time_type::clock::now() - std::chrono::minutes(30));
}

}  // namespace
}  // namespace neuron::cache
