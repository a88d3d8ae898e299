// Of Shelf: what sessions are charged, and the slots that they get for it.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/session/shelf.h"

namespace steadystate {
namespace {

// State memory becomes free when a session expires or is deleted: when the next
// one expires is the best guess, within these bounds.
constexpr absl::Duration kMinStateRetry = absl::Seconds(1);
constexpr absl::Duration kMaxStateRetry = absl::Seconds(60);

// The charges decide, not the free slots: some of these are for sessions that
// have been charged and have not asked for theirs. An empty lease if the slot
// comes later.
absl::StatusOr<StateLease> LeaseIfFree(StatePool& pool, uint64_t bytes) {
  // Room that there is by the charges is being cleared, or will be.
  if (!pool.HasRoom(bytes)) return StateLease();
  return pool.Allocate(bytes);
}

// Whether all slots that the session has can be charged for that cap.
bool SetCap(Session& session, uint64_t context_cap) {
  session.state.set_context_cap(context_cap);
  bool charged = session.state.Recharge();
  for (const std::shared_ptr<SessionState>& kept : session.kept) {
    kept->set_context_cap(context_cap);
    charged = kept->Recharge() && charged;
  }
  return charged;
}

}  // namespace

uint64_t Shelf::MostContextCap() const {
  const uint64_t none = layout.charge_bytes(0);
  const uint64_t token = layout.charge_bytes(1) - none;
  if (token == 0) return 0;
  return std::min(layout.max_context_cap(),
                  (pool.budget_bytes() - none) / token);
}

// Servers before this one wrote down what they could give, also where that was
// less than what the session had absorbed.
uint64_t Shelf::CapOfStored(uint64_t context_cap, uint64_t position) const {
  if (layout.max_context_cap() == 0) return 0;
  const bool known = context_cap != 0 && context_cap >= position;
  return known ? context_cap : std::max(layout.context_cap(), position);
}

absl::Status Shelf::CheckHolds(uint64_t position) const {
  const uint64_t most = MostContextCap();
  if (most == 0 || position <= most) return absl::OkStatus();
  return MakeError(
      ErrorReason::kContextCapReached,
      absl::StrCat("the session is at position ", position,
                   ", and sessions of this server hold ", most,
                   " tokens at most: start the server with a larger ",
                   BoundOfCaps()),
      {{"context_cap", absl::StrCat(most)},
       {"position", absl::StrCat(position)}});
}

absl::string_view Shelf::BoundOfCaps() const {
  return MostContextCap() < layout.max_context_cap() ? "--state_memory"
                                                     : "--max_context_cap";
}

void Shelf::TakeUp(Session& session, absl::string_view id,
                   uint64_t context_cap) {
  const uint64_t cap = CapOfStored(context_cap, session.position);
  session.state.set_context_cap(std::min(cap, MostContextCap()));
  NoteAskedCap(session, cap);
  const bool advances = KindOfId(id) == SessionKind::kSession;
  const uint64_t full =
      advances ? std::max(session.state.context_cap(), session.position)
               : session.position;
  NoteCharge(session, Tier::kStore, ChargeOf(Tier::kStore, full));
  charges.Take(Tier::kStore, session.charge);
}

absl::StatusOr<uint64_t> Shelf::CapOf(std::optional<uint64_t> asked,
                                      uint64_t otherwise) const {
  if (!asked.has_value()) return otherwise;
  constexpr absl::string_view kField = "session.context_cap";
  const uint64_t most = MostContextCap();
  if (most == 0) {
    return OutOfBounds(kField, *asked,
                       "absent: sessions of this model absorb any number");
  }
  if (*asked >= 1 && *asked <= most) return *asked;
  return OutOfBounds(
      kField, *asked,
      absl::StrCat("in [1, ", most, "] (the server's ", BoundOfCaps(), ")"));
}

absl::Status Shelf::Charge(Tier tier, uint64_t each, size_t sessions,
                           const Moment& now) {
  while (each * sessions > charges.left(tier)) {
    if (tier != listed_tier() || !EndOldestPrefix()) {
      return Refused(tier, each, now);
    }
  }
  charges.Take(tier, each * sessions);
  return absl::OkStatus();
}

absl::StatusOr<Shelf::ChargedSlot> Shelf::ChargeOne(Tier tier,
                                                    uint64_t context_cap,
                                                    const Moment& now) {
  ChargedSlot charged = {.bytes = ChargeOf(tier, context_cap)};
  STEADYSTATE_RETURN_IF_ERROR(Charge(tier, charged.bytes, 1, now));
  if (tier == Tier::kStore) return charged;
  absl::StatusOr<StateLease> lease =
      LeaseIfFree(pool, layout.lease_bytes(context_cap));
  if (!lease.ok()) {
    charges.GiveBack(tier, charged.bytes);
    return lease.status();
  }
  charged.lease = *std::move(lease);
  return charged;
}

absl::Status Shelf::Refused(Tier tier, uint64_t bytes,
                            const Moment& now) const {
  const absl::Duration retry = std::clamp(table.NextExpiry() - now.steady,
                                          kMinStateRetry, kMaxStateRetry);
  if (tier == Tier::kStore) {
    return MakeError(
        ErrorReason::kStateBudgetExhausted,
        absl::StrCat("sessions take all ", FormatByteSize(charges.most(tier)),
                     " that they may take in the store; one is counted as ",
                     FormatByteSize(bytes),
                     ": delete sessions or raise --store_budget"),
        {{"budget_bytes", absl::StrCat(charges.most(tier))},
         {"session_bytes", absl::StrCat(bytes)}},
        retry);
  }
  const absl::Status exhausted = pool.Exhausted(bytes);
  const std::optional<ErrorDetails> details = GetErrorDetails(exhausted);
  return MakeError(details->reason, exhausted.message(), details->metadata,
                   retry);
}

absl::StatusOr<bool> Shelf::Resize(Session& session, uint64_t context_cap,
                                   const Moment& now) {
  const uint64_t before = session.state.context_cap();
  const uint64_t charge = ChargeOf(session.charged, context_cap);
  const uint64_t more = charge - std::min(charge, session.charge);
  STEADYSTATE_RETURN_IF_ERROR(Charge(session.charged, more, 1, now));
  if (!SetCap(session, context_cap)) {
    // What it had, it has room for.
    SetCap(session, before);
    charges.GiveBack(session.charged, more);
    return false;
  }
  charges.GiveBack(session.charged, session.charge + more - charge);
  session.charge = charge;
  return true;
}

}  // namespace steadystate
