#include "steadystate/step_ledger.h"

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "steadystate/error.h"

namespace steadystate::client {
namespace {

absl::Status CheckInputs(const Step& step) {
  const bool tokens = !step.tokens.empty();
  const bool embeddings = !step.embeddings.empty() && step.embedding_count > 0;
  const bool text = !step.text.empty();
  if (int{tokens} + int{embeddings} + int{text} == 1) return absl::OkStatus();
  const bool makes_only = step.ephemeral && step.output == nullptr;
  if (!tokens && !text && makes_only && step.embedding_count == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a step has ", step.tokens.size(), " tokens, ", step.text.size(),
      " bytes of text and ", step.embedding_count, " embeddings of ",
      step.embeddings.size(),
      " numbers together; it must have one of the three"));
}

// 60 random bits: as many as a short string holds without more memory.
std::string RandomId() {
  std::random_device random;
  const uint64_t bits = (uint64_t{random()} << 32) + random();
  return absl::StrCat(absl::Hex(bits >> 4, absl::kZeroPad15));
}

// Where a session is after a step that failed, if the error says that the step
// was carried out in part.
std::optional<uint64_t> CutShortAt(const absl::Status& error) {
  if (ReasonOf(error) != v1::DRAINING) return std::nullopt;
  const auto details = GetErrorDetails(error);
  const auto found = details->metadata.find("position");
  uint64_t position = 0;
  if (found == details->metadata.end() ||
      !absl::SimpleAtoi(found->second, &position)) {
    return std::nullopt;
  }
  return position;
}

}  // namespace

StepLedger::StepLedger(const StepStreamOptions& options)
    : client_id_(options.client_id.empty() ? RandomId() : options.client_id),
      max_in_flight_(options.max_in_flight),
      max_in_flight_per_session_(options.max_in_flight_per_session) {}

absl::Status StepLedger::CheckNumber(size_t number) const {
  if (number < sessions_.size() && sessions_[number].used) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the stream has no session of number ", number));
}

absl::Status StepLedger::CheckIdle(size_t number) const {
  absl::Status known = CheckNumber(number);
  if (!known.ok() || sessions_[number].pending.empty()) return known;
  return absl::FailedPreconditionError(
      absl::StrCat(sessions_[number].name, " has ",
                   sessions_[number].pending.size(), " steps in flight"));
}

size_t StepLedger::AddSession(absl::string_view name, uint64_t position) {
  size_t number = sessions_.size();
  if (free_.empty()) {
    sessions_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
  }
  sessions_[number] = {std::string(name), position, position, {}, true};
  return number;
}

absl::Status StepLedger::PlaceSession(size_t number, absl::string_view name,
                                      uint64_t position) {
  absl::Status idle = CheckIdle(number);
  if (!idle.ok()) return idle;
  Session& session = sessions_[number];
  session.name.assign(name.data(), name.size());
  session.position = position;
  session.sent_position = position;
  return absl::OkStatus();
}

absl::Status StepLedger::RemoveSession(size_t number) {
  absl::Status idle = CheckIdle(number);
  if (!idle.ok()) return idle;
  sessions_[number] = {};
  free_.push_back(number);
  return absl::OkStatus();
}

absl::Status StepLedger::CheckSend(size_t number, const Step& step) const {
  absl::Status known = CheckNumber(number);
  if (!known.ok()) return known;
  if (in_flight_ >= max_in_flight_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(in_flight_,
                     " steps of the stream are in flight, as many "
                     "as max_in_flight allows"));
  }
  const Session& session = sessions_[number];
  if (!session.pending.empty() && session.pending.back().step.is_text) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a text of ", session.name,
        " is in flight: its answer tells how many tokens it has, and with "
        "that the position that a further step expects"));
  }
  const size_t own = session.pending.size();
  if (own >= max_in_flight_per_session_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(own, " steps of ", session.name,
                     " are in flight, as many as max_in_flight_per_session "
                     "allows"));
  }
  return CheckInputs(step);
}

void StepLedger::Send(size_t number, const Step& step, uint64_t tag,
                      uint64_t batch, v1::StreamStepRequest::Request& request) {
  Session& session = sessions_[number];
  request.set_request_id(absl::StrCat(number));
  v1::StepRequest& to = *request.mutable_step();
  to.set_session(session.name);
  to.set_request_id(client_id_);
  to.set_expected_position(session.sent_position);
  uint64_t inputs = step.tokens.size();
  if (inputs > 0) {
    to.mutable_tokens()->mutable_ids()->Assign(step.tokens.begin(),
                                               step.tokens.end());
  } else if (step.embedding_count > 0) {
    inputs = step.embedding_count;
    to.mutable_embeddings()->mutable_values()->Assign(step.embeddings.begin(),
                                                      step.embeddings.end());
  } else if (!step.text.empty()) {
    to.set_text(std::string(step.text));
  }
  if (step.output != nullptr) *to.mutable_output() = *step.output;
  to.set_ephemeral(step.ephemeral);
  session.pending.push_back({{tag, inputs, !step.text.empty()}, batch});
  session.sent_position += inputs;
  ++in_flight_;
}

bool StepLedger::Answer(v1::StreamStepResponse::Result& result,
                        StepAnswer& answer) {
  size_t number = 0;
  if (!absl::SimpleAtoi(result.request_id(), &number) ||
      number >= sessions_.size() || sessions_[number].pending.empty()) {
    return false;
  }
  Session& session = sessions_[number];
  answer.session = number;
  // Answers of one session keep the order of its requests.
  answer.tag = session.pending.front().step.tag;
  session.pending.erase(session.pending.begin());
  if (result.has_step()) {
    session.position = result.step().position();
    if (answer.step.ok()) {
      answer.step->Swap(result.mutable_step());
    } else {
      answer.step = std::move(*result.mutable_step());
    }
  } else {
    const absl::Status error = ToStatus(result.error());
    answer.step = error.ok()
                      ? absl::InternalError("an answer without step or error")
                      : error;
    const auto cut_short = CutShortAt(answer.step.status());
    session.position = cut_short.value_or(session.position);
  }
  if (session.pending.empty()) session.sent_position = session.position;
  return true;
}

SessionStanding StepLedger::Standing(size_t number, uint64_t batches) const {
  const Session& session = sessions_[number];
  SessionStanding standing{session.name, session.position, {}, {}};
  for (const Pending& pending : session.pending) {
    (pending.batch < batches ? standing.in_doubt : standing.unsent)
        .push_back(pending.step);
  }
  return standing;
}

std::vector<SessionStanding> StepLedger::Unanswered(uint64_t batches) const {
  std::vector<SessionStanding> standings;
  for (size_t number = 0; number < sessions_.size(); ++number) {
    if (!sessions_[number].pending.empty()) {
      standings.push_back(Standing(number, batches));
    }
  }
  return standings;
}

absl::StatusOr<size_t> StepsTaken(const SessionStanding& standing,
                                  const v1::Session& found) {
  if (found.name() != standing.name) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the session found is ", found.name(), ", not ", standing.name));
  }
  if (found.state() == v1::Session::ACTIVE) {
    return absl::UnavailableError(
        absl::StrCat(standing.name, " is still at work; ask for it again"));
  }
  uint64_t position = standing.position;
  for (size_t taken = 0; taken <= standing.in_doubt.size(); ++taken) {
    if (position == found.position()) return taken;
    if (taken == standing.in_doubt.size()) break;
    const UnansweredStep& step = standing.in_doubt[taken];
    // However many tokens it has, there is nothing behind it.
    if (step.is_text && position < found.position()) return taken + 1;
    position += step.inputs;
  }
  return absl::AbortedError(absl::StrCat(
      standing.name, " is at ", found.position(), ", where none of the ",
      standing.in_doubt.size(), " steps in doubt after ", standing.position,
      " ends: there was another writer"));
}

}  // namespace steadystate::client
