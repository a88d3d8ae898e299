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
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "server/base/error.h"
#include "server/base/logging.h"
#include "server/base/status_macros.h"
#include "server/store/round_frame.h"

namespace steadystate {
namespace {

constexpr char kPrefix[] = "rounds-";

absl::Status Unavailable(absl::string_view what) {
  return MakeError(ErrorReason::kStoreUnavailable,
                   absl::StrCat("the log of sessions ", what, "; try again"),
                   {}, absl::Seconds(1));
}

absl::Status Damaged(absl::string_view path, uint64_t at,
                     absl::string_view how) {
  return absl::DataLossError(absl::StrCat(
      "the log of sessions is damaged: ", path, " at byte ", at, " ", how,
      ". It has been left as it is: put a sound copy of the store in its "
      "place, "
      "or keep a copy of this one and start once with --allow_damaged_store. "
      "Then what cannot be read is lost: sessions whose log has a gap answer "
      "SNAPSHOT_CORRUPT, others may be what they were earlier, and some that "
      "were deleted may be back"));
}

}  // namespace

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

absl::StatusOr<std::unique_ptr<RoundLog>> RoundLog::Open(Options options) {
  if (mkdir(options.directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return Unavailable(absl::StrCat("cannot make ", options.directory, ": ",
                                    std::strerror(errno)));
  }
  std::unique_ptr<RoundLog> log(new RoundLog(std::move(options)));
  const absl::Status held = log->place_.Hold();
  if (!held.ok()) {
    return Unavailable(absl::StrCat("cannot be read: ", held.message()));
  }
  STEADYSTATE_RETURN_IF_ERROR(log->FindFiles());
  return log;
}

RoundLog::RoundLog(Options options)
    : options_(std::move(options)),
      calls_(*options_.calls),
      place_(directory_),
      list_(directory_, calls_),
      note_(absl::StrCat(directory_, "/WRITTEN"), calls_) {}

absl::Status RoundLog::CheckPlace() const {
  absl::Status there =
      options_.store == nullptr ? absl::OkStatus() : options_.store->Check();
  return there.ok() ? place_.Check() : there;
}

absl::Status RoundLog::FindFiles() {
  const MutexLock lock(mutex_);
  found_ = note_.Read();
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(directory_, error)) {
    const std::string name = entry.path().filename().string();
    absl::string_view number = name;
    uint64_t first = 0;
    if (absl::ConsumePrefix(&number, kPrefix) &&
        absl::SimpleAtoi(number, &first)) {
      const uint64_t size = entry.file_size(error);
      complete_[first] = {.bytes = size, .synced = size};
    }
  }
  if (error) {
    return Unavailable(
        absl::StrCat("cannot be read in ", directory_, ": ", error.message()));
  }
  if (!complete_.empty()) {
    Complete& last = complete_.rbegin()->second;
    last.synced = 0;
    last.found = true;
  }
  return CheckFiles();
}

// What a note or the list says of a file is there until another note or list
// is.
absl::Status RoundLog::CheckFiles() {
  if (found_.has_value() && found_->there > 0 &&
      !complete_.contains(found_->which)) {
    STEADYSTATE_RETURN_IF_ERROR(Lacks(found_->which, found_->there));
  }
  for (const auto& [first, bytes] : list_.Read()) {
    const auto file = complete_.find(first);
    if (file == complete_.end() || file->second.bytes < bytes) {
      STEADYSTATE_RETURN_IF_ERROR(Lacks(first, bytes));
    }
  }
  return absl::OkStatus();
}

absl::Status RoundLog::Lacks(uint64_t first, uint64_t bytes) const {
  const std::string path = PathOf(first);
  const auto file = complete_.find(first);
  const bool missing = file == complete_.end();
  const uint64_t left = missing ? 0 : file->second.bytes;
  if (!options_.allow_damage) {
    return Damaged(
        path, left,
        absl::StrCat(missing ? "is missing, which had " : "ends, which had ",
                     bytes, " bytes"));
  }
  LogError(missing ? "a file of the log of sessions is missing"
                   : "a file of the log of sessions is cut",
           {{"file", path}, {"bytes", bytes}, {"left", left}});
  return absl::OkStatus();
}

std::string RoundLog::PathOf(uint64_t first_round) const {
  char name[sizeof(kPrefix) + 20];
  snprintf(name, sizeof(name), "%s%020" PRIu64, kPrefix, first_round);
  return absl::StrCat(directory_, "/", name);
}

absl::Status RoundLog::ForEach(uint64_t from, const Each& each) const {
  const absl::Status there = CheckPlace();
  if (!there.ok()) {
    return Unavailable(absl::StrCat("cannot be read: ", there.message()));
  }
  std::map<uint64_t, uint64_t> files;
  {
    const MutexLock lock(mutex_);
    for (const auto& [first, file] : complete_) files[first] = file.bytes;
    if (current_ != nullptr && written_.written > 0) {
      files[written_.which] = written_.written;
    }
  }
  for (auto file = files.begin(); file != files.end(); ++file) {
    const auto next = std::next(file);
    const bool last = next == files.end();
    if (!last && next->first <= from) continue;
    STEADYSTATE_RETURN_IF_ERROR(
        ReadFile(file->first, file->second, last, each));
  }
  return absl::OkStatus();
}

// What is written now, and may be cut off again, comes after `size`.
absl::Status RoundLog::ReadFile(uint64_t first, uint64_t size, bool last,
                                const Each& each) const {
  const std::string path = PathOf(first);
  FileBytes file = ReadFileBytes(path, calls_, options_.allow_damage);
  if (file.error != 0) {
    const std::string why =
        absl::StrCat("cannot be read: ", std::strerror(file.error));
    if (!options_.allow_damage) return Damaged(path, file.error_at, why);
    LogError("the log of sessions cannot be read",
             {{"file", path}, {"at", file.error_at}, {"error", why}});
  }
  file.bytes.resize(
      static_cast<size_t>(std::min<uint64_t>(file.bytes.size(), size)));
  const uint64_t whole = LeastOf(first, last).value_or(file.bytes.size());
  uint64_t number = 0;
  absl::string_view left = file.bytes;
  while (true) {
    if (const std::optional<RoundFrame> round = TakeFrame(left)) {
      number = round->number;
      each(number, round->content);
      continue;
    }
    const uint64_t at = file.bytes.size() - left.size();
    if (at >= whole) break;
    if (!options_.allow_damage) {
      return Damaged(path, at,
                     absl::StrCat("of ", whole, " is not as it was written"));
    }
    const size_t lost = FindFrame(left, number).value_or(left.size());
    LogError("rounds of the log are lost",
             {{"file", path}, {"at", at}, {"bytes", lost}});
    if (left.empty()) break;
    left.remove_prefix(lost);
  }
  if (left.empty()) return absl::OkStatus();
  LogWarning("the log of sessions has a round that is not whole",
             {{"file", path},
              {"at", file.bytes.size() - left.size()},
              {"left_out_bytes", left.size()}});
  return absl::OkStatus();
}

// How much of the file must be whole; nothing for all of it.
std::optional<uint64_t> RoundLog::LeastOf(uint64_t first, bool last) const {
  if (!last) return std::nullopt;
  // An earlier server left no note: nobody knows.
  if (!found_.has_value() || found_->which < first) return 0;
  if (found_->which == first) return found_->there;
  return std::nullopt;  // the next was to be begun
}

absl::Status RoundLog::Append(uint64_t round, absl::string_view content) {
  const MutexLock lock(mutex_);
  WriteFrame({.number = round, .content = content}, frame_);
  if (current_ != nullptr &&
      written_.written + frame_.size() > options_.file_bytes) {
    STEADYSTATE_RETURN_IF_ERROR(EndFile());
  }
  if (current_ == nullptr) STEADYSTATE_RETURN_IF_ERROR(BeginFile(round));
  return WriteAll(frame_);
}

absl::Status RoundLog::BeginFile(uint64_t round) {
  uint64_t all = 0;
  for (const auto& [first, file] : complete_) all += file.bytes;
  const uint64_t next = options_.file_bytes;
  if (all + next > std::max(kMaxBytes, 2 * next)) {
    return Unavailable(
        absl::StrCat("has ", all, " bytes of ", kMaxBytes,
                     ", since snapshots cannot be written that would shorten "
                     "it"));
  }
  const absl::Status there = CheckPlace();
  if (!there.ok()) {
    return Unavailable(absl::StrCat("cannot be begun: ", there.message()));
  }
  STEADYSTATE_RETURN_IF_ERROR(CutFailed());
  const Written nothing = {.which = round};
  // The note tells no more of the one before.
  absl::Status noted = ListFiles();
  if (noted.ok()) noted = note_.Begin(nothing);
  if (!noted.ok()) {
    return Unavailable(absl::StrCat("cannot be begun: ", noted.message()));
  }
  const int file = calls_.Create(PathOf(round).c_str());
  if (file < 0) return Failed("be begun", std::strerror(errno));
  current_ = std::make_shared<File>(file, calls_);
  written_ = nothing;
  // Else a loss of power might take the file with its synced bytes.
  if (SyncDirectory(directory_, calls_) != 0)
    return Failed("be begun", std::strerror(errno));
  return absl::OkStatus();
}

// What no loss of power takes of the complete files.
absl::Status RoundLog::ListFiles() {
  FileList::Sizes sizes;
  for (auto& [first, complete] : complete_) {
    if (std::exchange(complete.found, false)) {
      const int file = open(PathOf(first).c_str(), O_RDONLY | O_CLOEXEC);
      if (file >= 0 && calls_.Sync(file) == 0) complete.synced = complete.bytes;
      if (file >= 0) close(file);
    }
    sizes[first] = complete.synced;
  }
  return list_.Write(sizes);
}

// What was written before is safe before anything is written after it: only the
// last file can have lost something.
absl::Status RoundLog::EndFile() {
  if (!current_->Sync()) return Failed("be synced", std::strerror(errno));
  complete_[written_.which] = {.bytes = written_.written,
                               .synced = written_.written};
  current_.reset();
  return absl::OkStatus();
}

absl::Status RoundLog::WriteAll(absl::string_view bytes) {
  const uint64_t size = bytes.size();
  while (!bytes.empty()) {
    const ssize_t written =
        calls_.Write(current_->number, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("be written", std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  written_.written += size;
  note_.More(written_);
  return absl::OkStatus();
}

// What a file holds after an error is not known, so nothing is added to it.
absl::Status RoundLog::Failed(absl::string_view doing, absl::string_view why) {
  if (current_ != nullptr) {
    if (written_.written > 0) {
      complete_[written_.which] = {.bytes = written_.written,
                                   .synced = written_.synced};
    }
    failed_ = std::move(current_);
    of_failed_ = written_;
    (void)CutFailed();  // else it is tried again before a file follows it
  }
  return Unavailable(absl::StrCat("cannot ", doing, ": ", why));
}

// Takes away what is not whole of a file that failed: what another file follows
// is whole.
absl::Status RoundLog::CutFailed() {
  if (failed_ == nullptr) return absl::OkStatus();
  if (of_failed_.written == 0) {
    const absl::Status there = CheckPlace();
    if (!there.ok()) {
      return Unavailable(absl::StrCat("cannot be begun: ", there.message()));
    }
  }
  const bool cut =
      of_failed_.written == 0
          ? unlink(PathOf(of_failed_.which).c_str()) == 0 || errno == ENOENT
          : calls_.Truncate(failed_->number,
                            static_cast<off_t>(of_failed_.written)) == 0;
  if (!cut) {
    return Unavailable(
        absl::StrCat("cannot be cut to what is whole: ", std::strerror(errno)));
  }
  // A file whose sync has failed never is synced.
  const auto complete = complete_.find(of_failed_.which);
  if (failed_->Sync() && complete != complete_.end()) {
    complete->second.synced = complete->second.bytes;
  }
  failed_.reset();
  return absl::OkStatus();
}

absl::Status RoundLog::Sync() {
  std::shared_ptr<File> file;
  uint64_t bytes = 0;
  {
    const MutexLock lock(mutex_);
    file = current_;
    bytes = written_.written;
  }
  std::string why;
  const absl::Status there = CheckPlace();
  if (!there.ok()) {
    why = std::string(there.message());
  } else if (file != nullptr && !file->Sync()) {
    why = std::strerror(errno);
  }
  const MutexLock lock(mutex_);
  if (file == nullptr && why.empty()) return absl::OkStatus();
  if (why.empty()) {
    if (current_ == file) {
      written_.synced = std::max(written_.synced, bytes);
      note_.More(written_);
    }
    return absl::OkStatus();
  }
  if (current_ == file) return Failed("be synced", why);
  return Unavailable(absl::StrCat("cannot be synced: ", why));
}

// A file may have all rounds up to the next one's first. Without a next one, of
// a log that has just been opened, nobody knows.
uint64_t RoundLog::EndOf(Files::const_iterator file) const {
  const auto next = std::next(file);
  if (next != complete_.end()) return next->first;
  return current_ != nullptr ? written_.which : UINT64_MAX;
}

absl::Status RoundLog::Drop(uint64_t below) {
  const MutexLock lock(mutex_);
  std::vector<uint64_t> dropped;
  for (auto file = complete_.cbegin();
       file != complete_.cend() && EndOf(file) <= below; ++file) {
    dropped.push_back(file->first);
  }
  const bool all = current_ == nullptr && below == UINT64_MAX;
  if (dropped.empty() && !(all && found_.has_value())) return absl::OkStatus();
  absl::Status gone = CheckPlace();
  if (gone.ok() && all) gone = note_.Begin({});
  if (gone.ok()) gone = Unlist(dropped);
  if (!gone.ok()) {
    return Unavailable(absl::StrCat("cannot be shortened: ", gone.message()));
  }
  for (const uint64_t first : dropped) {
    if (unlink(PathOf(first).c_str()) != 0 && errno != ENOENT) {
      return Unavailable(
          absl::StrCat("cannot be shortened: ", std::strerror(errno)));
    }
    complete_.erase(first);
  }
  // What is gone must not be back beside what came later.
  (void)SyncDirectory(directory_, calls_);
  return absl::OkStatus();
}

// These files are nobody's any more, nor are those that were listed and are not
// there.
absl::Status RoundLog::Unlist(const std::vector<uint64_t>& files) {
  FileList::Sizes left;
  for (const auto& [first, file] : complete_) left[first] = file.synced;
  for (const uint64_t first : files) left.erase(first);
  const absl::Status listed = list_.Write(left);
  // On a full disk there is no room for a list.
  return listed.ok() ? listed : list_.Write({});
}

bool RoundLog::CanDrop(uint64_t below) const {
  const MutexLock lock(mutex_);
  return !complete_.empty() && EndOf(complete_.begin()) <= below;
}

uint64_t RoundLog::bytes() const {
  const MutexLock lock(mutex_);
  uint64_t all = current_ != nullptr ? written_.written : 0;
  for (const auto& [first, file] : complete_) all += file.bytes;
  return all;
}

}  // namespace steadystate
