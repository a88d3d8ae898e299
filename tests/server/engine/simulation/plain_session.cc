#include "tests/server/engine/simulation/plain_session.h"

#include <algorithm>
#include <span>
#include <utility>

namespace steadystate {
namespace {

// What of a Step's answer is kept: 8 bytes for a token drawn, 8 for each of the
// likeliest, 64 in all.
bool IsKept(const StepOutputs& outputs) {
  const size_t numbers =
      outputs.top_logprobs.value_or(0) + (outputs.sampling.has_value() ? 1 : 0);
  return !outputs.logits && !outputs.hidden && numbers <= 8;
}

Outcome Refused(const VersionPtr& from, ErrorReason reason) {
  return {.refusal = reason, .path = {from}};
}

size_t RowsOf(const Asked& asked, size_t width) {
  if (const auto* step = std::get_if<StepRequest>(&asked.request)) {
    return step->tokens.size() + step->embeddings.size() / width;
  }
  if (const auto* generate = std::get_if<GenerateRequest>(&asked.request)) {
    return generate->prompt.size();
  }
  return std::get<ScoreRequest>(asked.request).tokens.size();
}

std::span<const int32_t> TokensOf(const Asked& asked) {
  if (const auto* step = std::get_if<StepRequest>(&asked.request)) {
    return step->tokens;
  }
  if (const auto* generate = std::get_if<GenerateRequest>(&asked.request)) {
    return generate->prompt;
  }
  return std::get<ScoreRequest>(asked.request).tokens;
}

// One piece of the request has been absorbed.
VersionPtr After(const VersionPtr& before, PastPtr past, const AskedPtr& asked,
                 uint64_t begin, bool finished) {
  auto after = std::make_shared<Version>();
  after->past = std::move(past);
  after->records = before->records;
  after->after_embedding = after->past->tokens.back() < 0
                               ? after->past->position
                               : before->after_embedding;
  after->before = before;
  if (!asked->base().keyed()) return after;
  auto& records = after->records;
  if (!records.empty() && records.back().begin == begin &&
      records.back().asked->base().request_id == asked->base().request_id) {
    records.pop_back();
  }
  records.push_back({.asked = asked,
                     .begin = begin,
                     .end = after->position(),
                     .finished = finished});
  while (PresenceOf(*after, 0) == Presence::kAbsent) {
    records.erase(records.begin());
  }
  return after;
}

}  // namespace

Presence PresenceOf(const Version& version, size_t record) {
  size_t later = 0;
  size_t surely_later = 0;
  for (size_t i = record + 1; i < version.records.size(); ++i) {
    ++later;
    if (version.records[i].sure) ++surely_later;
  }
  if (surely_later >= kRecords) return Presence::kAbsent;
  return version.records[record].sure && later < kRecords ? Presence::kPresent
                                                          : Presence::kPerhaps;
}

VersionPtr PlainSessions::New() const {
  return std::make_shared<Version>(Version{.past = reference_.begin()});
}

VersionPtr PlainSessions::Rewound(const VersionPtr& from, uint64_t position) {
  if (from->position() == position) return from;
  VersionPtr then = from;
  while (then->position() > position) then = then->before;
  auto rewound = std::make_shared<Version>();
  rewound->past = PastAt(reference_, from->past, position);
  rewound->after_embedding = std::min(then->after_embedding, position);
  rewound->before = then;
  if (position == 0) return rewound;
  for (PlainRecord record : then->records) {
    const auto known = std::find_if(
        from->records.begin(), from->records.end(), [&](const auto& other) {
          return other.asked == record.asked && other.begin == record.begin &&
                 other.end == record.end;
        });
    record.sure =
        known != from->records.end() && record.finished &&
        PresenceOf(*from, static_cast<size_t>(known - from->records.begin())) ==
            Presence::kPresent;
    rewound->records.push_back(std::move(record));
  }
  return rewound;
}

bool PlainSessions::SurelyReaches(const Version& from, uint64_t position) {
  return position == from.position() ||
         (from.after_embedding == 0 && from.history_begin() == 0 &&
          position < from.position());
}

VersionPtr PlainSessions::AfterPrompt(const std::vector<int32_t>& prompt,
                                      uint64_t position) {
  auto asked = std::make_shared<Asked>();
  GenerateRequest request;
  request.prompt.assign(prompt.begin(),
                        prompt.begin() + static_cast<ptrdiff_t>(position));
  request.max_tokens = 0;
  asked->request = std::move(request);
  return CarryOut(New(), asked, 0).path.back();
}

std::vector<Outcome> PlainSessions::OutcomesOf(const VersionPtr& from,
                                               const AskedPtr& asked) {
  const RequestBase& base = asked->base();
  const uint64_t position = from->position();
  if (base.expected_position.value_or(position) == position) {
    const auto* const generate = std::get_if<GenerateRequest>(&asked->request);
    if (generate != nullptr && generate->prompt.empty() && position == 0) {
      return {Refused(from, ErrorReason::kNoPendingLogits)};
    }
    return {CarryOut(from, asked, position)};
  }
  std::vector<Outcome> outcomes;
  bool surely_known = false;
  for (size_t i = 0; base.keyed() && i < from->records.size(); ++i) {
    const PlainRecord& record = from->records[i];
    if (record.begin != *base.expected_position ||
        record.asked->base().request_id != base.request_id) {
      continue;
    }
    const Presence presence = PresenceOf(*from, i);
    if (presence == Presence::kAbsent) continue;
    surely_known = surely_known || presence == Presence::kPresent;
    outcomes.push_back(record.asked->content == asked->content
                           ? Repeat(from, asked, record)
                           : Refused(from, ErrorReason::kRequestIdReused));
  }
  if (!surely_known) {
    outcomes.push_back(Refused(from, ErrorReason::kPositionMismatch));
  }
  return outcomes;
}

Outcome PlainSessions::CarryOut(const VersionPtr& from, const AskedPtr& asked,
                                uint64_t begin) {
  Outcome outcome = {.path = {from}};
  Feed(asked, begin, 0, outcome);
  if (std::holds_alternative<GenerateRequest>(asked->request)) {
    outcome.first = outcome.path.back()->position();
    Generate(asked, begin, outcome);
  } else if (std::holds_alternative<ScoreRequest>(asked->request)) {
    outcome.first = begin;
    const auto tokens = TokensOf(*asked);
    outcome.tokens.assign(tokens.begin(), tokens.end());
  }
  outcome.answers_about = outcome.path.back()->past;
  outcome.position = outcome.path.back()->position();
  return outcome;
}

// The inputs from the one at `done` on.
void PlainSessions::Feed(const AskedPtr& asked, uint64_t begin, size_t done,
                         Outcome& outcome) {
  const size_t width = reference_.hidden_size();
  const size_t rows = RowsOf(*asked, width);
  const auto* const step = std::get_if<StepRequest>(&asked->request);
  const auto* const generate = std::get_if<GenerateRequest>(&asked->request);
  while (done < rows) {
    const size_t count = std::min(reference_.piece_rows(), rows - done);
    std::vector<int32_t> tokens;
    std::vector<float> embeddings;
    if (step != nullptr && !step->embeddings.empty()) {
      const auto first =
          step->embeddings.begin() + static_cast<ptrdiff_t>(done * width);
      embeddings.assign(first, first + static_cast<ptrdiff_t>(count * width));
    } else {
      const auto piece = TokensOf(*asked).subspan(done, count);
      tokens.assign(piece.begin(), piece.end());
    }
    done += count;
    const VersionPtr& before = outcome.path.back();
    PastPtr past =
        reference_.Absorb(before->past, std::move(tokens), embeddings);
    const bool finished = done == rows && (generate == nullptr ||
                                           generate->max_tokens == uint64_t{0});
    outcome.path.push_back(
        After(before, std::move(past), asked, begin, finished));
  }
}

// Draws what is left to be drawn.
void PlainSessions::Generate(const AskedPtr& asked, uint64_t begin,
                             Outcome& outcome) {
  const auto& request = std::get<GenerateRequest>(asked->request);
  const auto is_stop = [&](int32_t token) {
    return std::find(request.stop_tokens.begin(), request.stop_tokens.end(),
                     token) != request.stop_tokens.end();
  };
  while (outcome.tokens.size() < *request.max_tokens &&
         (outcome.tokens.empty() || !is_stop(outcome.tokens.back()))) {
    const VersionPtr& before = outcome.path.back();
    const int32_t token = reference_.Draw(before->past, request.sampling);
    outcome.tokens.push_back(token);
    const bool last =
        is_stop(token) || outcome.tokens.size() == *request.max_tokens;
    outcome.path.push_back(After(before,
                                 reference_.Absorb(before->past, {token}, {},
                                                   /*drawn=*/true),
                                 asked, begin, last));
  }
  outcome.position = outcome.path.back()->position();
}

Outcome PlainSessions::Repeat(const VersionPtr& from, const AskedPtr& asked,
                              const PlainRecord& record) {
  if (!record.finished && record.end != from->position()) {
    return Refused(from, ErrorReason::kPositionMismatch);
  }
  if (std::holds_alternative<StepRequest>(asked->request)) {
    return RepeatStep(from, asked, record);
  }
  if (std::holds_alternative<GenerateRequest>(asked->request)) {
    return RepeatGenerate(from, asked, record);
  }
  return Refused(from, ErrorReason::kReplayUnavailable);
}

Outcome PlainSessions::RepeatStep(const VersionPtr& from, const AskedPtr& asked,
                                  const PlainRecord& record) {
  Outcome outcome = {.path = {from}};
  if (!record.finished) {
    Feed(asked, record.begin, record.end - record.begin, outcome);
    outcome.answers_about = outcome.path.back()->past;
    outcome.position = outcome.path.back()->position();
    return outcome;
  }
  const auto& step = std::get<StepRequest>(asked->request);
  if (!IsKept(step.outputs) && record.end != from->position()) {
    return Refused(from, ErrorReason::kReplayUnavailable);
  }
  outcome.replayed = true;
  outcome.position = record.end;
  outcome.answers_about = from->past;
  while (outcome.answers_about->position > record.end) {
    outcome.answers_about = outcome.answers_about->before;
  }
  return outcome;
}

Outcome PlainSessions::RepeatGenerate(const VersionPtr& from,
                                      const AskedPtr& asked,
                                      const PlainRecord& record) {
  const auto& request = std::get<GenerateRequest>(asked->request);
  const uint64_t prompt = request.prompt.size();
  const uint64_t absorbed = record.end - record.begin;
  Outcome outcome = {.path = {from}};
  outcome.first = record.begin + prompt;
  if (absorbed < prompt) {
    Feed(asked, record.begin, static_cast<size_t>(absorbed), outcome);
  } else if (absorbed > prompt) {
    if (outcome.first < from->history_begin()) {
      return Refused(from, ErrorReason::kReplayUnavailable);
    }
    const std::vector<int32_t> all =
        LatestTokens(*from->past, static_cast<size_t>(from->position()), true);
    const auto begin = all.begin() + static_cast<ptrdiff_t>(outcome.first);
    outcome.tokens.assign(begin, begin + static_cast<ptrdiff_t>(absorbed) -
                                     static_cast<ptrdiff_t>(prompt));
    outcome.replayed_tokens = outcome.tokens.size();
  }
  if (!record.finished) Generate(asked, record.begin, outcome);
  outcome.position = outcome.first + outcome.tokens.size();
  return outcome;
}

}  // namespace steadystate
