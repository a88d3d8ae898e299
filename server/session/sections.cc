#include "server/session/sections.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/base/binary.h"
#include "server/base/crc32c.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

constexpr absl::string_view kMagic("STDYSNAP", 8);
constexpr uint32_t kVersion1 = 1;
constexpr size_t kPreambleBytes =
    kMagic.size() + sizeof(uint32_t) + sizeof(uint32_t);

absl::Status CheckPreamble(absl::string_view bytes) {
  BinaryReader from(bytes);
  if (from.Bytes(kMagic.size()) != kMagic) {
    return SnapshotCorrupt("it does not begin as one");
  }
  const auto version = from.Number<uint32_t>();
  const auto crc = from.Number<uint32_t>();
  if (!from.ok() ||
      crc != Crc32cOf(bytes.substr(0, kPreambleBytes - sizeof(crc)))) {
    return SnapshotCorrupt("the checksum of its beginning is wrong");
  }
  if (version == kVersion1) return absl::OkStatus();
  return MakeError(ErrorReason::kSnapshotVersionUnsupported,
                   absl::StrCat("the snapshot is of format ", version,
                                ", and this server knows format ", kVersion1,
                                ": use a later one"),
                   {{"version", absl::StrCat(version)},
                    {"bounds", absl::StrCat(kVersion1)}});
}

// The next section, whose bytes are as they were written.
absl::StatusOr<Section> NextSection(BinaryReader& from) {
  BinaryReader ahead = from;
  const auto kind = ahead.Number<uint32_t>();
  const auto length = ahead.Number<uint64_t>();
  if (!ahead.ok() || length > ahead.left()) {
    return SnapshotCorrupt("it ends within a section");
  }
  const absl::string_view covered =
      from.Bytes(sizeof(kind) + sizeof(length) + static_cast<size_t>(length));
  const auto crc = from.Number<uint32_t>();
  if (!from.ok()) return SnapshotCorrupt("it ends within a section");
  if (crc != Crc32cOf(covered)) {
    return SnapshotCorrupt(
        absl::StrCat("the checksum of section ", kind, " is wrong"));
  }
  return Section{.kind = kind,
                 .payload = covered.substr(sizeof(kind) + sizeof(length))};
}

}  // namespace

absl::Status SnapshotCorrupt(absl::string_view what) {
  return MakeError(ErrorReason::kSnapshotCorrupt,
                   absl::StrCat("the snapshot cannot be read: ", what,
                                "; take it from where it was made again"),
                   {{"what", std::string(what)}});
}

void WritePreamble(std::string& to) {
  const size_t begin = to.size();
  BinaryWriter writer(to);
  writer.Bytes(kMagic.data(), kMagic.size());
  writer.Number(kVersion1);
  writer.Number(Crc32cOf(absl::string_view(to).substr(begin)));
}

SectionWriter::SectionWriter(uint32_t kind, std::string& to)
    : to_(to), begin_(to.size()) {
  BinaryWriter writer(to);
  writer.Number(kind);
  writer.Number(uint64_t{0});
  payload_ = to.size();
}

SectionWriter::~SectionWriter() {
  const uint64_t length = to_.size() - payload_;
  std::memcpy(&to_[payload_ - sizeof(length)], &length, sizeof(length));
  BinaryWriter(to_).Number(Crc32cOf(absl::string_view(to_).substr(begin_)));
}

absl::StatusOr<std::vector<Section>> ReadFirstSections(absl::string_view bytes,
                                                       size_t count) {
  STEADYSTATE_RETURN_IF_ERROR(CheckPreamble(bytes));
  BinaryReader from(bytes.substr(kPreambleBytes));
  std::vector<Section> sections;
  while (from.left() > 0 && sections.size() < count) {
    STEADYSTATE_ASSIGN_OR_RETURN(const Section section, NextSection(from));
    sections.push_back(section);
  }
  return sections;
}

absl::StatusOr<std::vector<Section>> ReadSections(absl::string_view bytes,
                                                  size_t most) {
  STEADYSTATE_RETURN_IF_ERROR(CheckPreamble(bytes));
  BinaryReader from(bytes.substr(kPreambleBytes));
  std::vector<Section> sections;
  while (from.left() > 0) {
    if (sections.size() == most) {
      return SnapshotCorrupt("something follows its end");
    }
    STEADYSTATE_ASSIGN_OR_RETURN(const Section section, NextSection(from));
    sections.push_back(section);
  }
  return sections;
}

}  // namespace steadystate
