#include "server/store/snapshot_files.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "rocksdb/file_system.h"
#include "server/base/binary.h"
#include "server/base/crc32c.h"
#include "server/base/error.h"
#include "server/base/logging.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/store/store_format.h"

namespace steadystate {
namespace {

constexpr char kFilePrefix[] = "snapshot-";

// What one call writes or reads: what a file takes in memory beside the
// snapshot itself is no more than a file system's own buffers.
constexpr size_t kChunkBytes = size_t{1} << 20;

// See SnapshotFile::checksum.
constexpr size_t kPartBytes = 4096;
constexpr uint8_t kOfParts = 1;

uint32_t ChecksumOfParts(absl::string_view bytes) {
  std::string checksums;
  BinaryWriter writer(checksums);
  for (size_t begin = 0; begin < bytes.size(); begin += kPartBytes) {
    writer.Number(Crc32cOf(bytes.substr(begin, kPartBytes)));
  }
  return Crc32cOf(checksums);
}

const rocksdb::IOOptions kNoOptions;

// Not through a mapping: there a full disk ends the process.
rocksdb::FileOptions PlainFile() {
  rocksdb::FileOptions options;
  options.use_mmap_reads = false;
  options.use_mmap_writes = false;
  return options;
}

absl::Status Failed(absl::string_view doing, const rocksdb::IOStatus& why) {
  return absl::UnavailableError(absl::StrCat(doing, ": ", why.ToString()));
}

absl::Status Damaged(absl::string_view how) {
  return MakeError(ErrorReason::kSnapshotCorrupt,
                   absl::StrCat("the session's snapshot in the store ", how,
                                "; delete the session"),
                   {{"what", "file"}});
}

// The number that a file of this name has; nothing if it is none of ours.
std::optional<uint64_t> NumberOf(absl::string_view name) {
  uint64_t number = 0;
  absl::ConsumeSuffix(&name, kPart);
  if (!absl::ConsumePrefix(&name, kFilePrefix) ||
      !absl::SimpleAtoi(name, &number)) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

std::string SnapshotFile::ToBytes() const {
  std::string to;
  BinaryWriter writer(to);
  writer.Number(number);
  writer.Number(bytes);
  writer.Number(checksum);
  if (!is_plain) writer.Number(kOfParts);
  return to;
}

std::optional<SnapshotFile> SnapshotFile::FromBytes(absl::string_view bytes) {
  BinaryReader reader(bytes);
  SnapshotFile file;
  file.number = reader.Number<uint64_t>();
  file.bytes = reader.Number<uint64_t>();
  file.checksum = reader.Number<uint32_t>();
  file.is_plain = reader.left() == 0;
  if (!file.is_plain && reader.Number<uint8_t>() != kOfParts) {
    return std::nullopt;
  }
  if (!reader.complete()) return std::nullopt;
  return file;
}

SnapshotFiles::SnapshotFiles(std::string directory,
                             std::shared_ptr<rocksdb::FileSystem> files)
    : directory_(std::move(directory)), files_(std::move(files)) {}

absl::Status SnapshotFiles::Open(
    const std::function<bool(uint64_t number)>& needed) {
  rocksdb::IOStatus status =
      files_->CreateDirIfMissing(directory_, kNoOptions, nullptr);
  if (!status.ok()) return Failed("snapshots' directory", status);
  std::vector<std::string> names;
  status = files_->GetChildren(directory_, kNoOptions, &names, nullptr);
  if (!status.ok()) return Failed("snapshots' directory", status);
  MayPark("SnapshotFiles::Open");
  size_t removed = 0;
  for (const std::string& name : names) {
    const std::optional<uint64_t> number = NumberOf(name);
    if (!number.has_value()) continue;
    last_number_ = std::max(last_number_, *number);
    if (!absl::EndsWith(name, kPart) && needed(*number)) continue;
    RemovePath(absl::StrCat(directory_, "/", name));
    ++removed;
  }
  if (removed > 0) {
    LogInfo("snapshots removed that no session has",
            {{"files", absl::StrCat(removed)}});
  }
  return absl::OkStatus();
}

std::string SnapshotFiles::PathOf(uint64_t number) const {
  return absl::StrCat(directory_, "/", kFilePrefix, number);
}

absl::StatusOr<SnapshotFile> SnapshotFiles::Write(absl::string_view snapshot) {
  const SnapshotFile file = {.number = ++last_number_,
                             .bytes = snapshot.size(),
                             .checksum = ChecksumOfParts(snapshot)};
  const std::string path = PathOf(file.number);
  const std::string part = path + kPart;
  absl::Status status = WriteParts(part, snapshot);
  if (status.ok()) status = Place(part, path);
  if (status.ok()) return file;
  // A full disk is not to be filled with these.
  RemovePath(part);
  return status;
}

absl::Status SnapshotFiles::WriteParts(const std::string& path,
                                       absl::string_view snapshot) {
  std::unique_ptr<rocksdb::FSWritableFile> file;
  rocksdb::IOStatus status =
      files_->NewWritableFile(path, PlainFile(), &file, nullptr);
  while (status.ok() && !snapshot.empty()) {
    MayPark("SnapshotFiles::Write, a part");
    const size_t count = std::min(snapshot.size(), kChunkBytes);
    status = file->Append({snapshot.data(), count}, kNoOptions, nullptr);
    snapshot.remove_prefix(count);
  }
  if (status.ok()) status = file->Sync(kNoOptions, nullptr);
  if (file != nullptr) {
    const rocksdb::IOStatus closed = file->Close(kNoOptions, nullptr);
    if (status.ok()) status = closed;
  }
  return status.ok() ? absl::OkStatus() : Failed("a snapshot's file", status);
}

// Under its name it is whole, also after a loss of power.
absl::Status SnapshotFiles::Place(const std::string& part,
                                  const std::string& path) {
  MayPark("SnapshotFiles::Write, synced");
  rocksdb::IOStatus status =
      files_->RenameFile(part, path, kNoOptions, nullptr);
  if (!status.ok()) return Failed("a snapshot's file", status);
  MayPark("SnapshotFiles::Write, renamed");
  std::unique_ptr<rocksdb::FSDirectory> directory;
  status = files_->NewDirectory(directory_, kNoOptions, &directory, nullptr);
  if (status.ok()) status = directory->Fsync(kNoOptions, nullptr);
  if (status.ok()) return absl::OkStatus();
  RemovePath(path);
  return Failed("snapshots' directory", status);
}

absl::StatusOr<std::string> SnapshotFiles::Read(
    const SnapshotFile& file) const {
  std::unique_ptr<rocksdb::FSSequentialFile> from;
  rocksdb::IOStatus status = files_->NewSequentialFile(
      PathOf(file.number), PlainFile(), &from, nullptr);
  if (status.IsNotFound() || status.IsPathNotFound()) {
    return Damaged("is lost: its file is missing");
  }
  std::string bytes;
  // One more, so that a longer file is seen.
  if (status.ok()) bytes.resize(file.bytes + 1);
  size_t size = 0;
  while (status.ok() && size < bytes.size()) {
    const size_t count = std::min(bytes.size() - size, kChunkBytes);
    rocksdb::Slice got;
    status = from->Read(count, kNoOptions, &got, bytes.data() + size, nullptr);
    if (!status.ok() || got.empty()) break;
    if (got.data() != bytes.data() + size) {
      std::memcpy(bytes.data() + size, got.data(), got.size());
    }
    size += got.size();
  }
  if (!status.ok()) return Failed("a snapshot's file", status);
  if (size != file.bytes) return Damaged("is damaged: its size is another");
  bytes.resize(size);
  const uint32_t checksum =
      file.is_plain ? Crc32cOf(bytes) : ChecksumOfParts(bytes);
  if (checksum != file.checksum) {
    return Damaged("is damaged: its checksum is another");
  }
  return bytes;
}

void SnapshotFiles::Remove(const SnapshotFile& file) {
  RemovePath(PathOf(file.number));
}

void SnapshotFiles::RemovePath(const std::string& path) {
  const rocksdb::IOStatus removed =
      files_->DeleteFile(path, kNoOptions, nullptr);
  if (removed.ok() || removed.IsNotFound() || removed.IsPathNotFound()) return;
  LogWarning("a snapshot's file is left until the next start",
             {{"file", path}, {"error", removed.ToString()}});
}

}  // namespace steadystate
