#ifndef STEADYSTATE_TESTS_SERVER_ENGINE_SIMULATION_SIMULATION_H_
#define STEADYSTATE_TESTS_SERVER_ENGINE_SIMULATION_SIMULATION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "server/session/session_info.h"
#include "tests/server/engine/simulation/actions.h"
#include "tests/server/engine/simulation/machine.h"
#include "tests/server/engine/simulation/past.h"
#include "tests/server/engine/simulation/plain_session.h"

namespace steadystate {

// Numbers that are a function of where they are drawn: what is drawn in one
// place does not depend on how much was drawn in others.
class Dice {
 public:
  Dice(uint64_t seed, uint64_t wave, uint64_t place)
      : random_((seed * 0x9E3779B97F4A7C15 + wave) * 0xBF58476D1CE4E5B9 +
                place) {}

  // In [0, bound).
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  bool Percent(uint64_t percent) { return Below(100) < percent; }

 private:
  std::mt19937_64 random_;
};

// How a process ends.
enum class Ending { kOrderly, kKilled, kPowerLost };

// Draws operations by a seed, hands them to an engine, and holds each answer
// against what a session is without any of the engine's parts. Thread-hostile.
class Simulation {
 public:
  Simulation(uint64_t seed, uint64_t operations);
  ~Simulation();

  // Until all operations are done, or one is answered as it should not be.
  void Run();

 private:
  // A session, or a checkpoint, as it should be.
  struct Live {
    std::string uid;
    Durability durability = Durability::kNone;
    absl::Duration ttl;
    absl::Time last;      // when its last request ended
    absl::Time absorbed;  // the same, of those that absorbed something
    VersionPtr now;
    // What a kill leaves of a logged one, or what came after.
    VersionPtr acknowledged;
    std::vector<VersionPtr> unacknowledged{};
    // Where it has been, beside on the way to `now`, in this process.
    std::vector<VersionPtr> abandoned{};
    // Somebody tried to delete it, and nobody knows.
    bool may_be_deleted = false;
  };
  // What may be there when the next process begins.
  struct Maybe {
    SessionName name;
    std::string uid;  // empty: unknown
    Durability durability = Durability::kNone;
    absl::Duration ttl;
    std::vector<VersionPtr> versions;  // what it was, or is on the way there
    // What it is, exactly, unless power was lost; absent: as after that.
    std::optional<std::vector<VersionPtr>> if_killed{};
    bool only_without_power = false;  // and not after a kill
  };
  // What is asked of one session in one wave, by one writer, in order.
  struct Script {
    SessionName name;
    std::vector<Action> actions;
  };

  // simulation.cc: what happens.
  void Wave();
  void Draw();
  void SubmitAll();
  void AwaitAll();
  bool Await(const Action& action);
  [[noreturn]] void Hang(const std::string& what);
  void Meanwhile(Dice& dice);
  void Between(Dice& dice);
  void PassTime(Dice& dice);
  void SetFault(uint64_t which);
  void EndFaults();
  bool Probe(Durability durability);
  bool DoWithProbe(ActionKind kind, Durability durability);
  void EndProbe(Ending ending);
  void End();

  // draw.cc: what is asked.
  Script DrawScript(const SessionName& name, Dice& dice);
  void DrawForAbsent(Script& script, Dice& dice);
  void DrawForSession(Script& script, Dice& dice);
  void AddRequests(Script& script, Dice& dice);
  void AddRepeat(Script& script, Dice& dice);
  void AddRewind(Script& script, Dice& dice);
  void AddFork(Script& script, Dice& dice);
  void AddCheckpoint(Script& script, Dice& dice);
  AskedPtr DrawRequest(const SessionName& name, const VersionPtr& at,
                       Dice& dice);
  std::optional<SessionName> UnusedName(const std::string& owner, Dice& dice);
  std::optional<SessionName> AnyCheckpoint(const std::string& owner);
  std::vector<int32_t> DrawPrompt(Dice& dice);
  static SessionOptions DrawOptions(const SessionName& name, Dice& dice);

  // check.cc: what is answered.
  void Check(const Script& script);
  void CheckAbsent(const Script& script);
  void CheckCreated(const Action& action);
  void CheckFork(const Action& action, const Live& parent,
                 const std::vector<VersionPtr>& seen);
  void CheckExport(const Action& action, const std::vector<VersionPtr>& seen);
  std::vector<VersionPtr> Follow(const Action& action, Live& live,
                                 const std::vector<VersionPtr>& from,
                                 std::vector<VersionPtr>& seen);
  void NoteCutOff(const Action& action, Live& live,
                  const std::vector<VersionPtr>& from);
  std::vector<VersionPtr> FollowRewind(const Action& action, Live& live,
                                       const VersionPtr& from);
  std::vector<VersionPtr> Fits(const Action& action, const Outcome& outcome);
  bool SameStep(const Action& action, const Outcome& outcome);
  bool SameItems(const Action& action, const Outcome& outcome, bool whole);
  bool SameScores(const Action& action, const Outcome& outcome);
  void Settle(const SessionName& name, const Script& script,
              const std::vector<VersionPtr>& may_be);
  bool Excused(const Action& action, ErrorReason reason) const;
  std::string Differs(const Version& version,
                      const SessionContents& contents) const;
  std::optional<SessionContents> ContentsOf(const SessionName& name);
  // The one of them that the session is; null and a failure if none is.
  VersionPtr Choose(const SessionName& name, const SessionInfo& info,
                    const std::vector<VersionPtr>& may_be);
  void CheckAll();
  void CheckLists();
  void CheckGauges();
  // What a gauge is once that is right, or still is after a long while. Its
  // children are read one by one, so that a session that goes from one to
  // another meanwhile may be seen in both: what is wrong stays.
  double Settled(const char* gauge, absl::FunctionRef<bool(double)> right);
  void CheckContents();
  absl::Time LastUsed(const SessionName& name);

  // recover.cc: what another process finds.
  void Restart(Ending ending, Dice& dice);
  void Recover(Ending ending);
  void TakeUp(const SessionName& name, const SessionInfo& info, Ending ending);
  std::map<SessionName, SessionInfo> ListAll();
  static std::vector<VersionPtr> MayBe(const Live& live, Ending ending);
  static bool MayBeGone(const Live& live, Ending ending, absl::Time now);
  // Is it there after such an end, perhaps?
  static bool MayComeBack(const Maybe& maybe, Ending ending);
  void Adopt(const SessionName& name, const SessionInfo& info, Ending ending);

  // A session that is one of `may_be`.
  void Add(const SessionName& name, Durability durability, absl::Duration ttl,
           const std::vector<VersionPtr>& may_be);
  void Remove(const SessionName& name, bool surely);
  void Expire();
  absl::Time Now() { return machine_.clock().WallNow(); }
  void Note(std::string what);
  void Fail(const std::string& what);

  static EngineOptions Options(const Model& model);
  static constexpr size_t kPieceRows = 8;
  static constexpr size_t kMemorySessions = 6;
  static constexpr size_t kStoreSessions = 44;
  static constexpr Durability kDefaultDurability = Durability::kShutdown;
  static constexpr absl::Duration kDefaultTtl = absl::Hours(1);

  const uint64_t seed_;
  const uint64_t operations_;
  const std::shared_ptr<const Model> model_;
  Machine machine_;
  Reference reference_;
  PlainSessions plain_;

  std::map<SessionName, Live> live_;
  std::set<SessionName> expired_;
  std::vector<Maybe> maybe_;
  std::deque<std::shared_ptr<const Sent>> sent_;
  // What was asked of sessions of that name lately.
  std::map<SessionName, std::deque<AskedPtr>> asked_;

  uint64_t wave_ = 0;
  uint64_t done_ = 0;  // operations
  std::vector<Script> scripts_;
  std::set<SessionName> used_;  // in this wave
  size_t live_before_ = 0;
  size_t may_create_ = 0;
  absl::Time wave_begin_;
  size_t faulty_waves_ = 0;  // that are left
  bool faulty_ = false;
  bool may_fail_ = false;         // it was, in this wave
  bool deletion_failed_ = false;  // in this wave
  std::unique_ptr<MemoryStore> disk_at_kill_;
  std::shared_ptr<Engine::Export> kept_snapshot_;  // lends contents
  std::deque<std::string> latest_;                 // what happened
  bool failed_ = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_SERVER_ENGINE_SIMULATION_SIMULATION_H_
