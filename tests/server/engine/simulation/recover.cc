// Of Simulation: what another process finds.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/server/engine/simulation/simulation.h"

namespace steadystate {
namespace {

// All that there was on the way to them.
std::vector<VersionPtr> WithAllBefore(const std::vector<VersionPtr>& heads) {
  std::set<VersionPtr> all;
  for (const VersionPtr& head : heads) {
    for (VersionPtr at = head; at != nullptr && all.insert(at).second;
         at = at->before) {
    }
  }
  return {all.begin(), all.end()};
}

// Does what was answered outlive that?
bool Outlives(Durability durability, Ending ending) {
  switch (ending) {
    case Ending::kOrderly:
      return durability >= Durability::kShutdown;
    case Ending::kKilled:
      return durability >= Durability::kLog;
    case Ending::kPowerLost:
      return durability >= Durability::kSync;
  }
  return false;
}

}  // namespace

std::vector<VersionPtr> Simulation::MayBe(const Live& live, Ending ending) {
  if (ending == Ending::kOrderly) return {live.now};
  std::vector<VersionPtr> heads = live.unacknowledged;
  heads.push_back(live.now);
  if (!Outlives(live.durability, ending)) {
    heads.push_back(live.acknowledged);
    heads.insert(heads.end(), live.abandoned.begin(), live.abandoned.end());
    return WithAllBefore(heads);
  }
  heads.push_back(live.acknowledged);
  for (VersionPtr at = live.now; at != nullptr; at = at->before) {
    if (at != live.acknowledged) continue;
    for (at = live.now; at != live.acknowledged; at = at->before) {
      heads.push_back(at);
    }
    break;
  }
  return heads;
}

bool Simulation::MayBeGone(const Live& live, Ending ending, absl::Time now) {
  if (!Outlives(live.durability, ending) || live.may_be_deleted) return true;
  // What did not change it was not written down.
  return ending != Ending::kOrderly && live.absorbed + live.ttl <= now;
}

void Simulation::Restart(Ending ending, Dice& dice) {
  const uint64_t rounds = dice.Below(8);
  const uint64_t puts = dice.Below(8);
  if (ending == Ending::kOrderly) {
    Note("restarts");
    const auto left = machine_.engine().StoreSessions(absl::Minutes(1));
    if (left != size_t{0}) {
      Fail(absl::StrCat(left.value_or(0), " sessions are not stored"));
    }
  } else {
    disk_at_kill_ = machine_.CopyOfDisk();
    if (ending == Ending::kPowerLost) disk_at_kill_->LosePower(rounds, puts);
    Note(ending == Ending::kPowerLost ? "loses power" : "is killed");
  }
  Recover(ending);
}

void Simulation::Recover(Ending ending) {
  machine_.Restart(std::move(disk_at_kill_));
  if (ending != Ending::kOrderly) {
    // Another disk, which works.
    faulty_ = false;
    faulty_waves_ = 0;
  }
  EndProbe(ending);
  const auto listed = ListAll();
  for (auto entry = live_.begin(); entry != live_.end() && !failed_;) {
    auto& [name, live] = *entry;
    const auto found = listed.find(name);
    // Of what was made just before the end the uid is not known; another of
    // that name may come back in its place.
    const bool there =
        found != listed.end() &&
        (live.uid.empty() ? live.durability == found->second.durability &&
                                live.ttl == found->second.ttl
                          : live.uid == found->second.uid);
    if (there && live.durability == Durability::kNone) {
      Fail(ToString(name) + " should have ended with the process");
    }
    if (there) {
      TakeUp(name, found->second, ending);
      ++entry;
      continue;
    }
    if (!MayBeGone(live, ending, Now())) {
      Fail(absl::StrCat(ToString(name), " is lost; its durability is ",
                        static_cast<int>(live.durability)));
    }
    // It may have expired.
    expired_.insert(name);
    entry = live_.erase(entry);
  }
  for (const auto& [name, info] : listed) {
    if (!failed_ && !live_.contains(name)) Adopt(name, info, ending);
  }
  for (const Maybe& maybe : maybe_) {
    // It may have come back, and expired at once.
    if (MayComeBack(maybe, ending) && !listed.contains(maybe.name)) {
      expired_.insert(maybe.name);
    }
  }
  maybe_.clear();
}

void Simulation::TakeUp(const SessionName& name, const SessionInfo& info,
                        Ending ending) {
  Live& live = live_.at(name);
  const VersionPtr is = Choose(name, info, MayBe(live, ending));
  if (is == nullptr) return;
  if (info.durability != live.durability || info.ttl != live.ttl) {
    Fail(absl::StrCat(ToString(name), " has another durability or ttl"));
  }
  if (info.last_step_time > live.last ||
      (ending == Ending::kOrderly && info.last_step_time != live.last)) {
    Fail(absl::StrCat(ToString(name), " was last used ",
                      absl::FormatDuration(live.last - info.last_step_time),
                      " before it was"));
  }
  live.uid = info.uid;
  live.now = live.acknowledged = is;
  live.unacknowledged.clear();
  live.abandoned.clear();
  live.may_be_deleted = false;
  live.last = LastUsed(name);
  live.absorbed = std::min(live.absorbed, info.last_step_time);
}

bool Simulation::MayComeBack(const Maybe& maybe, Ending ending) {
  return maybe.durability != Durability::kNone &&
         (!maybe.only_without_power || ending == Ending::kPowerLost);
}

// It is there, and need not be.
void Simulation::Adopt(const SessionName& name, const SessionInfo& info,
                       Ending ending) {
  std::vector<VersionPtr> may_be;
  absl::Duration ttl;
  for (const Maybe& maybe : maybe_) {
    if (maybe.name != name || !MayComeBack(maybe, ending) ||
        maybe.durability != info.durability || maybe.ttl != info.ttl ||
        (!maybe.uid.empty() && maybe.uid != info.uid)) {
      continue;
    }
    ttl = maybe.ttl;
    const std::vector<VersionPtr> its =
        ending != Ending::kPowerLost && maybe.if_killed.has_value()
            ? *maybe.if_killed
            : WithAllBefore(maybe.versions);
    may_be.insert(may_be.end(), its.begin(), its.end());
  }
  if (may_be.empty()) {
    Fail(ToString(name) + " was deleted, or never there, and comes back");
    return;
  }
  Note("comes back: " + ToString(name));
  wave_begin_ = info.last_step_time;
  Add(name, info.durability, ttl, may_be);
}

}  // namespace steadystate
