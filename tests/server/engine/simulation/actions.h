#ifndef STEADYSTATE_TESTS_SERVER_ENGINE_SIMULATION_ACTIONS_H_
#define STEADYSTATE_TESTS_SERVER_ENGINE_SIMULATION_ACTIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/engine.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/server/engine/simulation/machine.h"
#include "tests/server/engine/simulation/plain_session.h"

namespace steadystate {

// Of a session, or of a checkpoint: owner and id.
using SessionName = std::pair<std::string, std::string>;
std::string ToString(const SessionName& name);
inline SessionKey KeyOf(const SessionName& name) {
  return {name.second, name.first};
}

// A session that was sent as a snapshot.
struct Sent {
  VersionPtr version;
  std::string snapshot;
  absl::Duration ttl;
};

enum class ActionKind {
  kRequest,
  kRewind,
  kFork,
  kExport,
  kCreate,
  kCreateFromPrompt,
  kImport,
  kDelete,
  kHibernate,
};

// One operation: what is asked, and then what was answered.
struct Action {
  Action(ActionKind asked_for, SessionName of)
      : kind(asked_for), name(std::move(of)) {}

  ActionKind kind;
  SessionName name;
  AskedPtr asked{};                           // a request
  std::optional<uint64_t> expected{};         // a rewind's or fork's
  PastPoint to{};                             // a rewind's or fork's
  ForkOptions fork{};                         // of a checkpoint as well
  SessionOptions options{};                   // of what is created
  std::vector<int32_t> prompt{};              // that it begins with
  std::shared_ptr<const Sent> sent{};         // what is imported
  bool cancelled = false;                     // as soon as it is there
  std::optional<size_t> cancelled_after{};    // items of a generation
  std::optional<absl::Duration> time_left{};  // to its deadline

  // Has it been answered? Or only in part, when the process was killed?
  bool answered = false;
  absl::Status status{};
  StepRecord step{};
  std::vector<GeneratedToken> generated{};
  GenerateSummary generate_summary{};
  std::vector<ScoredToken> scored{};
  ScoreSummary score_summary{};
  std::shared_ptr<SessionInfo> info = std::make_shared<SessionInfo>();
  std::shared_ptr<Forks> forks = std::make_shared<Forks>();
  std::shared_ptr<Engine::Export> exported = std::make_shared<Engine::Export>();

  // Where answers come in.
  std::optional<StepFuture> step_end{};
  std::shared_ptr<Recorder<GenerateRequest>> generate_recorder{};
  std::shared_ptr<Recorder<ScoreRequest>> score_recorder{};
  Future<absl::Status> end{};
};

std::string Describe(const Action& action);
// Its answer, too.
std::string DescribeAnswer(const Action& action);

// Hands it to the engine.
void Submit(Machine& machine, WriterId writer, Action& action);
// Is its answer there before so much time has passed?
bool AwaitAnswer(const Action& action, std::chrono::nanoseconds timeout);
// Fills in what has been answered by now.
void TakeAnswer(Action& action);

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_SERVER_ENGINE_SIMULATION_ACTIONS_H_
