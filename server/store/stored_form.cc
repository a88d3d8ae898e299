#include "server/store/stored_form.h"

#include <cstdint>

#include "server/base/binary.h"
#include "server/base/status_macros.h"
#include "server/session/session_card.h"

namespace steadystate {
namespace {

// The version of what describes a session.
constexpr uint8_t kSessionFormat = 4;

// Flags of a byte that had the first one alone once.
constexpr uint8_t kOtherNumerics = 1;
constexpr uint8_t kTakenBack = 2;
constexpr uint8_t kDropsUnfinished = 4;
constexpr uint8_t kUnfinished = 8;

}  // namespace

std::string EncodeStored(const StoredSession& session) {
  std::string bytes;
  BinaryWriter writer(bytes);
  writer.Number(kSessionFormat);
  writer.Number(session.position);
  writer.Number(
      static_cast<uint8_t>((session.other_numerics ? kOtherNumerics : 0) +
                           (session.taken_back ? kTakenBack : 0) +
                           (session.drops_unfinished ? kDropsUnfinished : 0) +
                           (session.unfinished ? kUnfinished : 0)));
  writer.Number(static_cast<uint8_t>(session.durability));
  writer.Number(session.round);
  writer.Number(session.repeatable_from);
  writer.Number(static_cast<uint8_t>(session.prefix.has_value() ? 1 : 0));
  if (session.prefix.has_value()) {
    for (const uint64_t word : *session.prefix) writer.Number(word);
  }
  writer.Number(static_cast<uint8_t>(session.tail.has_value() ? 1 : 0));
  if (session.tail.has_value()) {
    writer.Number(session.tail->end);
    writer.Number(session.tail->numerics);
    writer.Number(session.tail->through_round);
    writer.Number(static_cast<uint8_t>((session.tail->damaged ? 1 : 0) +
                                       (session.tail->remade ? 2 : 0)));
  }
  WriteCard(session.card, bytes);
  return bytes;
}

absl::StatusOr<StoredSession> DecodeStored(absl::string_view bytes) {
  BinaryReader reader(bytes);
  StoredSession session;
  const auto format = reader.Number<uint8_t>();
  session.position = reader.Number<uint64_t>();
  const auto flags = reader.Number<uint8_t>();
  session.other_numerics = (flags & kOtherNumerics) != 0;
  session.taken_back = (flags & kTakenBack) != 0;
  session.drops_unfinished = (flags & kDropsUnfinished) != 0;
  session.unfinished = (flags & kUnfinished) != 0;
  // The first format had no log.
  if (format >= 2) {
    session.durability = static_cast<Durability>(reader.Number<uint8_t>());
    session.round = reader.Number<uint64_t>();
    // Nor did the second one say this.
    session.repeatable_from =
        format >= 3 ? reader.Number<uint64_t>() : session.position;
    if (format >= 4 && reader.Number<uint8_t>() != 0) {
      for (uint64_t& word : session.prefix.emplace()) {
        word = reader.Number<uint64_t>();
      }
    }
    if (reader.Number<uint8_t>() != 0) {
      StoredTail& tail = session.tail.emplace();
      tail.end = reader.Number<uint64_t>();
      tail.numerics = reader.Number<uint64_t>();
      tail.through_round = reader.Number<uint64_t>();
      const auto how = reader.Number<uint8_t>();
      tail.damaged = (how & 1) != 0;
      tail.remade = (how & 2) != 0;
    }
  }
  if (!reader.ok() || format == 0 || format > kSessionFormat) {
    return absl::DataLossError("a stored session's description is unreadable");
  }
  STEADYSTATE_RETURN_IF_ERROR(ReadCard(reader, session.card));
  return session;
}

std::string EncodeExpiry(absl::Time time) {
  std::string bytes;
  BinaryWriter(bytes).Number(absl::ToUnixNanos(time));
  return bytes;
}

absl::StatusOr<ExpiredId> DecodeExpired(absl::string_view name,
                                        absl::string_view bytes) {
  BinaryReader reader(bytes);
  const auto nanos = reader.Number<int64_t>();
  if (!reader.ok() || reader.left() > 0) {
    return absl::DataLossError("when a session expired is unreadable");
  }
  return ExpiredId{std::string(name), absl::FromUnixNanos(nanos)};
}

}  // namespace steadystate
