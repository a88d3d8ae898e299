#include "server/session/session_card.h"

#include "absl/strings/string_view.h"
#include "server/base/status_macros.h"
#include "server/session/prefix.h"
#include "server/session/sections.h"

namespace steadystate {

void WriteCard(const SessionCard& card, std::string& to) {
  BinaryWriter writer(to);
  for (const uint64_t part : card.uid) writer.Number(part);
  writer.Number(card.epoch);
  writer.Text(card.owner);
  writer.Text(card.id);
  writer.Number(static_cast<uint32_t>(card.labels.size()));
  for (const auto& [key, value] : card.labels) {
    writer.Text(key);
    writer.Text(value);
  }
  writer.Number(absl::ToInt64Nanoseconds(card.ttl));
  writer.Number(absl::ToUnixNanos(card.create_time));
  writer.Number(absl::ToUnixNanos(card.last_step_time));
  // Where there is none, as before there were any.
  if (card.context_cap != 0) writer.Number(card.context_cap);
}

absl::Status ReadCard(BinaryReader from, SessionCard& to) {
  for (uint64_t& part : to.uid) part = from.Number<uint64_t>();
  to.epoch = from.Number<uint64_t>();
  to.owner = std::string(from.Text());
  to.id = std::string(from.Text());
  const auto labels = from.Number<uint32_t>();
  if (labels > kMaxLabels)
    return SnapshotCorrupt("the session's card is not as it should be");
  for (uint32_t i = 0; i < labels; ++i) {
    const absl::string_view key = from.Text();
    to.labels.emplace(key, from.Text());
  }
  to.ttl = absl::Nanoseconds(from.Number<int64_t>());
  to.create_time = absl::FromUnixNanos(from.Number<int64_t>());
  to.last_step_time = absl::FromUnixNanos(from.Number<int64_t>());
  if (from.left() > 0) to.context_cap = from.Number<uint64_t>();
  if (!from.complete())
    return SnapshotCorrupt("the session's card is not as it should be");
  const std::optional<absl::string_view> checkpoint = CheckpointName(to.id);
  const std::optional<PrefixDigest> prefix = PrefixOfId(to.id);
  if (!to.id.empty() && !(prefix.has_value() && PrefixId(*prefix) == to.id)) {
    STEADYSTATE_RETURN_IF_ERROR(ValidateSessionId(checkpoint.value_or(to.id)));
  }
  if (!checkpoint.has_value()) {
    STEADYSTATE_RETURN_IF_ERROR(ValidateSessionTtl(to.ttl));
  }
  return ValidateLabels(to.labels);
}

}  // namespace steadystate
