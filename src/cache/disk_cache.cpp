// Essay. An entry is one file: a header, the key, the bytes. Laws:
//  1. An entry is written under a name of its own and renamed, so it appears whole.
//  2. Its name is a hash of the key, but the key in it decides, and a checksum covers
//     everything behind itself: foreign, torn and damaged entries are misses.
//  3. Reading renews the time of last change; trimming removes the oldest first. Two
//     processes that trim at once remove too much at worst.
#include "cache/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/hash.h"

namespace neuron::cache {
namespace {

namespace fs = std::filesystem;

constexpr char kSuffix[] = ".kernel";
constexpr char kTemporary[] = ".part";
// A writer is done within milliseconds.
constexpr std::chrono::minutes kAbandoned{10};
constexpr uint64_t kMaxEntryBytes = 16u << 20;

struct Header {
  char magic[8];
  uint64_t checksum;  // of what follows
  uint64_t key_size;
  uint64_t num_bytes;
};
static_assert(sizeof(Header) == 32);
constexpr char kMagic[8] = {'n', 'e', 'u', 'r', 'o', 'n', '0', '1'};
constexpr size_t kChecked = offsetof(Header, key_size);

uint64_t checksum_of(const std::vector<char>& file) {
  return hash_bytes(file.data() + kChecked, file.size() - kChecked);
}

class File {
 public:
  File(const fs::path& path, int flags)
      : descriptor_(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int descriptor() const { return descriptor_; }

  std::vector<char> read_all() const {
    struct stat info{};
    if (descriptor_ < 0 || ::fstat(descriptor_, &info) != 0) return {};
    const auto size = static_cast<uint64_t>(info.st_size);
    if (size > kMaxEntryBytes || info.st_uid != ::geteuid()) return {};
    std::vector<char> bytes(size);
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = ::read(descriptor_, bytes.data() + done, bytes.size() - done);
      if (n <= 0) return {};
      done += static_cast<size_t>(n);
    }
    return bytes;
  }

  bool write_all(const std::vector<char>& bytes) const {
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
      if (n <= 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }

 private:
  const int descriptor_;
};

bool ends_with(const fs::path& path, std::string_view end) {
  return std::string_view(path.native()).ends_with(end);
}

}  // namespace

DiskCache::DiskCache(fs::path directory, uint64_t max_bytes)
    : directory_(std::move(directory)), max_bytes_(max_bytes) {}

fs::path DiskCache::path_of(std::string_view key) const {
  const uint64_t low = hash_bytes(key.data(), key.size());
  const uint64_t high = hash_bytes(key.data(), key.size(), 0x9e3779b97f4a7c15);
  char name[40];
  std::snprintf(name, sizeof name, "%016llx%016llx",
                static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return directory_ / (std::string(name) + kSuffix);
}

bool DiskCache::is_private() const {
  struct stat info{};
  if (::stat(directory_.c_str(), &info) != 0) return false;
  return S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::optional<std::vector<char>> DiskCache::find(std::string_view key) {
  if (!is_private()) return std::nullopt;
  const File file(path_of(key), O_RDONLY);
  std::vector<char> bytes = file.read_all();
  Header header;
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  const bool is_whole =
      std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 &&
      header.key_size == key.size() &&
      header.num_bytes == bytes.size() - sizeof header - key.size() &&
      header.checksum == checksum_of(bytes) &&
      std::memcmp(bytes.data() + sizeof header, key.data(), key.size()) == 0;
  if (!is_whole) return std::nullopt;
  ::futimens(file.descriptor(), nullptr);  // law 3
  bytes.erase(bytes.begin(),
              bytes.begin() + static_cast<ptrdiff_t>(sizeof header + key.size()));
  return bytes;
}

void DiskCache::store(std::string_view key, const std::vector<char>& bytes) {
  std::error_code error;
  if (!fs::exists(directory_, error)) {
    fs::create_directories(directory_.parent_path(), error);
    ::mkdir(directory_.c_str(), 0700);
  }
  if (!is_private()) return;
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key_size = key.size();
  header.num_bytes = bytes.size();
  std::vector<char> file(sizeof header + key.size() + bytes.size());
  if (file.size() > kMaxEntryBytes) return;
  std::memcpy(file.data(), &header, sizeof header);
  std::copy(key.begin(), key.end(), file.begin() + sizeof header);
  std::copy(bytes.begin(), bytes.end(),
            file.begin() + static_cast<ptrdiff_t>(sizeof header + key.size()));
  header.checksum = checksum_of(file);
  std::memcpy(file.data(), &header, sizeof header);

  const fs::path path = path_of(key);
  const fs::path temporary = path.native() + "." + std::to_string(::getpid()) + "." +
                             std::to_string(reinterpret_cast<uintptr_t>(this)) +
                             kTemporary;
  const bool is_written = File(temporary, O_WRONLY | O_CREAT | O_TRUNC).write_all(file);
  if (is_written) fs::rename(temporary, path, error);
  if (!is_written || error) fs::remove(temporary, error);
  stored_bytes_ += file.size();
  if (!was_trimmed_ || stored_bytes_ > max_bytes_ / 8) trim();
}

std::vector<std::string> DiskCache::keys(size_t most) const {
  std::vector<std::string> keys;
  if (!is_private()) return keys;
  std::error_code error;
  for (fs::directory_iterator at(directory_, error), end;
       !error && at != end && keys.size() < most; at.increment(error)) {
    if (!ends_with(at->path(), kSuffix)) continue;
    const std::vector<char> bytes = File(at->path(), O_RDONLY).read_all();
    Header header;
    if (bytes.size() < sizeof header) continue;
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.key_size > bytes.size() - sizeof header) continue;
    if (header.checksum != checksum_of(bytes)) continue;
    keys.emplace_back(bytes.data() + sizeof header, header.key_size);
  }
  return keys;
}

void DiskCache::trim() {
  struct Entry {
    fs::file_time_type time;
    uint64_t num_bytes;
    fs::path path;
  };
  was_trimmed_ = true;
  stored_bytes_ = 0;
  std::vector<Entry> entries;
  uint64_t total = 0;
  const auto now = fs::file_time_type::clock::now();
  std::error_code error;
  for (fs::directory_iterator at(directory_, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code gone;  // another process may remove it
    const auto time = at->last_write_time(gone);
    if (gone) continue;
    if (ends_with(at->path(), kTemporary)) {
      if (now - time > kAbandoned) fs::remove(at->path(), gone);
    } else if (ends_with(at->path(), kSuffix)) {
      const uint64_t num_bytes = at->file_size(gone);
      if (gone) continue;
      entries.push_back({time, num_bytes, at->path()});
      total += num_bytes;
    }
  }
  if (total <= max_bytes_) return;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.time < b.time; });
  for (const Entry& entry : entries) {
    if (total <= max_bytes_ / 4 * 3) break;
    fs::remove(entry.path, error);
    total -= entry.num_bytes;
  }
}

}  // namespace neuron::cache
