#include "server/session/prefix.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/binary.h"
#include "server/base/sha256.h"
#include "server/session/session_id.h"

namespace steadystate {
namespace {

// Neither a session's id nor a checkpoint's begins with it, and in the order of
// ids it lies between those.
constexpr absl::string_view kMark = "#";
constexpr size_t kWordDigits = 16;  // of 64 bits

std::optional<PrefixDigest> FromHex(absl::string_view hex) {
  PrefixDigest digest{};
  if (hex.size() < 2 * kWordDigits) return std::nullopt;
  for (size_t i = 0; i < digest.size(); ++i) {
    if (!absl::SimpleHexAtoi(hex.substr(i * kWordDigits, kWordDigits),
                             &digest[i])) {
      return std::nullopt;
    }
  }
  return digest;
}

std::optional<PrefixDigest> DigestOf(absl::string_view bytes) {
  Sha256 sha;
  sha.Update(std::as_bytes(std::span(bytes.data(), bytes.size())));
  const absl::StatusOr<std::string> hex = sha.FinishHex();
  return hex.ok() ? FromHex(*hex) : std::nullopt;
}

// The digest before anything has been absorbed.
std::optional<PrefixDigest> Begin(const PrefixOrigin& origin) {
  // Nothing counts as equal then.
  if (origin.numerics == 0) return std::nullopt;
  std::string bytes;
  BinaryWriter writer(bytes);
  writer.Number(origin.numerics);
  writer.Number(uint64_t{origin.piece_rows});
  bytes.append(origin.owner.data(), origin.owner.size());
  return DigestOf(bytes);
}

// One more piece.
std::optional<PrefixDigest> Next(const PrefixDigest& before,
                                 std::span<const int32_t> piece) {
  std::string bytes;
  BinaryWriter writer(bytes);
  for (const uint64_t word : before) writer.Number(word);
  for (const int32_t token : piece) writer.Number(token);
  return DigestOf(bytes);
}

// Is it cut as a prompt of a new session is, with nothing drawn?
bool IsPrompt(const TokenHistory& history, uint64_t position,
              size_t piece_rows) {
  for (uint64_t at = 0; at < position; ++at) {
    if (history.IsDrawn(at) ||
        history.BeginsPiece(at) != (at % piece_rows == 0)) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<PrefixDigest> PrefixesOf(const PrefixOrigin& origin,
                                     std::span<const int32_t> prompt) {
  std::vector<PrefixDigest> digests;
  digests.reserve(prompt.size() / origin.piece_rows + 1);
  std::optional<PrefixDigest> digest = Begin(origin);
  while (digest.has_value() && !prompt.empty()) {
    const size_t rows = std::min(prompt.size(), origin.piece_rows);
    digest = Next(*digest, prompt.first(rows));
    prompt = prompt.subspan(rows);
    if (digest.has_value()) digests.push_back(*digest);
  }
  if (!digest.has_value()) digests.clear();
  return digests;
}

std::optional<PrefixDigest> PrefixAt(const PrefixOrigin& origin,
                                     const SessionState& state,
                                     uint64_t position) {
  if (position == 0 || state.imported() || state.repeatable_from() > 0 ||
      !IsPrompt(state.history(), position, origin.piece_rows)) {
    return std::nullopt;
  }
  std::vector<int32_t> prompt(static_cast<size_t>(position));
  state.history().Copy(0, prompt);
  const std::vector<PrefixDigest> digests = PrefixesOf(origin, prompt);
  if (digests.empty()) return std::nullopt;
  return digests.back();
}

std::string PrefixId(const PrefixDigest& digest) {
  return absl::StrCat(kMark, absl::Hex(digest[0], absl::kZeroPad16),
                      absl::Hex(digest[1], absl::kZeroPad16));
}

std::optional<PrefixDigest> PrefixOfId(absl::string_view id) {
  if (!absl::ConsumePrefix(&id, kMark)) return std::nullopt;
  return FromHex(id);
}

SessionKind KindOfId(absl::string_view id) {
  if (absl::StartsWith(id, kMark)) return SessionKind::kKeptPrompt;
  return CheckpointName(id).has_value() ? SessionKind::kCheckpoint
                                        : SessionKind::kSession;
}

}  // namespace steadystate
