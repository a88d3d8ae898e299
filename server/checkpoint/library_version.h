#ifndef STEADYSTATE_SERVER_CHECKPOINT_LIBRARY_VERSION_H_
#define STEADYSTATE_SERVER_CHECKPOINT_LIBRARY_VERSION_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "server/checkpoint/config.h"

namespace steadystate {

// The version of a Python library. One of what comes before a release, such as
// "5.0.0.dev0" or "4.45.0rc1", is less than that release.
struct LibraryVersion {
  uint32_t major = 0;
  uint32_t minor = 0;
  uint32_t patch = 0;
  bool released = true;

  auto operator<=>(const LibraryVersion&) const = default;
};

// "4.57.6", "5.0", "5.0.0.dev0"; nothing for what is no version.
std::optional<LibraryVersion> ParseLibraryVersion(absl::string_view text);

// The version of transformers that wrote a config.json: its
// "transformers_version". Nothing where it does not say so.
std::optional<LibraryVersion> TransformersVersion(const Config& config);

// True if flash-linear-attention before its version 0.6.0 wrote a config.json.
// It does not say so, but 0.6.0 needs transformers 5.6.2 or newer. Without a
// version of transformers: true.
bool IsBeforeFla06(const Config& config);

// For the log, of what versions of a library read differently: how it is read
// here, and which version to give who wants it otherwise.
//   `how`, for transformers_version is 4.57.6; with
//   --transformers_version=`other`: `otherwise`
std::string ReadingOf(const Config& config, absl::string_view how,
                      absl::string_view other, absl::string_view otherwise);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_CHECKPOINT_LIBRARY_VERSION_H_
