#include "tests/server/engine/simulation/simulation.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "server/session/prefix.h"
#include "server/session/session_id.h"
#include "tests/testing/environment_number.h"

namespace steadystate {
namespace {

constexpr size_t kPrefixes = 3;
// How many of the latest operations are told of a failure, if nobody says.
constexpr uint64_t kTold = 60;
constexpr std::chrono::seconds kHangs{60};

const char* const kOwners[] = {"a", "b"};

// Of a session whose owner has no other.
SessionName ProbeName() { return {"probe", "probe"}; }

}  // namespace

EngineOptions Simulation::Options(const Model& model) {
  EngineOptions options;
  options.prefill_chunk_rows = kPieceRows;
  options.history = kHistory;
  options.prefix_cache = kPrefixes;
  options.session_ttl = kDefaultTtl;
  options.durability = kDefaultDurability;
  options.state_memory_bytes =
      kMemorySessions * SessionLayoutOf(model, options).charge_bytes();
  options.max_replay = absl::Milliseconds(1);
  return options;
}

Simulation::Simulation(uint64_t seed, uint64_t operations)
    : seed_(seed),
      operations_(operations),
      model_(SharedTinyModel()),
      machine_(Options(*model_), model_),
      reference_(*model_, kPieceRows),
      plain_(reference_) {}

Simulation::~Simulation() = default;

void Simulation::Fail(const std::string& what) {
  if (std::exchange(failed_, true)) return;
  ADD_FAILURE() << "seed " << seed_ << ", operation " << done_ << ", wave "
                << wave_ << ": " << what << "\nThe latest:\n"
                << absl::StrJoin(latest_, "\n");
}

void Simulation::Note(std::string what) {
  latest_.push_back(absl::StrCat(wave_, " ", what));
  static const uint64_t told =
      NumberFromEnvironment("STEADYSTATE_SIMULATION_TOLD", kTold);
  if (latest_.size() > told) latest_.pop_front();
}

void Simulation::Run() {
  while (!failed_ && done_ < operations_) {
    ++wave_;
    Wave();
  }
  if (!failed_) End();
}

void Simulation::Wave() {
  may_fail_ = faulty_;
  deletion_failed_ = false;
  Draw();
  live_before_ = live_.size();
  may_create_ = 0;
  for (const Script& script : scripts_) {
    for (const Action& action : script.actions) {
      ++done_;
      may_create_ += action.fork.ids.size() + 1;
    }
  }
  Dice dice(seed_, wave_, 1'000'000);
  wave_begin_ = Now();
  SubmitAll();
  Meanwhile(dice);
  AwaitAll();
  for (const Script& script : scripts_) {
    for (const Action& action : script.actions) Note(DescribeAnswer(action));
  }
  for (const Script& script : scripts_) {
    if (!failed_) Check(script);
  }
  if (failed_) return;
  if (disk_at_kill_ != nullptr) Recover(Ending::kKilled);
  if (!failed_) Between(dice);
}

void Simulation::SubmitAll() {
  for (Script& script : scripts_) {
    const WriterId writer = machine_.engine().NewWriter();
    for (Action& action : script.actions) Submit(machine_, writer, action);
  }
}

// Some things happen while the requests are under way.
void Simulation::Meanwhile(Dice& dice) {
  const uint64_t turns = dice.Below(200);
  const bool passes = dice.Percent(30);
  const bool fails = dice.Percent(faulty_ ? 30 : 2);
  const bool is_killed = dice.Percent(3);
  const uint64_t which = dice.Below(7);
  for (uint64_t i = 0; i < turns; ++i) std::this_thread::yield();
  if (passes) machine_.clock().Advance(absl::Milliseconds(2));
  if (fails) SetFault(which);
  if (!is_killed) return;
  // What has been answered by now must be there, whatever the present process
  // does from now on.
  for (Script& script : scripts_) {
    for (Action& action : script.actions) TakeAnswer(action);
  }
  disk_at_kill_ = machine_.CopyOfDisk();
  faulty_waves_ = 0;
  Note("killed");
}

// A disk that has failed is left alone for a second: what is deleted waits for
// that. A sync that began before the disk worked again may have failed since.
bool Simulation::Await(const Action& action) {
  if (action.kind != ActionKind::kDelete) return AwaitAnswer(action, kHangs);
  if (!faulty_) {
    if (AwaitAnswer(action, std::chrono::seconds(10))) return true;
    may_fail_ = true;
  }
  for (int i = 0; i < 100; ++i) {
    if (AwaitAnswer(action, std::chrono::milliseconds(20))) return true;
    machine_.clock().Advance(absl::Milliseconds(1100));
  }
  return AwaitAnswer(action, kHangs);
}

void Simulation::AwaitAll() {
  for (const bool deletes : {false, true}) {
    for (Script& script : scripts_) {
      for (Action& action : script.actions) {
        if ((action.kind == ActionKind::kDelete) != deletes) continue;
        if (!Await(action)) Hang(Describe(action));
        if (disk_at_kill_ == nullptr) TakeAnswer(action);
      }
    }
  }
}

// The engine cannot be ended any more.
void Simulation::Hang(const std::string& what) {
  std::cerr << "seed " << seed_ << ", operation " << done_ << ", wave " << wave_
            << " hangs: " << what << "\nThe latest:\n"
            << absl::StrJoin(latest_, "\n") << std::endl;
  std::abort();
}

void Simulation::Between(Dice& dice) {
  Expire();
  if (disk_at_kill_ == nullptr) {
    if (dice.Percent(3)) Restart(Ending::kPowerLost, dice);
    const uint64_t killed = deletion_failed_ ? 30 : 3;
    if (!failed_ && dice.Percent(killed)) Restart(Ending::kKilled, dice);
    if (!failed_ && !faulty_ && dice.Percent(3)) {
      Restart(Ending::kOrderly, dice);
    }
  }
  disk_at_kill_ = nullptr;
  if (failed_) return;
  if (faulty_ && (faulty_waves_ == 0 || --faulty_waves_ == 0)) EndFaults();
  PassTime(dice);
  if (!failed_ && !faulty_ && wave_ % 8 == 0) CheckAll();
  if (!faulty_ && dice.Percent(8)) {
    faulty_waves_ = 1 + dice.Below(3);
    const uint64_t faults = 1 + dice.Below(2);
    for (uint64_t i = 0; i < faults; ++i) SetFault(dice.Below(7));
  }
}

void Simulation::SetFault(uint64_t which) {
  MemoryStore& store = machine_.store();
  faulty_ = may_fail_ = true;
  if (which == 0) store.FailWrites(true);
  if (which == 1) store.FailWritesAfterThem(true);
  if (which == 2) store.FailReads(true);
  if (which == 3) store.FailLog(true);
  if (which == 4) store.FailLogAfterIt(true);
  if (which == 5) store.FailLogSyncs(true);
  if (which == 6) store.FailPutSyncs(true);
  Note(absl::StrCat("the disk fails: ", which));
}

// The disk works again, and whoever has found it failing knows.
void Simulation::EndFaults() {
  MemoryStore& store = machine_.store();
  store.FailWrites(false);
  store.FailWritesAfterThem(false);
  store.FailReads(false);
  store.FailLog(false);
  store.FailLogAfterIt(false);
  store.FailLogSyncs(false);
  store.FailPutSyncs(false);
  const auto give_up = std::chrono::steady_clock::now() + kHangs;
  while (std::chrono::steady_clock::now() < give_up) {
    // Longer than what has failed is left alone.
    machine_.clock().Advance(absl::Milliseconds(1100));
    if (!Probe(Durability::kSync) || !Probe(Durability::kShutdown)) continue;
    faulty_ = false;
    Note("the disk works");
    // What was to be deleted, or undone, before the probes were, is gone.
    std::erase_if(maybe_, [](const Maybe& maybe) {
      return maybe.durability == Durability::kSync;
    });
    for (Maybe& maybe : maybe_) maybe.only_without_power = true;
    return;
  }
  Fail("the disk works, and the server does not");
}

// Do a session's creation, its way to the disk and its deletion succeed?
bool Simulation::Probe(Durability durability) {
  bool works = true;
  for (const ActionKind kind :
       {ActionKind::kCreate, ActionKind::kHibernate, ActionKind::kDelete}) {
    works = DoWithProbe(kind, durability) && works;
  }
  return works;
}

bool Simulation::DoWithProbe(ActionKind kind, Durability durability) {
  Action action(kind, ProbeName());
  action.options.owner = action.name.first;
  action.options.id = action.name.second;
  action.options.durability = durability;
  Submit(machine_, 1, action);
  if (!AwaitAnswer(action, kHangs)) return false;
  TakeAnswer(action);
  return action.status.ok();
}

// It was deleted, and only a loss of power may bring it back.
void Simulation::EndProbe(Ending ending) {
  if (!machine_.engine().GetSession(KeyOf(ProbeName())).ok()) return;
  if (ending != Ending::kPowerLost) {
    Fail("what was to show that the disk works comes back");
  } else if (!DoWithProbe(ActionKind::kDelete, Durability::kShutdown)) {
    Fail("what shows that the disk works cannot be deleted");
  }
}

void Simulation::PassTime(Dice& dice) {
  const uint64_t roll = dice.Below(100);
  absl::Duration passes = absl::Milliseconds(dice.Below(3));
  if (roll < 30) passes = absl::Milliseconds(dice.Below(2000));
  if (roll < 8) passes = absl::Minutes(6);
  if (roll < 2) passes = absl::Minutes(90);
  if (passes >= absl::Minutes(1)) {
    Note(absl::StrCat("time passes: ", absl::FormatDuration(passes)));
  }
  machine_.clock().Advance(passes);
  Expire();
}

void Simulation::Expire() {
  for (auto entry = live_.begin(); entry != live_.end();) {
    const auto& [name, live] = *entry;
    if (live.last + live.ttl > Now()) {
      ++entry;
      continue;
    }
    Note("expires: " + ToString(name));
    expired_.insert(name);
    entry = live_.erase(entry);
  }
}

void Simulation::Add(const SessionName& name, Durability durability,
                     absl::Duration ttl,
                     const std::vector<VersionPtr>& may_be) {
  Live live = {.uid = "",
               .durability = durability,
               .ttl = ttl,
               .last = Now(),
               .absorbed = wave_begin_,
               .now = may_be.front(),
               .acknowledged = may_be.front()};
  expired_.erase(name);
  if (disk_at_kill_ != nullptr) {
    live.unacknowledged = live.abandoned = may_be;
    live_.emplace(name, std::move(live));
    return;
  }
  const auto info = machine_.engine().GetSession(KeyOf(name));
  // Time may have passed for a disk that failed.
  if (!info.ok() && may_fail_ &&
      ReasonOf(info.status()) == ErrorReason::kSessionExpired) {
    expired_.insert(name);
    return;
  }
  if (!info.ok()) {
    Fail(absl::StrCat(ToString(name),
                      " is not there: ", info.status().ToString()));
    return;
  }
  const VersionPtr is = Choose(name, *info, may_be);
  if (is == nullptr) {
    expired_.insert(name);
    return;
  }
  if (info->durability != durability || info->ttl != ttl) {
    Fail(absl::StrCat(ToString(name), " has another durability or ttl"));
  }
  live.uid = info->uid;
  live.last = LastUsed(name);
  live.now = live.acknowledged = is;
  live_.emplace(name, std::move(live));
}

void Simulation::Remove(const SessionName& name, bool surely) {
  Live live = std::move(live_.at(name));
  live_.erase(name);
  Maybe maybe = {.name = name,
                 .uid = live.uid,
                 .durability = live.durability,
                 .ttl = live.ttl,
                 .versions = MayBe(live, Ending::kPowerLost),
                 .if_killed = MayBe(live, Ending::kKilled),
                 .only_without_power = surely};
  deletion_failed_ = deletion_failed_ || !surely;
  if (surely && live.durability == Durability::kSync) return;
  maybe_.push_back(std::move(maybe));
}

void Simulation::CheckAll() {
  CheckLists();
  CheckContents();
  CheckGauges();
  if (machine_.Metric({"steadystate_state_bytes{"}) >
      machine_.Metric({"steadystate_state_capacity_bytes{"})) {
    Fail("more memory is used than there is");
  }
}

void Simulation::CheckGauges() {
  const auto checkpoints =
      std::count_if(live_.begin(), live_.end(), [](const auto& named) {
        return KindOfId(KeyOf(named.first).id) == SessionKind::kCheckpoint;
      });
  const std::pair<const char*, double> expected[] = {
      {"steadystate_sessions{",
       static_cast<double>(live_.size()) - static_cast<double>(checkpoints)},
      {"steadystate_checkpoints{", static_cast<double>(checkpoints)}};
  for (const auto& [gauge, count] : expected) {
    const double shown =
        Settled(gauge, [count](double is) { return is == count; });
    if (shown != count) {
      Fail(absl::StrCat(gauge, " is ", shown, ", and there are ", count));
    }
  }
  const auto few = [](double is) { return is <= kPrefixes; };
  if (!few(Settled("steadystate_kept_prompts{", few))) {
    Fail("more prompts are kept than may be");
  }
}

double Simulation::Settled(const char* gauge,
                           absl::FunctionRef<bool(double)> right) {
  const auto give_up = std::chrono::steady_clock::now() + kHangs;
  double shown = machine_.Metric({gauge});
  while (!right(shown) && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
    shown = machine_.Metric({gauge});
  }
  return shown;
}

// All that one of the sessions is.
void Simulation::CheckContents() {
  if (failed_ || live_.empty()) return;
  Dice dice(seed_, wave_, 2'000'000);
  auto entry = live_.begin();
  std::advance(entry, static_cast<ptrdiff_t>(dice.Below(live_.size())));
  auto& [name, live] = *entry;
  const auto contents = ContentsOf(name);
  if (!contents.has_value()) return;
  live.last = LastUsed(name);
  const std::string differs = Differs(*live.now, *contents);
  if (!differs.empty()) {
    Fail(absl::StrCat(ToString(name), " is not what it should be: ", differs));
  }
}

absl::Time Simulation::LastUsed(const SessionName& name) {
  const auto info = machine_.engine().GetSession(KeyOf(name));
  if (info.ok()) return info->last_step_time;
  Fail(absl::StrCat(ToString(name), ": ", info.status().ToString()));
  return absl::InfinitePast();
}

void Simulation::CheckLists() {
  const auto listed = ListAll();
  for (const auto& [name, live] : live_) {
    const auto found = listed.find(name);
    if (found == listed.end()) {
      Fail(ToString(name) + " is not listed");
    } else if (found->second.position != live.now->position() ||
               found->second.uid != live.uid ||
               found->second.last_step_time != live.last) {
      Fail(absl::StrCat(ToString(name), " is listed at ",
                        found->second.position, ", and is at ",
                        live.now->position()));
    }
  }
  for (const auto& [name, info] : listed) {
    if (!live_.contains(name)) Fail(ToString(name) + " is listed");
  }
}

std::map<SessionName, SessionInfo> Simulation::ListAll() {
  std::map<SessionName, SessionInfo> all;
  for (const char* const owner : kOwners) {
    for (const Listed what : {Listed::kSessions, Listed::kCheckpoints}) {
      std::string token;
      do {
        const auto page = machine_.engine().ListSessions(
            7, token, {.what = what, .owner = owner});
        if (!page.ok()) {
          Fail(page.status().ToString());
          return all;
        }
        for (const SessionInfo& info : page->sessions) {
          all.emplace(SessionName(owner, info.id), info);
        }
        token = page->next_page_token;
      } while (!token.empty());
    }
  }
  return all;
}

// Everything ends: some of it is deleted, the rest expires. Nothing is left.
void Simulation::End() {
  if (faulty_) EndFaults();
  Expire();  // while the disk was to work again
  size_t place = 0;
  for (const auto& [name, live] : live_) {
    if (!CheckpointName(name.second).has_value() && ++place % 2 == 0) continue;
    Action action(ActionKind::kDelete, name);
    Submit(machine_, 1, action);
    if (!Await(action)) Hang(Describe(action));
    TakeAnswer(action);
    if (!action.status.ok()) Fail(DescribeAnswer(action));
  }
  machine_.clock().Advance(absl::Hours(24 * 40));
  const auto give_up = std::chrono::steady_clock::now() + kHangs;
  while (machine_.Metric({"steadystate_sessions{"}) > 0 ||
         machine_.Metric({"steadystate_state_bytes{"}) > 0 ||
         machine_.store().size() > 0) {
    if (std::chrono::steady_clock::now() > give_up) {
      Fail(absl::StrCat(
          "left in the end: ", machine_.Metric({"steadystate_sessions{"}),
          " sessions, ", machine_.Metric({"steadystate_state_bytes{"}),
          " bytes in memory, ", machine_.store().size(),
          " sessions in the store"));
      return;
    }
    ListAll();
    // The store forgets what the log has said to be gone when that is synced,
    // which is a while after it was written.
    machine_.clock().Advance(absl::Milliseconds(100));
    std::this_thread::yield();
  }
}

}  // namespace steadystate
