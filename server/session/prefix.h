#ifndef STEADYSTATE_SERVER_SESSION_PREFIX_H_
#define STEADYSTATE_SERVER_SESSION_PREFIX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/session/session_state.h"

namespace steadystate {

// Stands for all that decides the state after the beginning of a prompt: the
// inputs, their cuts, what computed it, and whose it is. 128 bits of SHA-256.
using PrefixDigest = std::array<uint64_t, 2>;

// What else than the inputs a digest is made of.
struct PrefixOrigin {
  absl::string_view owner;
  uint64_t numerics = 0;  // SnapshotFormat::numerics_tag
  size_t piece_rows = 0;  // how prompts are cut: pieces of so many inputs
};

// A digest for each beginning of the prompt that ends with a piece, shortest
// first; the last one is of the whole prompt. Empty if the library that makes
// digests cannot.
std::vector<PrefixDigest> PrefixesOf(const PrefixOrigin& origin,
                                     std::span<const int32_t> prompt);

// The digest of what a session was at `position`, if it was what a new session
// is after a prompt: nothing where it remembers less, or has drawn tokens, or
// was advanced by pieces of another length, or was imported: nobody shall find
// what a client says that a prompt leads to. REQUIRES: position <=
// state.position().
std::optional<PrefixDigest> PrefixAt(const PrefixOrigin& origin,
                                     const SessionState& state,
                                     uint64_t position);

// What is kept by itself is a session that nobody can name, as a checkpoint is:
// its id is a mark and the digest.
std::string PrefixId(const PrefixDigest& digest);
// Nothing if the id is none of those.
std::optional<PrefixDigest> PrefixOfId(absl::string_view id);

// What is kept as sessions are.
enum class SessionKind : uint8_t { kSession, kCheckpoint, kKeptPrompt };
inline constexpr size_t kSessionKinds = 3;
SessionKind KindOfId(absl::string_view id);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_PREFIX_H_
