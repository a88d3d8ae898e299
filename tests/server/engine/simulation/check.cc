// Of Simulation: what is answered.

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/session/session_id.h"
#include "tests/server/engine/simulation/simulation.h"

namespace steadystate {
namespace {

std::vector<VersionPtr> Distinct(std::vector<VersionPtr> versions) {
  std::sort(versions.begin(), versions.end());
  versions.erase(std::unique(versions.begin(), versions.end()), versions.end());
  return versions;
}

std::vector<float> LastHidden(const Past& past, size_t width) {
  return {past.hidden.end() - static_cast<ptrdiff_t>(width), past.hidden.end()};
}

void Append(const std::vector<VersionPtr>& from, std::vector<VersionPtr>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

bool Simulation::Excused(const Action& action, ErrorReason reason) const {
  switch (reason) {
    case ErrorReason::kStoreUnavailable:
      return may_fail_;
    case ErrorReason::kCancelled:
      return action.cancelled || action.cancelled_after.has_value();
    case ErrorReason::kDeadlineExceeded:
      return action.time_left.has_value();
    case ErrorReason::kStateBudgetExhausted:
      // Of those that make a session, or a copy of a state.
      return action.kind != ActionKind::kRequest &&
             (live_before_ + may_create_ > kStoreSessions ||
              scripts_.size() + 2 > kMemorySessions);
    default:
      return false;
  }
}

bool Simulation::SameStep(const Action& action, const Outcome& outcome) {
  const auto& outputs = std::get<StepRequest>(action.asked->request).outputs;
  const StepRecord& answer = action.step;
  const Past& past = *outcome.answers_about;
  if (answer.position != outcome.position ||
      answer.replayed != outcome.replayed) {
    return false;
  }
  const std::vector<float> logits = reference_.Logits(past);
  if (outputs.logits ? answer.logits != logits : !answer.logits.empty()) {
    return false;
  }
  if (outputs.hidden &&
      answer.hidden != LastHidden(past, reference_.hidden_size())) {
    return false;
  }
  if (outputs.sampling.has_value()) {
    const int32_t token =
        reference_.Draw(outcome.answers_about, *outputs.sampling);
    if (answer.sampled_token != token ||
        answer.sampled_logprob != Sampler::Logprob(logits, token)) {
      return false;
    }
  }
  const auto top = reference_.sampler().TopLogprobs(
      logits, outputs.top_logprobs.value_or(0));
  return std::equal(top.begin(), top.end(), answer.top_logprobs.begin(),
                    answer.top_logprobs.end(), [](auto& a, auto& b) {
                      return a.token == b.token && a.logprob == b.logprob;
                    });
}

bool Simulation::SameItems(const Action& action, const Outcome& outcome,
                           bool whole) {
  const auto& items = action.generated;
  if (items.size() > outcome.tokens.size()) return false;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].token != outcome.tokens[i] ||
        items[i].position != outcome.first + i + 1 ||
        items[i].replayed != (i < outcome.replayed_tokens)) {
      return false;
    }
  }
  if (!whole) return true;
  const auto& request = std::get<GenerateRequest>(action.asked->request);
  const GenerateSummary& summary = action.generate_summary;
  const bool reuses = request.reuse_prefix && !request.prompt.empty() &&
                      outcome.path.front()->position() == 0;
  const bool at_length = summary.finish_reason == FinishReason::kLength;
  return items.size() == outcome.tokens.size() &&
         summary.position == outcome.position &&
         summary.generated_tokens == items.size() &&
         summary.replayed_tokens == outcome.replayed_tokens &&
         summary.prompt_tokens == request.prompt.size() &&
         summary.reused_tokens <= (reuses ? request.prompt.size() : 0) &&
         (at_length
              ? items.size() == *request.max_tokens
              : std::count(request.stop_tokens.begin(),
                           request.stop_tokens.end(), items.back().token) > 0);
}

bool Simulation::SameScores(const Action& action, const Outcome& outcome) {
  const auto& request = std::get<ScoreRequest>(action.asked->request);
  size_t item = 0;
  std::optional<std::vector<float>> before;
  if (outcome.path.front()->position() > 0) {
    before = reference_.Logits(*outcome.path.front()->past);
  }
  for (size_t piece = 1; piece < outcome.path.size(); ++piece) {
    const Past& past = *outcome.path[piece]->past;
    const std::vector<float> all = reference_.AllLogits(past);
    const size_t width = all.size() / past.tokens.size();
    for (size_t row = 0; row < past.tokens.size(); ++row, ++item) {
      if (item == action.scored.size()) return true;
      const ScoredToken& scored = action.scored[item];
      std::optional<float> logprob;
      if (before.has_value()) {
        logprob = Sampler::Logprob(*before, past.tokens[row]);
      }
      before.emplace(all.begin() + static_cast<ptrdiff_t>(row * width),
                     all.begin() + static_cast<ptrdiff_t>((row + 1) * width));
      if (scored.token != past.tokens[row] || scored.logprob != logprob ||
          scored.position != outcome.first + item + 1 ||
          (request.logits && scored.logits != *before)) {
        return false;
      }
    }
  }
  return item == action.scored.size();
}

// What the session may be after the request went that way and was answered as
// it was; nothing if it cannot have been.
std::vector<VersionPtr> Simulation::Fits(const Action& action,
                                         const Outcome& outcome) {
  const auto& request = action.asked->request;
  const bool is_step = std::holds_alternative<StepRequest>(request);
  const bool is_score = std::holds_alternative<ScoreRequest>(request);
  const VersionPtr& before = outcome.path.front();
  const VersionPtr& after = outcome.path.back();
  const bool ok = action.answered && action.status.ok();
  if (ok) {
    if (outcome.refusal.has_value()) return {};
    const bool same = is_step ? SameStep(action, outcome)
                      : is_score
                          ? action.scored.size() == outcome.tokens.size() &&
                                SameScores(action, outcome)
                          : SameItems(action, outcome, true);
    return same ? std::vector<VersionPtr>{after} : std::vector<VersionPtr>();
  }
  const size_t items = action.generated.size() + action.scored.size();
  std::optional<ErrorReason> reason;
  if (action.answered) reason = ReasonOf(action.status);
  const bool excused = reason.has_value() && Excused(action, *reason);
  if (outcome.refusal.has_value()) {
    if (reason.has_value() && !excused && reason != outcome.refusal) return {};
    return items == 0 ? std::vector<VersionPtr>{before}
                      : std::vector<VersionPtr>();
  }
  if (reason.has_value() && !excused) return {};
  if (is_step && reason.has_value()) {
    // A log that fails cuts a Step short, at a position that the session tells.
    return reason == ErrorReason::kStoreUnavailable
               ? outcome.path
               : std::vector<VersionPtr>{before};
  }
  if (is_score ? !SameScores(action, outcome)
               : !is_step && !SameItems(action, outcome, false)) {
    return {};
  }
  // What is handed over has been absorbed; of what was cancelled, no more.
  const bool exactly = reason == ErrorReason::kCancelled ||
                       reason == ErrorReason::kDeadlineExceeded;
  const bool beyond = items > outcome.replayed_tokens;
  const uint64_t told = outcome.first + (beyond ? items : 0);
  std::vector<VersionPtr> fits;
  for (const VersionPtr& version : outcome.path) {
    const uint64_t position = version->position();
    if (beyond && (exactly ? position != told : position < told)) continue;
    if (!beyond && exactly && position > std::max(told, before->position())) {
      continue;
    }
    fits.push_back(version);
  }
  return fits;
}

std::vector<VersionPtr> Simulation::Follow(const Action& action, Live& live,
                                           const std::vector<VersionPtr>& from,
                                           std::vector<VersionPtr>& seen) {
  std::vector<VersionPtr> next;
  std::vector<VersionPtr> passed;
  const bool is_step =
      std::holds_alternative<StepRequest>(action.asked->request);
  std::string expected;
  for (const VersionPtr& version : from) {
    for (const Outcome& outcome : plain_.OutcomesOf(version, action.asked)) {
      absl::StrAppend(&expected, "; from ", version->position(),
                      outcome.refusal.has_value()
                          ? absl::StrCat(" ", Name(*outcome.refusal))
                          : absl::StrCat(" to ", outcome.position, " with ",
                                         outcome.tokens.size(), " tokens, ",
                                         outcome.replayed_tokens, " replayed",
                                         outcome.replayed ? ", replayed" : ""));
      const std::vector<VersionPtr> fits = Fits(action, outcome);
      if (fits.empty()) continue;
      Append(fits, next);
      Append(outcome.path, passed);
      if (is_step) {
        // Where the log cut it short others find it there.
        Append(fits, seen);
        seen.push_back(outcome.path.back());
      } else {
        Append(outcome.path, seen);
      }
      const size_t items = action.generated.size();
      if (items <= outcome.replayed_tokens || outcome.path.size() < 2) continue;
      for (const VersionPtr& told : outcome.path) {
        if (told->position() == outcome.first + items) live.acknowledged = told;
      }
    }
  }
  next = Distinct(std::move(next));
  if (next.empty()) {
    Fail(absl::StrCat("not as it should be: ", DescribeAnswer(action),
                      "; expected", expected));
  } else if (action.answered && action.status.ok() && next.size() == 1) {
    live.acknowledged = next.front();
    live.unacknowledged.clear();
  } else {
    Append(passed, live.unacknowledged);
  }
  return next;
}

// The session was deleted while the request was under way. Should a loss of
// power bring it back, it may be anywhere on that way.
void Simulation::NoteCutOff(const Action& action, Live& live,
                            const std::vector<VersionPtr>& from) {
  if (action.kind != ActionKind::kRequest) return;
  for (const VersionPtr& version : from) {
    for (const Outcome& outcome : plain_.OutcomesOf(version, action.asked)) {
      Append(outcome.path, live.unacknowledged);
    }
  }
}

std::vector<VersionPtr> Simulation::FollowRewind(const Action& action,
                                                 Live& live,
                                                 const VersionPtr& from) {
  VersionPtr to;
  std::optional<ErrorReason> refusal;
  bool may_be_out_of_reach = false;
  if (action.expected.value_or(from->position()) != from->position()) {
    refusal = ErrorReason::kPositionMismatch;
  } else if (action.to.checkpoint.has_value()) {
    to = live_.at({action.name.first, *action.to.checkpoint}).now;
  } else if (*action.to.position > from->position()) {
    refusal = ErrorReason::kPositionOutOfReach;
  } else {
    to = plain_.Rewound(from, *action.to.position);
    may_be_out_of_reach =
        !PlainSessions::SurelyReaches(*from, *action.to.position);
  }
  live.abandoned.push_back(from);
  if (!action.answered) {
    if (to == nullptr) return {from};
    live.unacknowledged.push_back(to);
    return {from, to};
  }
  if (action.status.ok()) {
    if (to == nullptr || action.info->position != to->position()) return {};
    live.acknowledged = to;
    live.unacknowledged.clear();
    return {to};
  }
  const ErrorReason reason = ReasonOf(action.status);
  if (Excused(action, reason)) {
    if (to != nullptr) {
      live.unacknowledged.push_back(to);
      live.abandoned.push_back(to);
    }
    return {from};
  }
  if (reason == ErrorReason::kPositionOutOfReach && may_be_out_of_reach) {
    return {from};
  }
  return reason == refusal ? std::vector<VersionPtr>{from}
                           : std::vector<VersionPtr>();
}

// Why the session's contents are not those; empty if they are.
std::string Simulation::Differs(const Version& version,
                                const SessionContents& contents) const {
  const Past& past = *version.past;
  if (contents.position != past.position) {
    return absl::StrCat("position ", contents.position);
  }
  if (past.position == 0) return "";
  if (contents.pending_hidden != LastHidden(past, reference_.hidden_size())) {
    return "hidden";
  }
  if (contents.recent != LatestTokens(past, kMaxPenaltyWindow, false)) {
    return "recent tokens";
  }
  if (contents.history != LatestTokens(past, kHistory, true)) return "history";
  size_t cut = contents.history.size();
  for (const Past* at = &past; at->before != nullptr && cut > 0;
       at = at->before.get()) {
    for (size_t row = at->tokens.size(); row > 0 && cut > 0; --row) {
      --cut;
      if (contents.cuts[cut] != (row == 1)) {
        return absl::StrCat("cut ", cut);
      }
      if (!contents.drawn.empty() && contents.drawn[cut] != at->drawn) {
        return absl::StrCat("drawn ", cut);
      }
    }
  }
  const auto same = [](const PlainRecord& ours, const RequestRecord& theirs) {
    return ours.asked->base().request_id == theirs.id &&
           ours.begin == theirs.begin && ours.end == theirs.end &&
           ours.finished == theirs.finished;
  };
  for (size_t i = 0; i < version.records.size(); ++i) {
    const PlainRecord& ours = version.records[i];
    if (PresenceOf(version, i) == Presence::kPresent &&
        std::none_of(contents.records.begin(), contents.records.end(),
                     [&](const auto& theirs) { return same(ours, theirs); })) {
      return absl::StrCat("no record of ", ours.asked->base().request_id,
                          " from ", ours.begin, " to ", ours.end);
    }
  }
  for (const RequestRecord& theirs : contents.records) {
    if (std::none_of(version.records.begin(), version.records.end(),
                     [&](const auto& ours) { return same(ours, theirs); })) {
      return absl::StrCat("a record of ", theirs.id, " from ", theirs.begin,
                          " to ", theirs.end,
                          theirs.finished ? "" : ", unfinished");
    }
  }
  return "";
}

std::optional<SessionContents> Simulation::ContentsOf(const SessionName& name) {
  Action action(ActionKind::kExport, name);
  Submit(machine_, machine_.engine().NewWriter(), action);
  if (!Await(action)) Hang(Describe(action));
  TakeAnswer(action);
  if (!action.status.ok()) {
    Fail(DescribeAnswer(action));
    return std::nullopt;
  }
  const auto read =
      machine_.engine().snapshots().Read(action.exported->snapshot);
  if (!read.ok()) {
    Fail(absl::StrCat(ToString(name), ": ", read.status().ToString()));
    return std::nullopt;
  }
  SessionContents contents = read->contents;
  // They are lent.
  kept_snapshot_ = std::move(action.exported);
  return contents;
}

VersionPtr Simulation::Choose(const SessionName& name, const SessionInfo& info,
                              const std::vector<VersionPtr>& may_be) {
  std::vector<VersionPtr> there;
  for (const VersionPtr& version : Distinct(may_be)) {
    if (version->position() == info.position) there.push_back(version);
  }
  if (there.size() == 1) return there.front();
  if (there.empty()) {
    Fail(absl::StrCat(
        ToString(name), " is at ", info.position, ", which is none of ",
        absl::StrJoin(may_be, ", ", [](std::string* text, const auto& one) {
          absl::StrAppend(text, one->position());
        })));
    return nullptr;
  }
  if (faulty_) EndFaults();
  // Time passes for that.
  if (info.last_step_time + info.ttl <= Now()) return nullptr;
  const auto contents = ContentsOf(name);
  if (!contents.has_value()) return nullptr;
  std::string why;
  for (const VersionPtr& version : there) {
    const std::string differs = Differs(*version, *contents);
    if (differs.empty()) return version;
    absl::StrAppend(&why, differs, "; ");
  }
  Fail(absl::StrCat(ToString(name), " is none of those that it may be: ", why));
  return nullptr;
}

void Simulation::Settle(const SessionName& name, const Script& script,
                        const std::vector<VersionPtr>& may_be) {
  Live& live = live_.at(name);
  if (disk_at_kill_ != nullptr) {
    Append(may_be, live.unacknowledged);
    Append(may_be, live.abandoned);
    live.last = Now();
    return;
  }
  const absl::Time last = live.last;
  const auto info = machine_.engine().GetSession(KeyOf(name));
  if (!info.ok() && live.last + live.ttl <= Now()) return;
  if (!info.ok()) {
    Fail(absl::StrCat(ToString(name), " is lost: ", info.status().ToString()));
    return;
  }
  live.last = std::max(live.last, info->last_step_time);
  const VersionPtr is = Choose(name, *info, may_be);
  if (is == nullptr) return;
  if (info->uid != live.uid) Fail(ToString(name) + " has another uid");
  const bool used = std::any_of(
      script.actions.begin(), script.actions.end(), [](const Action& action) {
        return action.status.ok() && action.kind != ActionKind::kHibernate &&
               action.kind != ActionKind::kDelete;
      });
  if (info->last_step_time < (used ? wave_begin_ : last) ||
      info->last_step_time > Now()) {
    Fail(absl::StrCat(ToString(name), " was last used at ",
                      absl::FormatTime(info->last_step_time)));
  }
  if (is->position() != live.now->position()) live.absorbed = wave_begin_;
  live.last = LastUsed(name);
  live.now = is;
  if (may_fail_) Append(may_be, live.abandoned);
}

void Simulation::CheckFork(const Action& action, const Live& parent,
                           const std::vector<VersionPtr>& seen) {
  const std::string& owner = action.name.first;
  const auto& at = action.fork.at.position;
  const bool taken = std::any_of(action.fork.ids.begin(), action.fork.ids.end(),
                                 [&](const auto& id) {
                                   return live_.contains({owner, id});
                                 });
  std::vector<VersionPtr> may_be;
  bool surely_reaches = true;
  bool may_mismatch = false;
  for (const VersionPtr& version : seen) {
    const uint64_t position = version->position();
    if (action.expected.value_or(position) != position) {
      may_mismatch = true;
    } else if (!at.has_value()) {
      may_be.push_back(version);
    } else if (*at <= position) {
      surely_reaches =
          surely_reaches && PlainSessions::SurelyReaches(*version, *at);
      may_be.push_back(plain_.Rewound(version, *at));
    }
  }
  const bool ok = !action.answered || action.status.ok();
  if (!ok) {
    const ErrorReason reason = ReasonOf(action.status);
    const bool expected =
        Excused(action, reason) ||
        (taken && (reason == ErrorReason::kSessionAlreadyExists ||
                   reason == ErrorReason::kCheckpointAlreadyExists)) ||
        (may_mismatch && reason == ErrorReason::kPositionMismatch) ||
        (!surely_reaches && reason == ErrorReason::kPositionOutOfReach);
    if (!expected) Fail("not as it should be: " + DescribeAnswer(action));
    if (reason != ErrorReason::kStoreUnavailable) return;
  } else if (action.answered && taken) {
    Fail("made what was there: " + DescribeAnswer(action));
    return;
  }
  const bool from_checkpoint = CheckpointName(action.name.second).has_value();
  Durability durability = action.fork.durability.value_or(
      from_checkpoint ? kDefaultDurability : parent.durability);
  if (action.fork.checkpoints) {
    durability = std::max(durability, Durability::kShutdown);
  }
  const absl::Duration ttl = action.fork.checkpoints ? absl::InfiniteDuration()
                             : from_checkpoint       ? kDefaultTtl
                                                     : parent.ttl;
  if (action.answered && ok) {
    std::erase_if(may_be, [&](const VersionPtr& version) {
      return version->position() != action.forks->position;
    });
    may_be = Distinct(std::move(may_be));
    if (may_be.empty() || action.forks->ids != action.fork.ids) {
      Fail("not what it should be a copy of: " + DescribeAnswer(action));
      return;
    }
  }
  for (const std::string& id : action.fork.ids) {
    const SessionName name = {owner, id};
    if (live_.contains(name)) continue;
    if (!action.answered || !ok) {
      maybe_.push_back({.name = name,
                        .uid = "",
                        .durability = durability,
                        .ttl = ttl,
                        .versions = may_be});
    } else {
      Add(name, durability, ttl, may_be);
    }
  }
}

void Simulation::CheckExport(const Action& action,
                             const std::vector<VersionPtr>& seen) {
  if (!action.answered) return;
  if (!action.status.ok()) {
    if (!Excused(action, ReasonOf(action.status))) {
      Fail("not as it should be: " + DescribeAnswer(action));
    }
    return;
  }
  const auto read =
      machine_.engine().snapshots().Read(action.exported->snapshot);
  if (!read.ok()) {
    Fail("no snapshot: " + DescribeAnswer(action));
    return;
  }
  std::string why;
  for (const VersionPtr& version : seen) {
    const std::string differs = Differs(*version, read->contents);
    absl::StrAppend(&why, differs, "; ");
    if (!differs.empty()) continue;
    sent_.push_back(std::make_shared<Sent>(
        Sent{version, action.exported->snapshot, live_.at(action.name).ttl}));
    if (sent_.size() > 8) sent_.pop_front();
    return;
  }
  Fail(absl::StrCat("another snapshot: ", DescribeAnswer(action), ": ", why));
}

void Simulation::CheckCreated(const Action& action) {
  std::vector<VersionPtr> may_be = {plain_.New()};
  absl::Duration ttl = action.options.ttl.value_or(kDefaultTtl);
  if (action.kind == ActionKind::kImport) {
    may_be = {action.sent->version};
    ttl = action.options.ttl.value_or(action.sent->ttl);
  } else if (action.kind == ActionKind::kCreateFromPrompt &&
             action.status.ok() && action.answered) {
    const uint64_t position = action.info->position;
    if (position > action.prompt.size() ||
        (position % kPieceRows != 0 && position != action.prompt.size())) {
      Fail("at no end of a piece: " + DescribeAnswer(action));
      return;
    }
    may_be = {plain_.AfterPrompt(action.prompt, position)};
  } else if (action.kind == ActionKind::kCreateFromPrompt) {
    may_be.push_back(plain_.AfterPrompt(action.prompt, action.prompt.size()));
    for (size_t end = kPieceRows; end < action.prompt.size();
         end += kPieceRows) {
      may_be.push_back(plain_.AfterPrompt(action.prompt, end));
    }
  }
  const Durability durability =
      action.options.durability.value_or(kDefaultDurability);
  const bool taken = live_.contains(action.name);
  if (action.answered && action.status.ok()) {
    if (taken) {
      Fail("made what was there: " + DescribeAnswer(action));
    } else {
      Add(action.name, durability, ttl, may_be);
    }
    return;
  }
  if (action.answered) {
    const ErrorReason reason = ReasonOf(action.status);
    if (!Excused(action, reason) &&
        !(taken && reason == ErrorReason::kSessionAlreadyExists)) {
      Fail("not as it should be: " + DescribeAnswer(action));
    }
    if (reason != ErrorReason::kStoreUnavailable) return;
  }
  if (taken) return;
  maybe_.push_back({.name = action.name,
                    .uid = "",
                    .durability = durability,
                    .ttl = ttl,
                    .versions = may_be});
}

// Nothing is there of that name.
void Simulation::CheckAbsent(const Script& script) {
  for (const Action& action : script.actions) {
    if (action.kind == ActionKind::kCreate ||
        action.kind == ActionKind::kCreateFromPrompt ||
        action.kind == ActionKind::kImport) {
      CheckCreated(action);
      continue;
    }
    if (!action.answered) continue;
    // It was being deleted.
    if (action.kind == ActionKind::kDelete && action.status.ok() &&
        std::any_of(maybe_.begin(), maybe_.end(), [&](const Maybe& maybe) {
          return maybe.name == action.name && !maybe.only_without_power;
        })) {
      continue;
    }
    const ErrorReason reason =
        action.status.ok() ? ErrorReason::kInternal : ReasonOf(action.status);
    const bool expired = expired_.contains(action.name);
    if (reason != ErrorReason::kSessionNotFound &&
        reason != ErrorReason::kCheckpointNotFound &&
        !(expired && reason == ErrorReason::kSessionExpired) &&
        !Excused(action, reason)) {
      Fail("there should be none: " + DescribeAnswer(action));
    }
  }
}

void Simulation::Check(const Script& script) {
  if (!live_.contains(script.name)) {
    CheckAbsent(script);
    return;
  }
  Live& live = live_.at(script.name);
  std::vector<VersionPtr> may_be = {live.now};
  std::vector<VersionPtr> seen = may_be;
  const Action& last = script.actions.back();
  const bool deleted = last.kind == ActionKind::kDelete;
  for (const Action& action : script.actions) {
    if (failed_) return;
    if (deleted && action.kind != ActionKind::kDelete && action.answered &&
        !action.status.ok() &&
        ReasonOf(action.status) == ErrorReason::kSessionNotFound) {
      NoteCutOff(action, live, may_be);
      break;
    }
    if (action.kind == ActionKind::kRequest) {
      may_be = Follow(action, live, may_be, seen);
    } else if (action.kind == ActionKind::kRewind) {
      may_be = FollowRewind(action, live, may_be.front());
      if (may_be.empty())
        Fail("not as it should be: " + DescribeAnswer(action));
    } else if (action.kind == ActionKind::kFork) {
      CheckFork(action, live, Distinct(seen));
    } else if (action.kind == ActionKind::kExport) {
      CheckExport(action, Distinct(seen));
    } else if (action.kind == ActionKind::kCreate) {
      CheckCreated(action);
    } else if (action.answered && !action.status.ok() &&
               !Excused(action, ReasonOf(action.status))) {
      Fail("not as it should be: " + DescribeAnswer(action));
    }
  }
  if (failed_) return;
  if (!deleted) {
    Settle(script.name, script, may_be);
    return;
  }
  Append(may_be, live.abandoned);
  Append(may_be, live.unacknowledged);
  if (last.answered) {
    Remove(script.name, last.status.ok());
  } else {
    live.may_be_deleted = true;
    live.last = Now();
  }
}

}  // namespace steadystate
