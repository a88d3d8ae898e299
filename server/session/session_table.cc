#include "server/session/session_table.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/session/session_id.h"

namespace steadystate {
namespace {

// Sessions that one List looks at, under a lock: less than a millisecond.
constexpr size_t kMostLooks = 4096;

// Of their owners, and of what there is, apart.
bool Matches(const SessionQuery& query, const Session& session) {
  const absl::string_view name =
      CheckpointName(session.id).value_or(session.id);
  if (!query.pattern.empty() && !MatchesPattern(query.pattern, name)) {
    return false;
  }
  return std::all_of(
      query.labels.begin(), query.labels.end(), [&session](const auto& label) {
        const auto found = session.labels.find(label.first);
        return found != session.labels.end() && found->second == label.second;
      });
}

std::string Rfc3339(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E*SZ", time, absl::UTCTimeZone());
}

absl::Status ExpiredError(absl::string_view id, absl::Time expire_time) {
  const std::string time = Rfc3339(expire_time);
  return MakeError(
      ErrorReason::kSessionExpired,
      absl::StrCat("session '", id, "' expired at ", time,
                   " because it had been idle for its ttl; create it again"),
      {{"session", std::string(id)}, {"expire_time", time}});
}

// When the session expires by the time of day as it is now, if it is idle from
// now on. Where nobody has set that since the last step, exactly the ttl after
// it.
absl::Time WallExpiry(const Session& session, const Moment& now) {
  // Clocks run apart by some parts in 10,000, and are not read at once.
  constexpr double kDrift = 1e-3;
  constexpr absl::Duration kApart = absl::Seconds(1);
  const Moment& since = session.active ? now : session.last_step;
  const absl::Duration passed = now.steady - since.steady;
  const absl::Duration set = now.wall - since.wall - passed;
  const absl::Time expiry = since.wall + session.ttl;
  return absl::AbsDuration(set) <= kApart + passed * kDrift ? expiry
                                                            : expiry + set;
}

absl::Status AlreadyExists(const std::string& id) {
  if (const auto checkpoint = CheckpointName(id)) {
    return MakeError(ErrorReason::kCheckpointAlreadyExists,
                     absl::StrCat(Called(id),
                                  " exists already: delete it or choose "
                                  "another checkpoint_id"),
                     {{"checkpoint", std::string(*checkpoint)}});
  }
  return MakeError(ErrorReason::kSessionAlreadyExists,
                   absl::StrCat("session '", id,
                                "' exists already: delete it or choose another "
                                "session_id"),
                   {{"session", id}});
}

// Until its store takes notice of it, which is tried once a second.
absl::Status BeingDeleted(const std::string& id) {
  return MakeError(ErrorReason::kStoreUnavailable,
                   absl::StrCat(Called(id),
                                " is being deleted, and the store cannot be "
                                "told: try again, or choose another id"),
                   {}, absl::Seconds(1));
}

absl::Status ValidateOptions(const SessionOptions& options) {
  if (!options.id.empty()) {
    STEADYSTATE_RETURN_IF_ERROR(ValidateSessionId(options.id));
  }
  if (options.ttl.has_value()) {
    STEADYSTATE_RETURN_IF_ERROR(ValidateSessionTtl(*options.ttl));
  }
  return ValidateLabels(options.labels);
}

}  // namespace

SessionTable::SessionTable(const SessionLayout& layout,
                           absl::Duration default_ttl,
                           size_t max_expired_remembered, bool stored)
    : layout_(layout),
      default_ttl_(default_ttl),
      stored_(stored),
      expired_(max_expired_remembered) {}

absl::Status SessionTable::CheckNew(const SessionOptions& options) const {
  STEADYSTATE_RETURN_IF_ERROR(ValidateOptions(options));
  if (options.id.empty()) return absl::OkStatus();
  return CheckFree({options.id, options.owner});
}

absl::Status SessionTable::CheckFree(const SessionKey& key) const {
  if (sessions_.contains(key) || claimed_.contains(key)) {
    return AlreadyExists(std::string(key.id));
  }
  return KeepsName(key) ? BeingDeleted(std::string(key.id)) : absl::OkStatus();
}

Session& SessionTable::Add(SessionOptions options, const Moment& now) {
  return Add(std::make_unique<Session>(layout_), std::move(options), now);
}

Session& SessionTable::Add(std::unique_ptr<Session> session,
                           SessionOptions options, const Moment& now) {
  Name(*session, std::move(options), now);
  return Add(std::move(session));
}

void SessionTable::Name(Session& session, SessionOptions options,
                        const Moment& now) {
  session.owner = std::move(options.owner);
  session.id = std::move(options.id);
  while (session.id.empty() || !CheckFree(session.key()).ok()) {
    session.id = NewSessionId();
  }
  session.created = now;
  session.last_step = now;
  session.ttl = options.ttl.value_or(default_ttl_);
  session.labels = std::move(options.labels);
}

void SessionTable::Claim(Session& session, SessionOptions options,
                         const Moment& now) {
  Name(session, std::move(options), now);
  claimed_.insert(session.key());
}

size_t SessionTable::claimed(SessionKind kind) const {
  return static_cast<size_t>(std::count_if(
      claimed_.begin(), claimed_.end(),
      [kind](const SessionKey& key) { return KindOfId(key.id) == kind; }));
}

Session& SessionTable::Add(std::unique_ptr<Session> claimed) {
  claimed_.erase(claimed->key());
  SetOrder(*claimed, claimed->expire_time());
  expired_.Forget(claimed->key());
  Session& added = *claimed;
  ++CountOf(added).all;
  if (added.stream != 0) of_streams_.emplace(added.stream, &added);
  keys_.insert(added.key());
  sessions_.emplace(added.key(), std::move(claimed));
  return added;
}

void SessionTable::SetTimes(Session& session, const Moment& created,
                            const Moment& last_step) {
  session.created = created;
  session.last_step = last_step;
  SetOrder(session, session.expire_time());
}

absl::StatusOr<Session*> SessionTable::Find(const SessionKey& key,
                                            const Moment& now) const {
  const auto found = sessions_.find(key);
  if (found == sessions_.end()) return NotFound(key);
  Session& session = *found->second;
  if (Expired(session, now.steady)) {
    return ExpiredError(key.id, WallExpiry(session, now));
  }
  return &session;
}

absl::Status SessionTable::NotFound(const SessionKey& key) const {
  if (KeepsName(key)) return BeingDeleted(std::string(key.id));
  if (const std::optional<absl::Time> time = expired_.Find(key)) {
    return ExpiredError(key.id, *time);
  }
  if (const auto checkpoint = CheckpointName(key.id)) {
    return MakeError(ErrorReason::kCheckpointNotFound,
                     absl::StrCat(Called(key.id),
                                  " does not exist: it was never created or "
                                  "has been deleted"),
                     {{"checkpoint", std::string(*checkpoint)}});
  }
  // What cannot be an id is not repeated at any length.
  const std::string shown = absl::CHexEscape(key.id.substr(0, kMaxLabelBytes));
  return MakeError(ErrorReason::kSessionNotFound,
                   absl::StrCat("session '", shown,
                                "' does not exist: it was never created, has "
                                "been deleted, or ended with a server that did "
                                "not store it"),
                   {{"session", shown}});
}

absl::StatusOr<SessionPage> SessionTable::List(const SessionQuery& query,
                                               size_t page_size,
                                               absl::string_view page_token,
                                               const Moment& now) const {
  if (page_size < 1 || page_size > kMaxPageSize) {
    return MakeError(ErrorReason::kInvalidArgument,
                     absl::StrCat("page_size ", page_size,
                                  " is not between 1 and ", kMaxPageSize),
                     {{"field", "page_size"},
                      {"value", absl::StrCat(page_size)},
                      {"bounds", absl::StrCat(kMaxPageSize)}});
  }
  const bool checkpoints = query.what == Listed::kCheckpoints;
  const absl::string_view owner = query.owner;
  // An id begins with a letter or a digit.
  const std::string first = checkpoints ? CheckpointId("") : "0";
  auto next = keys_.lower_bound({first, owner});
  if (!page_token.empty()) {
    STEADYSTATE_ASSIGN_OR_RETURN(const std::string last,
                                 ParsePageToken(page_token));
    next = keys_.upper_bound({last, owner});
    if (next != keys_.end() && *next < SessionKey(first, owner)) {
      next = keys_.lower_bound({first, owner});
    }
  }
  SessionPage page;
  size_t looks = 0;
  for (; next != keys_.end() && next->owner == owner; ++next) {
    if (checkpoints && !CheckpointName(next->id).has_value()) break;
    const Session& session = *sessions_.find(*next)->second;
    if (++looks == kMostLooks) {
      page.next_page_token = MakePageToken(next->id);
    }
    if (Matches(query, session) && !Expired(session, now.steady)) {
      if (page.sessions.size() == page_size) {
        page.next_page_token = MakePageToken(page.sessions.back().id);
        break;
      }
      page.sessions.push_back(Describe(session, now));
    }
    if (looks == kMostLooks) break;
  }
  return page;
}

namespace {

SessionTier TierOf(const SessionState& state) {
  if (state.in_memory()) return SessionTier::kMemory;
  return state.stored() ? SessionTier::kStored : SessionTier::kElsewhere;
}

}  // namespace

SessionInfo SessionTable::Describe(const Session& session,
                                   const Moment& now) const {
  return {.id = session.id,
          .uid = ToString(session.uid),
          .position = session.position,
          .earliest_position = session.EarliestPosition(layout_.history()),
          .state_bytes = layout_.charge_bytes(session.state.context_cap()),
          .active = session.active,
          .tier = TierOf(session.state),
          .create_time = session.created.wall,
          .last_step_time = session.last_step.wall,
          .ttl = session.ttl,
          .expire_time = WallExpiry(session, now),
          .labels = session.labels,
          .other_numerics = session.other_numerics,
          .durability = session.durability,
          .not_finite = session.health == Health::kNotFinite,
          .unusable = session.unusable,
          .ephemeral = session.stream != 0,
          .context_cap = session.state.context_cap()};
}

void SessionTable::SetActive(Session& session, const Moment& now) {
  session.active = true;
  ++active_;
  ++CountOf(session).active;
  if (!stored_) return;
  // Seldom, however often it becomes so: nobody puts it back before then.
  const SteadyTime look = now.steady + session.ttl / kLooksInTtl;
  if (!session.order_time.has_value() || *session.order_time > look) {
    SetOrder(session, look);
  }
}

void SessionTable::SetIdle(Session& session, const Moment& now) {
  session.active = false;
  session.last_step = now;
  --active_;
  --CountOf(session).active;
  if (stored_ && session.stream == 0 && !session.idle_order.has_value() &&
      (session.state.in_memory() || session.state.origin() != nullptr)) {
    WatchIdle(session);
  }
  const SteadyTime expire_time = session.expire_time();
  if (!session.order_time.has_value() || *session.order_time > expire_time) {
    SetOrder(session, expire_time);
  }
}

void SessionTable::SetIdleOrder(Session& session,
                                std::optional<SteadyTime> time) {
  if (session.idle_order.has_value()) {
    idle_order_.erase({*session.idle_order, &session});
  }
  session.idle_order = time;
  if (time.has_value()) idle_order_.emplace(*time, &session);
}

void SessionTable::WatchIdle(Session& session) {
  SetIdleOrder(session, session.last_step.steady);
}

void SessionTable::ForgetIdle(Session& session) {
  SetIdleOrder(session, std::nullopt);
}

// An entry may be older than the session's last step, so that a step changes no
// order: it is put right when it comes first.
Session* SessionTable::LongestIdle(size_t max) {
  for (size_t seen = 0; seen < max && !idle_order_.empty(); ++seen) {
    Session& session = *idle_order_.begin()->second;
    if (session.active && !session.paused) {
      ForgetIdle(session);  // SetIdle puts it back, or SessionKeeper::Pause
    } else if (session.last_step.steady > *session.idle_order) {
      WatchIdle(session);
    } else {
      return &session;
    }
  }
  return nullptr;
}

SteadyTime SessionTable::IdleSince() const {
  return idle_order_.empty() ? SteadyTime::InfiniteFuture()
                             : idle_order_.begin()->first;
}

std::vector<SessionKey> SessionTable::Keys() const {
  return {keys_.begin(), keys_.end()};
}

Session* SessionTable::FindAny(const SessionKey& key) const {
  const auto found = sessions_.find(key);
  return found == sessions_.end() ? nullptr : found->second.get();
}

std::unique_ptr<Session> SessionTable::Remove(Session& session) {
  ClearOrder(session);
  ForgetIdle(session);
  Count& count = CountOf(session);
  --count.all;
  if (session.active) {
    --active_;
    --count.active;
  }
  if (session.stream != 0) of_streams_.erase({session.stream, &session});
  if (session.prefix.has_value()) {
    prefixes_.erase({*session.prefix, &session});
    std::erase(kept_prefixes_, &session);
  }
  const auto found = sessions_.find(session.key());
  std::unique_ptr<Session> removed = std::move(found->second);
  sessions_.erase(found);
  keys_.erase(removed->key());
  return removed;
}

std::vector<Session*> SessionTable::OfStream(uint64_t stream,
                                             size_t most) const {
  std::vector<Session*> sessions;
  for (auto next = of_streams_.lower_bound({stream, nullptr});
       next != of_streams_.end() && next->first == stream &&
       sessions.size() < most;
       ++next) {
    sessions.push_back(next->second);
  }
  return sessions;
}

void SessionTable::SetPrefix(Session& session, const PrefixDigest& prefix) {
  session.prefix = prefix;
  prefixes_.emplace(prefix, &session);
  if (PrefixOfId(session.id).has_value()) kept_prefixes_.push_back(&session);
}

Session* SessionTable::OldestPrefix() const {
  const auto oldest =
      std::min_element(kept_prefixes_.begin(), kept_prefixes_.end(),
                       [](const Session* a, const Session* b) {
                         return a->last_step.steady < b->last_step.steady;
                       });
  return oldest == kept_prefixes_.end() ? nullptr : *oldest;
}

Session* SessionTable::FindPrefix(const PrefixDigest& prefix) const {
  const auto found = prefixes_.lower_bound({prefix, nullptr});
  return found == prefixes_.end() || found->first != prefix ? nullptr
                                                            : found->second;
}

std::unique_ptr<Session> SessionTable::RemoveExpired(Session& session,
                                                     const Moment& now) {
  const bool outlives = session.durability != Durability::kNone &&
                        session.stream == 0 &&
                        KindOfId(session.id) == SessionKind::kSession;
  expired_.Add(session.key(), WallExpiry(session, now),
               outlives ? ExpiredIds::Stored::kYes : ExpiredIds::Stored::kNo);
  return Remove(session);
}

std::vector<std::unique_ptr<Session>> SessionTable::TakeExpired(
    const Moment& now, size_t max, std::vector<Session*>& in_use) {
  std::vector<std::unique_ptr<Session>> taken;
  // Those that were used meanwhile count too: they may be all there are.
  for (size_t seen = 0; seen < max && NextExpiry() <= now.steady; ++seen) {
    Session& session = *order_.begin()->second;
    if (session.active && stored_) {
      SetOrder(session, now.steady + session.ttl / kLooksInTtl);
      in_use.push_back(&session);
    } else if (session.active) {
      ClearOrder(session);  // SetIdle puts it back
    } else if (session.expire_time() > now.steady) {
      SetOrder(session, session.expire_time());
    } else {
      taken.push_back(RemoveExpired(session, now));
    }
  }
  return taken;
}

std::unique_ptr<Session> SessionTable::TakeIfExpired(const SessionKey& key,
                                                     const Moment& now) {
  Session* const session = FindAny(key);
  return session != nullptr && Expired(*session, now.steady)
             ? RemoveExpired(*session, now)
             : nullptr;
}

SteadyTime SessionTable::NextExpiry() const {
  return order_.empty() ? SteadyTime::InfiniteFuture() : order_.begin()->first;
}

std::vector<const Session*> SessionTable::Sessions() const {
  std::vector<const Session*> all;
  all.reserve(sessions_.size());
  for (const auto& [key, session] : sessions_) all.push_back(session.get());
  return all;
}

void SessionTable::SetOrder(Session& session, SteadyTime time) {
  ClearOrder(session);
  order_.emplace(time, &session);
  session.order_time = time;
}

void SessionTable::ClearOrder(Session& session) {
  if (!session.order_time.has_value()) return;
  order_.erase({*session.order_time, &session});
  session.order_time.reset();
}

}  // namespace steadystate
