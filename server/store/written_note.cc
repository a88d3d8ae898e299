#include "server/store/written_note.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/binary.h"
#include "server/base/crc32c.h"
#include "server/base/logging.h"

namespace steadystate {
namespace {

// Boot, which, written, synced; and the CRC32C of those. Where there is a
// manifest, its number and bytes follow, and the CRC32C of all before.
constexpr size_t kBytes = 4 * sizeof(uint64_t);
constexpr size_t kShortBytes = kBytes + sizeof(uint32_t);
constexpr size_t kLongBytes = kShortBytes + 2 * sizeof(uint64_t);
constexpr size_t kAllBytes = kLongBytes + sizeof(uint32_t);

}  // namespace

WrittenNote::~WrittenNote() {
  if (file_ >= 0) close(file_);
}

std::optional<WrittenNote::Least> WrittenNote::Read() const {
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  char bytes[kAllBytes];
  const ssize_t size = calls_.ReadAt(file, bytes, sizeof(bytes), 0);
  close(file);
  if (size == 0) return std::nullopt;  // it was just made
  BinaryReader from({bytes, size < 0 ? 0 : static_cast<size_t>(size)});
  const auto boot = from.Number<uint64_t>();
  Written what;
  what.which = from.Number<uint64_t>();
  what.written = from.Number<uint64_t>();
  what.synced = from.Number<uint64_t>();
  bool whole = from.Number<uint32_t>() == Crc32cOf({bytes, kBytes});
  if (from.left() > 0) {
    what.manifest.number = from.Number<uint64_t>();
    what.manifest.bytes = from.Number<uint64_t>();
    whole = whole && from.Number<uint32_t>() == Crc32cOf({bytes, kLongBytes});
  }
  if (!from.complete() || !whole) {
    LogWarning("what was written to the store is not known: a note is damaged",
               {{"file", path_}});
    return std::nullopt;
  }
  const bool same_boot = boot != 0 && boot == calls_.Boot();
  return Least{.which = what.which,
               .there = same_boot ? what.written : what.synced,
               .manifest = what.manifest};
}

absl::Status WrittenNote::Begin(const Written& what) {
  if (file_ < 0) {
    file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  }
  if (file_ >= 0 && Write(what) && calls_.Sync(file_) == 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat(path_, ": ", std::strerror(errno)));
}

void WrittenNote::More(const Written& what) {
  if (Write(what)) return;
  LogLimited(limiter_, LogLevel::kWarning,
             "what is written to the store cannot be noted",
             {{"file", path_}, {"error", std::strerror(errno)}});
}

bool WrittenNote::Write(const Written& what) {
  std::string bytes;
  BinaryWriter to(bytes);
  to.Number(calls_.Boot());
  to.Number(what.which);
  to.Number(what.written);
  to.Number(what.synced);
  to.Number(Crc32cOf(bytes));
  if (what.manifest.number > 0) {
    to.Number(what.manifest.number);
    to.Number(what.manifest.bytes);
    to.Number(Crc32cOf(bytes));
  }
  return pwrite(file_, bytes.data(), bytes.size(), 0) ==
         static_cast<ssize_t>(bytes.size());
}

}  // namespace steadystate
