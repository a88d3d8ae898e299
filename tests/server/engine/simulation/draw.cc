// Of Simulation: what is asked.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/session/session_id.h"
#include "tests/server/engine/simulation/simulation.h"

namespace steadystate {
namespace {

constexpr size_t kNames = 30;  // of each owner
constexpr size_t kCheckpoints = 6;
constexpr size_t kRemembered = 24;  // requests, for repeats

std::vector<int32_t> DrawTokens(size_t count, Dice& dice) {
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) {
    token = static_cast<int32_t>(dice.Below(256));
  }
  return tokens;
}

SamplingParams DrawSampling(Dice& dice) {
  SamplingParams sampling;
  sampling.temperature = dice.Percent(30) ? 0 : 1;
  sampling.seed = dice.Below(5);
  if (dice.Percent(50)) sampling.frequency_penalty = 0.5;
  return sampling;
}

StepRequest DrawStep(size_t hidden_size, Dice& dice) {
  StepRequest step;
  const size_t rows = dice.Percent(15) ? 9 + dice.Below(12) : 1 + dice.Below(3);
  if (dice.Percent(5)) {
    for (size_t i = 0; i < rows * hidden_size; ++i) {
      step.embeddings.push_back(static_cast<float>(dice.Below(100)) / 50.0f -
                                1.0f);
    }
  } else {
    step.tokens = DrawTokens(rows, dice);
  }
  step.outputs.logits = dice.Percent(50);
  step.outputs.hidden = dice.Percent(25);
  if (dice.Percent(40)) step.outputs.sampling = DrawSampling(dice);
  if (dice.Percent(30)) {
    step.outputs.top_logprobs =
        static_cast<uint32_t>(1 + dice.Below(dice.Percent(20) ? 12 : 4));
  }
  return step;
}

}  // namespace

std::vector<int32_t> Simulation::DrawPrompt(Dice& dice) {
  // Some begin alike.
  Dice shared(seed_, 0, dice.Below(4));
  std::vector<int32_t> prompt = DrawTokens(8 * (1 + dice.Below(3)), shared);
  const std::vector<int32_t> rest = DrawTokens(dice.Below(6), dice);
  prompt.insert(prompt.end(), rest.begin(), rest.end());
  return prompt;
}

AskedPtr Simulation::DrawRequest(const SessionName& name, const VersionPtr& at,
                                 Dice& dice) {
  auto asked = std::make_shared<Asked>();
  asked->content = dice.Below(UINT64_MAX);
  const uint64_t kind = dice.Below(10);
  if (kind < 6) {
    asked->request = DrawStep(reference_.hidden_size(), dice);
  } else if (kind < 9) {
    GenerateRequest generate;
    generate.max_tokens = dice.Below(10);
    if (dice.Percent(70)) generate.prompt = DrawTokens(dice.Below(20), dice);
    if (generate.prompt.empty() && generate.max_tokens == 0) {
      generate.max_tokens = 1;
    }
    generate.sampling = DrawSampling(dice);
    generate.ignore_eos = true;
    if (dice.Percent(30)) generate.stop_tokens = DrawTokens(12, dice);
    if (at->position() == 0 && dice.Percent(60)) {
      generate.prompt = DrawPrompt(dice);
      generate.reuse_prefix = true;
    }
    asked->request = std::move(generate);
  } else {
    ScoreRequest score;
    score.tokens = DrawTokens(1 + dice.Below(12), dice);
    score.logits = dice.Percent(50);
    asked->request = std::move(score);
  }
  const uint64_t expects = dice.Below(10);
  const std::string id = absl::StrCat("r", dice.Below(1'000'000));
  std::visit(
      [&](auto& request) {
        if (expects < 6) request.expected_position = at->position();
        if (expects == 9) request.expected_position = dice.Below(40);
        if (dice.Percent(70)) request.request_id = id;
      },
      asked->request);
  if (asked->base().keyed()) {
    std::deque<AskedPtr>& known = asked_[name];
    known.push_back(asked);
    if (known.size() > kRemembered) known.pop_front();
  }
  return asked;
}

// One request after the other, each where the one before should end.
void Simulation::AddRequests(Script& script, Dice& dice) {
  const size_t count = dice.Percent(35) ? 2 + dice.Below(3) : 1;
  VersionPtr at = live_.at(script.name).now;
  for (size_t i = 0; i < count; ++i) {
    Action action(ActionKind::kRequest, script.name);
    action.asked = DrawRequest(script.name, at, dice);
    action.cancelled = dice.Percent(5);
    if (dice.Percent(10)) action.cancelled_after = 1 + dice.Below(4);
    if (dice.Percent(6)) {
      action.time_left = absl::Milliseconds(dice.Percent(30) ? -1 : 1);
    }
    at = plain_.OutcomesOf(at, action.asked).front().path.back();
    script.actions.push_back(std::move(action));
  }
}

void Simulation::AddRepeat(Script& script, Dice& dice) {
  const uint64_t which = dice.Below(kRemembered);
  const bool other_content = dice.Percent(20);
  const std::deque<AskedPtr>& known = asked_[script.name];
  if (known.empty()) {
    AddRequests(script, dice);
    return;
  }
  // The latest ones more often.
  AskedPtr asked =
      known[known.size() - 1 - (which * which / kRemembered) % known.size()];
  if (other_content) {
    auto other = std::make_shared<Asked>(*asked);
    other->content = ~asked->content;
    if (auto* const step = std::get_if<StepRequest>(&other->request)) {
      step->embeddings.clear();
      step->tokens = {1, 2, 3, 4};
    } else if (auto* const score = std::get_if<ScoreRequest>(&other->request)) {
      score->tokens.push_back(1);
    } else {
      std::get<GenerateRequest>(other->request).prompt.push_back(1);
    }
    asked = std::move(other);
  }
  Action action(ActionKind::kRequest, script.name);
  action.asked = std::move(asked);
  if (dice.Percent(10)) action.cancelled_after = 1 + dice.Below(4);
  script.actions.push_back(std::move(action));
  if (dice.Percent(30)) AddRequests(script, dice);
}

void Simulation::AddRewind(Script& script, Dice& dice) {
  const uint64_t position = live_.at(script.name).now->position();
  Action action(ActionKind::kRewind, script.name);
  const auto checkpoint = AnyCheckpoint(script.name.first);
  if (checkpoint.has_value() && dice.Percent(20)) {
    action.to.checkpoint = checkpoint->second;
    used_.insert(*checkpoint);
  } else {
    const uint64_t back = dice.Percent(20) ? position : 16;
    action.to.position = position - std::min(position, dice.Below(back + 1));
    if (dice.Percent(3)) action.to.position = position + 1;
  }
  if (dice.Percent(40)) action.expected = position;
  if (dice.Percent(5)) action.expected = position + 1;
  script.actions.push_back(std::move(action));
}

std::optional<SessionName> Simulation::UnusedName(const std::string& owner,
                                                  Dice& dice) {
  const uint64_t first = dice.Below(kNames);
  for (size_t i = 0; i < kNames; ++i) {
    const SessionName name = {owner, absl::StrCat("s", (first + i) % kNames)};
    if (!used_.contains(name) && !live_.contains(name)) {
      used_.insert(name);
      return name;
    }
  }
  return std::nullopt;
}

std::optional<SessionName> Simulation::AnyCheckpoint(const std::string& owner) {
  for (const auto& [name, live] : live_) {
    if (name.first == owner && CheckpointName(name.second).has_value() &&
        !used_.contains(name)) {
      return name;
    }
  }
  return std::nullopt;
}

void Simulation::AddFork(Script& script, Dice& dice) {
  Action action(ActionKind::kFork, script.name);
  const Live& live = live_.at(script.name);
  const size_t copies = 1 + dice.Below(3);
  for (size_t i = 0; i < copies; ++i) {
    const auto copy = UnusedName(script.name.first, dice);
    if (copy.has_value()) action.fork.ids.push_back(copy->second);
  }
  if (dice.Percent(5)) action.fork.ids.push_back(script.name.second);
  if (action.fork.ids.empty()) {
    AddRequests(script, dice);
    return;
  }
  const uint64_t position = live.now->position();
  if (script.actions.empty() && dice.Percent(30)) {
    action.fork.at.position = position - std::min(position, dice.Below(17));
  }
  if (script.actions.empty() && dice.Percent(30)) action.expected = position;
  if (dice.Percent(20)) {
    action.fork.durability = static_cast<Durability>(dice.Below(4));
  }
  script.actions.push_back(std::move(action));
}

void Simulation::AddCheckpoint(Script& script, Dice& dice) {
  Action action(ActionKind::kFork, script.name);
  const SessionName name = {
      script.name.first,
      CheckpointId(absl::StrCat("c", dice.Below(kCheckpoints)))};
  if (!used_.insert(name).second) return;
  action.fork.ids = {name.second};
  action.fork.checkpoints = true;
  script.actions.push_back(std::move(action));
}

SessionOptions Simulation::DrawOptions(const SessionName& name, Dice& dice) {
  SessionOptions options;
  options.owner = name.first;
  options.id = name.second;
  if (dice.Percent(60)) {
    options.durability = static_cast<Durability>(dice.Below(4));
  }
  if (dice.Percent(30)) options.ttl = absl::Minutes(1 + dice.Below(200));
  return options;
}

void Simulation::DrawForAbsent(Script& script, Dice& dice) {
  const uint64_t roll = dice.Below(100);
  Action action(ActionKind::kCreate, script.name);
  action.options = DrawOptions(script.name, dice);
  if (roll < 10) {
    action.kind = ActionKind::kRequest;
    action.asked = DrawRequest(script.name, plain_.New(), dice);
  } else if (roll < 13) {
    action.kind =
        dice.Percent(50) ? ActionKind::kDelete : ActionKind::kHibernate;
  } else if (roll < 28) {
    action.kind = ActionKind::kCreateFromPrompt;
    action.prompt = DrawPrompt(dice);
  } else if (roll < 40 && !sent_.empty()) {
    action.kind = ActionKind::kImport;
    action.sent = sent_[dice.Below(sent_.size())];
  } else if (roll < 50) {
    const auto checkpoint = AnyCheckpoint(script.name.first);
    if (checkpoint.has_value()) {
      used_.insert(*checkpoint);
      action.kind = ActionKind::kFork;
      action.fork.ids = {script.name.second};
      action.name = script.name = *checkpoint;
    }
  }
  script.actions.push_back(std::move(action));
}

void Simulation::DrawForSession(Script& script, Dice& dice) {
  const uint64_t roll = dice.Below(100);
  const bool ends =
      live_.at(script.name).now->position() > 220 && dice.Percent(40);
  Action action(ActionKind::kExport, script.name);
  if (ends || (roll >= 52 && roll < 56)) {
    const uint64_t before = dice.Below(100);
    if (before < 40) AddRequests(script, dice);
    if (before >= 60) AddRewind(script, dice);
    action.kind = ActionKind::kDelete;
    script.actions.push_back(std::move(action));
  } else if (roll < 52) {
    AddRequests(script, dice);
  } else if (roll < 68) {
    AddRepeat(script, dice);
  } else if (roll < 75) {
    AddRewind(script, dice);
  } else if (roll < 83) {
    if (dice.Percent(40)) AddRequests(script, dice);
    AddFork(script, dice);
  } else if (roll < 87) {
    AddCheckpoint(script, dice);
  } else if (roll < 92) {
    if (dice.Percent(30)) AddRequests(script, dice);
    script.actions.push_back(std::move(action));
  } else if (roll < 98) {
    action.kind = ActionKind::kHibernate;
    script.actions.push_back(std::move(action));
  } else {
    action.kind = ActionKind::kCreate;
    action.options = DrawOptions(script.name, dice);
    script.actions.push_back(std::move(action));
  }
}

Simulation::Script Simulation::DrawScript(const SessionName& name, Dice& dice) {
  Script script = {.name = name, .actions = {}};
  if (live_.contains(name)) {
    DrawForSession(script, dice);
  } else {
    DrawForAbsent(script, dice);
  }
  return script;
}

void Simulation::Draw() {
  Dice dice(seed_, wave_, 0);
  scripts_.clear();
  used_.clear();
  const uint64_t size = dice.Below(10);
  const size_t count = size < 4   ? 1 + dice.Below(3)
                       : size < 8 ? 4 + dice.Below(16)
                                  : 64;
  for (size_t i = 0; i < count; ++i) {
    Dice its(seed_, wave_, 1 + i);
    const std::string owner = its.Percent(70) ? "a" : "b";
    if (its.Percent(2)) {
      const SessionName name = {
          owner, CheckpointId(absl::StrCat("c", its.Below(kCheckpoints)))};
      if (!used_.insert(name).second) continue;
      scripts_.push_back(
          {.name = name, .actions = {Action(ActionKind::kDelete, name)}});
      continue;
    }
    const SessionName name = {owner, absl::StrCat("s", its.Below(kNames))};
    if (!used_.insert(name).second) continue;
    Script script = DrawScript(name, its);
    if (!script.actions.empty()) scripts_.push_back(std::move(script));
  }
}

}  // namespace steadystate
