#ifndef STEADYSTATE_SERVER_SESSION_SECTIONS_H_
#define STEADYSTATE_SERVER_SESSION_SECTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace steadystate {

// The outer form of a snapshot (SNAPSHOT.md): a preamble that names the format
// and its version, then sections, each with a kind, a length and a checksum.

// DATA_LOSS / SNAPSHOT_CORRUPT.
absl::Status SnapshotCorrupt(absl::string_view what);

// Appends the preamble.
void WritePreamble(std::string& to);

// Appends a section while it exists: what is appended to `to` meanwhile is its
// payload.
class SectionWriter {
 public:
  SectionWriter(uint32_t kind, std::string& to);
  ~SectionWriter();
  SectionWriter(const SectionWriter&) = delete;
  SectionWriter& operator=(const SectionWriter&) = delete;

 private:
  std::string& to_;
  const size_t begin_;
  size_t payload_ = 0;
};

struct Section {
  uint32_t kind = 0;
  absl::string_view payload{};  // lent
};

// All sections, whose bytes are as they were written. SNAPSHOT_CORRUPT, also if
// there are more than `most`; SNAPSHOT_VERSION_UNSUPPORTED.
absl::StatusOr<std::vector<Section>> ReadSections(absl::string_view bytes,
                                                  size_t most);
// The first `count`, or all if there are fewer; the rest is not looked at. The
// same errors.
absl::StatusOr<std::vector<Section>> ReadFirstSections(absl::string_view bytes,
                                                       size_t count);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SECTIONS_H_
