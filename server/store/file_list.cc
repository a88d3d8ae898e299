#include "server/store/file_list.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/binary.h"
#include "server/base/crc32c.h"
#include "server/base/logging.h"

namespace steadystate {
namespace {

// Each file's number and bytes; and the CRC32C of those.
std::string ToBytes(const FileList::Sizes& sizes) {
  std::string bytes;
  BinaryWriter to(bytes);
  for (const auto& [number, size] : sizes) {
    to.Number(number);
    to.Number(size);
  }
  to.Number(Crc32cOf(bytes));
  return bytes;
}

std::optional<FileList::Sizes> FromBytes(absl::string_view bytes) {
  constexpr size_t kEach = 2 * sizeof(uint64_t);
  if (bytes.size() % kEach != sizeof(uint32_t)) return std::nullopt;
  const size_t listed = bytes.size() - sizeof(uint32_t);
  FileList::Sizes sizes;
  BinaryReader from(bytes);
  for (size_t i = 0; i < listed / kEach; ++i) {
    const auto number = from.Number<uint64_t>();
    sizes[number] = from.Number<uint64_t>();
  }
  if (from.Number<uint32_t>() != Crc32cOf(bytes.substr(0, listed))) {
    return std::nullopt;
  }
  return sizes;
}

}  // namespace

FileList::Sizes FileList::Read() {
  const std::string path = Path();
  const FileBytes read = ReadFileBytes(path, calls_, /*past_errors=*/false);
  if (read.error == ENOENT) {
    listed_ = Sizes();
  } else {
    listed_ = FromBytes(read.bytes);
  }
  if (listed_.has_value()) return *listed_;
  LogWarning("which files the store has is not known: a list is damaged",
             {{"file", path}});
  return {};
}

absl::Status FileList::Write(const Sizes& sizes) {
  if (listed_ == sizes) return absl::OkStatus();
  listed_.reset();
  if (!Replace(sizes) || SyncDirectory(directory_, calls_) != 0) {
    return absl::UnavailableError(
        absl::StrCat(Path(), ": ", std::strerror(errno)));
  }
  listed_ = sizes;
  return absl::OkStatus();
}

// Nothing is what no list says as well, and that takes no room.
bool FileList::Replace(const Sizes& sizes) {
  const std::string path = Path();
  if (sizes.empty()) return unlink(path.c_str()) == 0 || errno == ENOENT;
  const std::string part = path + ".part";
  if (WritePart(part, sizes) && rename(part.c_str(), path.c_str()) == 0) {
    return true;
  }
  const int error = errno;
  unlink(part.c_str());
  errno = error;
  return false;
}

bool FileList::WritePart(const std::string& path, const Sizes& sizes) {
  // One that a process has left which ended here.
  unlink(path.c_str());
  const int file = calls_.Create(path.c_str());
  if (file < 0) return false;
  const std::string bytes = ToBytes(sizes);
  absl::string_view left = bytes;
  while (!left.empty()) {
    const ssize_t written = calls_.Write(file, left.data(), left.size());
    if (written < 0 && errno != EINTR) break;
    if (written > 0) left.remove_prefix(static_cast<size_t>(written));
  }
  const bool whole = left.empty() && calls_.Sync(file) == 0;
  const int error = errno;
  close(file);
  errno = error;
  return whole;
}

}  // namespace steadystate
