#include "tests/server/engine/simulation/actions.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "tests/testing/end_receiver.h"

namespace steadystate {
namespace {

std::string DescribeBase(const RequestBase& base) {
  return absl::StrCat(
      base.expected_position.has_value()
          ? absl::StrCat(" at ", *base.expected_position)
          : "",
      base.request_id.empty() ? "" : absl::StrCat(" id ", base.request_id));
}

std::string DescribeRequest(const Asked& asked) {
  const std::string base = DescribeBase(asked.base());
  if (const auto* step = std::get_if<StepRequest>(&asked.request)) {
    return absl::StrCat("step of ", step->tokens.size(), " tokens, ",
                        step->embeddings.size(), " floats", base);
  }
  if (const auto* generate = std::get_if<GenerateRequest>(&asked.request)) {
    return absl::StrCat("generate ", *generate->max_tokens, " after ",
                        generate->prompt.size(),
                        generate->reuse_prefix ? " reused" : "", base);
  }
  return absl::StrCat(
      "score ", std::get<ScoreRequest>(asked.request).tokens.size(), base);
}

std::string DescribePoint(const PastPoint& to) {
  if (to.checkpoint.has_value()) return absl::StrCat(" to ", *to.checkpoint);
  return to.position.has_value() ? absl::StrCat(" to ", *to.position) : "";
}

std::string DescribeKind(const Action& action) {
  switch (action.kind) {
    case ActionKind::kRequest:
      return DescribeRequest(*action.asked);
    case ActionKind::kRewind:
      return absl::StrCat("rewind", DescribePoint(action.to));
    case ActionKind::kFork:
      return absl::StrCat("fork", DescribePoint(action.fork.at), " as ",
                          absl::StrJoin(action.fork.ids, ","));
    case ActionKind::kExport:
      return "export";
    case ActionKind::kCreate:
      return "create";
    case ActionKind::kCreateFromPrompt:
      return absl::StrCat("create with a prompt of ", action.prompt.size());
    case ActionKind::kImport:
      return absl::StrCat("import at ", action.sent->version->position());
    case ActionKind::kDelete:
      return "delete";
    case ActionKind::kHibernate:
      return "hibernate";
  }
  return "";
}

SteadyTime DeadlineOf(Machine& machine, const Action& action) {
  return action.time_left.has_value()
             ? machine.clock().Now() + *action.time_left
             : SteadyTime::InfiniteFuture();
}

template <typename R>
RequestId SubmitRecorded(Engine& engine, R request,
                         std::shared_ptr<Recorder<R>> recorder) {
  const absl::StatusOr<RequestId> id =
      engine.Submit(std::move(request), recorder);
  if (!id.ok()) recorder->End(id.status());
  return id.ok() ? *id : 0;
}

RequestId SubmitRequest(Machine& machine, WriterId writer, Action& action) {
  Engine& engine = machine.engine();
  return std::visit(
      [&](auto request) -> RequestId {
        using R = decltype(request);
        request.session = action.name.second;
        request.owner = action.name.first;
        request.writer = writer;
        request.deadline = DeadlineOf(machine, action);
        if constexpr (std::is_same_v<R, StepRequest>) {
          const StepFuture& end = action.step_end.emplace();
          machine.Keep(end.shared());
          return SubmitThen(
              engine, std::move(request),
              [end](const auto& result) { end.Set(RecordOf(result)); });
        } else if constexpr (std::is_same_v<R, GenerateRequest>) {
          auto recorder = std::make_shared<Recorder<R>>();
          machine.Keep(recorder);
          action.generate_recorder = recorder;
          return SubmitRecorded(engine, std::move(request), recorder);
        } else {
          auto recorder = std::make_shared<Recorder<R>>();
          machine.Keep(recorder);
          action.score_recorder = recorder;
          return SubmitRecorded(engine, std::move(request), recorder);
        }
      },
      action.asked->request);
}

WorkRequest WorkOf(Engine& engine, const Action& action) {
  switch (action.kind) {
    case ActionKind::kRewind:
      return engine.RewindWork(action.to, action.info);
    case ActionKind::kFork:
      return engine.ForkWork(action.fork, action.forks);
    case ActionKind::kExport:
      return engine.ExportWork(action.exported);
    case ActionKind::kCreateFromPrompt:
      return engine.CreateWork(action.prompt, action.options, action.info);
    default:
      return engine.ImportWork(action.sent->snapshot, action.options,
                               action.info);
  }
}

RequestId SubmitWork(Machine& machine, WriterId writer, const Action& action) {
  Engine& engine = machine.engine();
  WorkRequest work = WorkOf(engine, action);
  if (action.kind == ActionKind::kRewind || action.kind == ActionKind::kFork ||
      action.kind == ActionKind::kExport) {
    work.session = action.name.second;
    work.owner = action.name.first;
  }
  work.expected_position = action.expected;
  work.writer = writer;
  work.deadline = DeadlineOf(machine, action);
  return SubmitThen(
      engine, std::move(work),
      [end = action.end](const auto& result) { end.Set(result.status()); });
}

}  // namespace

std::string ToString(const SessionName& name) {
  return absl::StrCat(name.first, "/", name.second);
}

std::string Describe(const Action& action) {
  return absl::StrCat(
      ToString(action.name), ": ", DescribeKind(action),
      action.expected.has_value() ? absl::StrCat(" at ", *action.expected) : "",
      action.cancelled ? ", cancelled" : "",
      action.cancelled_after.has_value()
          ? absl::StrCat(", cancelled after ", *action.cancelled_after)
          : "",
      action.time_left.has_value()
          ? absl::StrCat(", within ", absl::FormatDuration(*action.time_left))
          : "");
}

std::string DescribeAnswer(const Action& action) {
  std::string text = Describe(action);
  if (!action.answered) {
    absl::StrAppend(&text, " -> no answer");
  } else if (!action.status.ok()) {
    absl::StrAppend(
        &text, " -> ",
        action.status.ToString(absl::StatusToStringMode::kWithNoExtraData));
  } else {
    absl::StrAppend(&text, " -> OK");
  }
  if (action.step_end.has_value() && action.answered && action.status.ok()) {
    absl::StrAppend(&text, ", position ", action.step.position,
                    action.step.replayed ? ", replayed" : "");
  }
  if (action.generate_recorder != nullptr) {
    absl::StrAppend(&text, ", ", action.generated.size(), " tokens, ",
                    action.generate_summary.replayed_tokens, " replayed, ",
                    action.generate_summary.reused_tokens, " reused");
  }
  if (action.score_recorder != nullptr) {
    absl::StrAppend(&text, ", ", action.scored.size(), " scored");
  }
  if (action.kind == ActionKind::kFork && action.answered) {
    absl::StrAppend(&text, ", position ", action.forks->position);
  }
  return text;
}

void Submit(Machine& machine, WriterId writer, Action& action) {
  Engine& engine = machine.engine();
  machine.Keep(action.end.shared());
  RequestId id = 0;
  const auto tell = [end = action.end](const absl::Status& status) {
    end.Set(status);
  };
  switch (action.kind) {
    case ActionKind::kRequest:
      id = SubmitRequest(machine, writer, action);
      break;
    case ActionKind::kCreate:
      engine.CreateSession(action.options,
                           [end = action.end, info = action.info](
                               absl::StatusOr<SessionInfo> created) {
                             if (created.ok()) *info = *created;
                             end.Set(created.status());
                           });
      return;
    case ActionKind::kDelete:
      if (const absl::Status now =
              engine.DeleteSession(KeyOf(action.name), tell);
          !now.ok()) {
        tell(now);
      }
      return;
    case ActionKind::kHibernate:
      if (const absl::Status now =
              engine.HibernateSession(KeyOf(action.name), tell);
          !now.ok()) {
        tell(now);
      }
      return;
    default:
      id = SubmitWork(machine, writer, action);
  }
  if (action.cancelled) engine.Cancel(id);
  if (action.cancelled_after.has_value() &&
      action.generate_recorder != nullptr) {
    action.generate_recorder->set_on_item(
        [&engine, id, after = *action.cancelled_after](size_t items) {
          if (items == after) engine.Cancel(id);
        });
  }
}

bool AwaitAnswer(const Action& action, std::chrono::nanoseconds timeout) {
  if (action.step_end.has_value()) return action.step_end->WaitFor(timeout);
  if (action.generate_recorder != nullptr) {
    return action.generate_recorder->done().WaitFor(timeout);
  }
  if (action.score_recorder != nullptr) {
    return action.score_recorder->done().WaitFor(timeout);
  }
  return action.end.WaitFor(timeout);
}

void TakeAnswer(Action& action) {
  action.answered = AwaitAnswer(action, std::chrono::seconds(0));
  if (action.generate_recorder != nullptr) {
    action.generated = action.generate_recorder->items();
    if (!action.answered) return;
    const auto& end = action.generate_recorder->done().Get();
    action.status = end.ok() ? absl::OkStatus() : CloneError(end.status());
    if (end.ok()) action.generate_summary = *end;
  } else if (action.score_recorder != nullptr) {
    action.scored = action.score_recorder->items();
    if (!action.answered) return;
    const auto& end = action.score_recorder->done().Get();
    action.status = end.ok() ? absl::OkStatus() : CloneError(end.status());
    if (end.ok()) action.score_summary = *end;
  } else if (!action.answered) {
    return;
  } else if (action.step_end.has_value()) {
    const auto& end = action.step_end->Get();
    action.status = end.ok() ? absl::OkStatus() : CloneError(end.status());
    if (end.ok()) action.step = *end;
  } else {
    action.status = action.end.Get();
  }
}

}  // namespace steadystate
