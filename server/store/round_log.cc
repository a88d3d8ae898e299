#include "server/store/round_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "server/base/binary.h"
#include "server/base/crc32c.h"
#include "server/base/error.h"
#include "server/base/logging.h"
#include "server/base/mapped_file.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

constexpr char kPrefix[] = "rounds-";
constexpr size_t kHeaderBytes = 2 * sizeof(uint32_t);

absl::Status Unavailable(absl::string_view what) {
  return MakeError(ErrorReason::kStoreUnavailable,
                   absl::StrCat("the log of sessions ", what, "; try again"),
                   {}, absl::Seconds(1));
}

struct Round {
  uint64_t number = 0;
  absl::string_view content;
};

// Takes the next round off `bytes`; nothing if there is no whole one.
std::optional<Round> TakeRound(absl::string_view& bytes) {
  BinaryReader reader(bytes);
  const auto size = reader.Number<uint32_t>();
  const auto checksum = reader.Number<uint32_t>();
  const absl::string_view body = reader.Bytes(size);
  if (!reader.ok() || size < sizeof(uint64_t) || Crc32cOf(body) != checksum) {
    return std::nullopt;
  }
  bytes.remove_prefix(kHeaderBytes + size);
  return Round{.number = BinaryReader(body).Number<uint64_t>(),
               .content = body.substr(sizeof(uint64_t))};
}

// Makes what was created or removed in the directory last.
int SyncDirectory(const std::string& directory, FileCalls& calls) {
  const int file = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return -1;
  const int synced = calls.Sync(file);
  close(file);
  return synced;
}

}  // namespace

int FileCalls::Create(const char* path) {
  return open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
}

ssize_t FileCalls::Write(int file, const char* bytes, size_t count) {
  return write(file, bytes, count);
}

int FileCalls::Sync(int file) { return fdatasync(file); }

int FileCalls::Truncate(int file, off_t size) { return ftruncate(file, size); }

FileCalls& FileCalls::System() {
  static FileCalls system;
  return system;
}

struct RoundLog::File {
  File(int descriptor, FileCalls& by) : number(descriptor), calls(by) {}
  ~File() { close(number); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // A file that could not be synced once never is again: the system tells of an
  // error but once.
  bool Sync() ABSL_LOCKS_EXCLUDED(syncing) {
    const MutexLock lock(syncing);
    failed = failed || calls.Sync(number) != 0;
    return !failed;
  }

  const int number;
  FileCalls& calls;
  Mutex syncing;
  bool failed ABSL_GUARDED_BY(syncing) = false;
};

RoundLog::~RoundLog() = default;

absl::StatusOr<std::unique_ptr<RoundLog>> RoundLog::Open(std::string directory,
                                                         FileCalls& calls,
                                                         uint64_t file_bytes) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return Unavailable(
        absl::StrCat("cannot make ", directory, ": ", std::strerror(errno)));
  }
  std::unique_ptr<RoundLog> log(
      new RoundLog(std::move(directory), calls, file_bytes));
  STEADYSTATE_RETURN_IF_ERROR(log->FindFiles());
  return log;
}

absl::Status RoundLog::FindFiles() {
  const MutexLock lock(mutex_);
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(directory_, error)) {
    const std::string name = entry.path().filename().string();
    absl::string_view number = name;
    uint64_t first = 0;
    if (absl::ConsumePrefix(&number, kPrefix) &&
        absl::SimpleAtoi(number, &first)) {
      complete_[first] = entry.file_size(error);
    }
  }
  if (!error) return absl::OkStatus();
  return Unavailable(
      absl::StrCat("cannot be read in ", directory_, ": ", error.message()));
}

std::string RoundLog::PathOf(uint64_t first_round) const {
  char name[sizeof(kPrefix) + 20];
  snprintf(name, sizeof(name), "%s%020" PRIu64, kPrefix, first_round);
  return absl::StrCat(directory_, "/", name);
}

absl::Status RoundLog::ForEach(
    const std::function<void(uint64_t round, absl::string_view content)>& each)
    const {
  std::map<uint64_t, uint64_t> files;
  {
    const MutexLock lock(mutex_);
    files = complete_;
  }
  for (const auto& [first, size] : files) {
    const absl::StatusOr<MappedFile> file = MappedFile::Open(PathOf(first));
    if (!file.ok()) return Unavailable(file.status().message());
    absl::string_view left(reinterpret_cast<const char*>(file->bytes().data()),
                           file->bytes().size());
    while (const std::optional<Round> round = TakeRound(left)) {
      each(round->number, round->content);
    }
    if (left.empty()) continue;
    LogWarning("the log of sessions has a round that is not whole",
               {{"file", PathOf(first)},
                {"at", absl::StrCat(size - left.size())},
                {"left_out_bytes", absl::StrCat(left.size())}});
  }
  return absl::OkStatus();
}

absl::Status RoundLog::Append(uint64_t round, absl::string_view content) {
  const MutexLock lock(mutex_);
  frame_.assign(kHeaderBytes, '\0');
  BinaryWriter(frame_).Number(round);
  frame_.append(content.data(), content.size());
  const absl::string_view body = absl::string_view(frame_).substr(kHeaderBytes);
  const auto size = static_cast<uint32_t>(body.size());
  const uint32_t checksum = Crc32cOf(body);
  std::memcpy(frame_.data(), &size, sizeof(size));
  std::memcpy(frame_.data() + sizeof(size), &checksum, sizeof(checksum));
  if (current_ != nullptr && current_bytes_ + frame_.size() > file_bytes_) {
    STEADYSTATE_RETURN_IF_ERROR(EndFile());
  }
  if (current_ == nullptr) STEADYSTATE_RETURN_IF_ERROR(BeginFile(round));
  return WriteAll(frame_);
}

absl::Status RoundLog::BeginFile(uint64_t round) {
  uint64_t all = 0;
  for (const auto& [first, size] : complete_) all += size;
  if (all + file_bytes_ > std::max(kMaxBytes, 2 * file_bytes_)) {
    return Unavailable(
        absl::StrCat("has ", all, " bytes of ", kMaxBytes,
                     ", since snapshots cannot be written that would shorten "
                     "it"));
  }
  const int file = calls_.Create(PathOf(round).c_str());
  if (file < 0) return Failed("be begun");
  current_ = std::make_shared<File>(file, calls_);
  current_first_ = round;
  current_bytes_ = 0;
  // Else a loss of power might take the file with its synced bytes.
  if (SyncDirectory(directory_, calls_) != 0) return Failed("be begun");
  return absl::OkStatus();
}

// What was written before is safe before anything is written after it: only the
// last file can have lost something.
absl::Status RoundLog::EndFile() {
  if (!current_->Sync()) return Failed("be synced");
  complete_[current_first_] = current_bytes_;
  current_.reset();
  return absl::OkStatus();
}

absl::Status RoundLog::WriteAll(absl::string_view bytes) {
  const uint64_t size = bytes.size();
  while (!bytes.empty()) {
    const ssize_t written =
        calls_.Write(current_->number, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("be written");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  current_bytes_ += size;
  return absl::OkStatus();
}

// What a file holds after an error is not known, so nothing is added to it.
absl::Status RoundLog::Failed(absl::string_view doing) {
  const std::string why = std::strerror(errno);
  if (current_ != nullptr) {
    // If that fails, too, the reader leaves out what is not whole.
    (void)calls_.Truncate(current_->number, static_cast<off_t>(current_bytes_));
    if (current_bytes_ == 0) {
      unlink(PathOf(current_first_).c_str());
    } else {
      complete_[current_first_] = current_bytes_;
    }
    current_.reset();
  }
  return Unavailable(absl::StrCat("cannot ", doing, ": ", why));
}

absl::Status RoundLog::Sync() {
  std::shared_ptr<File> file;
  {
    const MutexLock lock(mutex_);
    file = current_;
  }
  // The complete ones are synced.
  if (file == nullptr || file->Sync()) return absl::OkStatus();
  const MutexLock lock(mutex_);
  if (current_ == file) return Failed("be synced");
  return Unavailable("cannot be synced");
}

// Of the oldest complete file: it may have all rounds up to the next one's
// first. Without one, of a log that has just been opened, nobody knows.
uint64_t RoundLog::OldestEnd() const {
  const auto next = std::next(complete_.begin());
  if (next != complete_.end()) return next->first;
  return current_ != nullptr ? current_first_ : UINT64_MAX;
}

absl::Status RoundLog::Drop(uint64_t below) {
  const MutexLock lock(mutex_);
  if (complete_.empty() || OldestEnd() > below) return absl::OkStatus();
  while (!complete_.empty() && OldestEnd() <= below) {
    const auto first = complete_.begin();
    if (unlink(PathOf(first->first).c_str()) != 0 && errno != ENOENT) {
      return Unavailable(
          absl::StrCat("cannot be shortened: ", std::strerror(errno)));
    }
    complete_.erase(first);
  }
  // What is gone must not be back beside what came later.
  (void)SyncDirectory(directory_, calls_);
  return absl::OkStatus();
}

bool RoundLog::CanDrop(uint64_t below) const {
  const MutexLock lock(mutex_);
  return !complete_.empty() && OldestEnd() <= below;
}

uint64_t RoundLog::bytes() const {
  const MutexLock lock(mutex_);
  uint64_t all = current_ != nullptr ? current_bytes_ : 0;
  for (const auto& [first, size] : complete_) all += size;
  return all;
}

}  // namespace steadystate
