// Goal: whatever was answered about a logged session is there after a kill at
// any point of writing and reading, to the byte, and what was deleted is not.
// Method: a process that works on sessions in a real store, in less memory than
// they need, and kills itself when it comes to a named place for the n-th time;
// then another process, which compares what the store has with what had been
// answered, as noted in memory that both share. This process only forks. With
// STEADYSTATE_KILL_SEEDS=20 each place is tried so often.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/parking.h"
#include "server/store/rocks_store.h"
#include "server/store/round_log.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/end_receiver.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::kill_test {
namespace {

// Where this process dies, and at which time that it comes there.
const char* kill_place = "";
std::atomic<int> kill_after = 0;
bool snapshots_in_files = false;  // all of them; else none, for they are small

void DieAt(const char* place) {
  if (std::strcmp(place, kill_place) != 0) return;
  if (kill_after.fetch_sub(1) == 1) {
    kill(getpid(), SIGKILL);
    pause();
  }
}

// The same for the calls by which the log is written.
class DeadlyCalls final : public FileCalls {
 public:
  int Create(const char* path) override {
    DieAt("Create");
    const int file = FileCalls::Create(path);
    DieAt("Create, done");
    return file;
  }
  ssize_t Write(int file, const char* bytes, size_t count) override {
    DieAt("Write");
    // A part of it, if it is to end there.
    if (std::strcmp(kill_place, "Write, half") == 0 && kill_after == 1) {
      EXPECT_GT(FileCalls::Write(file, bytes, count / 2), 0);
    }
    DieAt("Write, half");
    const ssize_t written = FileCalls::Write(file, bytes, count);
    DieAt("Write, done");
    return written;
  }
  int Sync(int file) override {
    DieAt("Sync");
    const int synced = FileCalls::Sync(file);
    DieAt("Sync, done");
    return synced;
  }
};

constexpr const char* kPlaces[] = {"Journal::WriteLoop",
                                   "Journal, written",
                                   "Journal::SyncLoop",
                                   "SessionKeeper::DoJob",
                                   "SessionKeeper::MoveOut",
                                   "SessionRemover::LogSome",
                                   "SessionKeeper::RemoveSome",
                                   "SessionKeeper::RemoveSome, done",
                                   "SessionKeeper::ClearOne",
                                   "SessionKeeper::Fork",
                                   "SessionPast::Rewind, stored",
                                   "SessionSaver::Put",
                                   "SessionSaver::Put, done",
                                   "SessionSaver::TrimLog, synced",
                                   "Create",
                                   "Create, done",
                                   "Write",
                                   "Write, half",
                                   "Write, done",
                                   "Sync",
                                   "Sync, done"};
// These come where snapshots are in files.
constexpr const char* kFilePlaces[] = {
    "SnapshotFiles::Write, a part",  "SnapshotFiles::Write, synced",
    "SnapshotFiles::Write, renamed", "RocksStore::Put, with a file",
    "RocksStore, a file less",       "RocksStore, files removed"};
// These come when a log that was left is read.
constexpr const char* kReadPlaces[] = {"LogReader::Write, created",
                                       "LogReader::Write, changes",
                                       "LogReader::Write, synced"};

constexpr size_t kMaxNotes = 64;
constexpr int kRounds = 60;

// What has been asked of a session, and what was answered; shared by processes.
struct Note {
  char id[16];
  bool create_asked;
  bool create_answered;
  bool delete_asked;
  bool delete_answered;
  uint64_t steps;     // that were answered, and not taken back since
  bool rewind_asked;  // to so many steps; it has not been answered
  uint64_t rewind_to;
  // Which branch the session is on, another one after each way back and in each
  // fork; and on which it made each of its steps, one more than were answered
  // included.
  uint32_t branch;
  uint32_t branch_of[kRounds + 1];
};

// What is done depends on the step and the branch: a session that has a part of
// one that it left is not what it should be.
std::vector<int32_t> StepTokens(uint64_t step, uint32_t branch) {
  return MakeTokens(1 + step % 3, step + 1000 * uint64_t{branch});
}
uint64_t PositionAfter(uint64_t steps) {
  uint64_t position = 0;
  for (uint64_t i = 0; i < steps; ++i) position += 1 + i % 3;
  return position;
}

using Notes = Note[kMaxNotes];

// An engine on the store in `directory`.
class World {
 public:
  World(const std::string& directory, Durability durability) {
    RocksStoreOptions options;
    options.directory = directory;
    options.model = "tiny";
    options.fingerprint = "f00d";
    options.calls = &calls_;
    options.log_file_bytes = 2048;
    if (snapshots_in_files) options.snapshot_file_bytes = 0;
    auto opened = RocksStore::Open(options);
    if (!opened.ok()) {
      std::fprintf(stderr, "%s\n", opened.status().ToString().c_str());
      std::_Exit(3);
    }
    store_ = *std::move(opened);
    EngineOptions engine;
    engine.durability = durability;
    engine.max_replay = absl::Milliseconds(1);
    engine.state_memory_bytes =
        3 * SessionLayoutOf(*SharedTinyModel(), engine).charge_bytes();
    harness_ = std::make_unique<EngineHarness>(engine, SharedTinyModel(),
                                               store_.get());
  }

  EngineHarness& harness() { return *harness_; }
  Engine& engine() { return harness_->engine(); }

  void Create(Note& note, const std::string& id) {
    std::memcpy(note.id, id.c_str(), id.size() + 1);
    note.create_asked = true;
    SessionOptions options;
    options.id = id;
    Future<bool> done;
    engine().CreateSession(options,
                           [done](const auto& info) { done.Set(info.ok()); });
    note.create_answered = done.Get();
  }
  void Delete(Note& note) {
    note.delete_asked = true;
    Future<bool> done;
    if (engine()
            .DeleteSession(note.id, [done](const auto& s) { done.Set(s.ok()); })
            .ok()) {
      note.delete_answered = done.Get();
    }
  }
  // A copy of what it was after `steps`.
  void Fork(const Note& from, uint64_t steps, Note& note,
            const std::string& id) {
    std::memcpy(note.id, id.c_str(), id.size() + 1);
    std::memcpy(note.branch_of, from.branch_of, sizeof(note.branch_of));
    note.branch = ++branches_;
    note.create_asked = true;
    ForkOptions options;
    options.ids = {id};
    options.at.position = PositionAfter(steps);
    if (!Do(from, engine().ForkWork(options, std::make_shared<Forks>()))) {
      return;
    }
    note.steps = steps;
    note.create_answered = true;
  }
  void Rewind(Note& note, uint64_t steps) {
    note.rewind_to = steps;
    note.rewind_asked = true;
    if (!Do(note, engine().RewindWork({.position = PositionAfter(steps)},
                                      std::make_shared<SessionInfo>()))) {
      return;
    }
    note.steps = steps;
    note.branch = ++branches_;
    note.rewind_asked = false;
  }
  // The session's next step.
  StepFuture Step(Note& note) {
    note.branch_of[note.steps] = note.branch;
    StepRequest step = StepOf(note.id, StepTokens(note.steps, note.branch));
    step.outputs = {};
    step.request_id = absl::StrCat(note.steps);
    step.expected_position = PositionAfter(note.steps);
    return harness_->StepAsync(step);
  }

 private:
  bool Do(const Note& note, WorkRequest work) {
    work.session = note.id;
    work.writer = engine().NewWriter();
    Future<bool> done;
    SubmitThen(engine(), std::move(work),
               [done](const auto& end) { done.Set(end.ok()); });
    return done.Get();
  }

  uint32_t branches_ = 0;
  DeadlyCalls calls_;
  std::unique_ptr<SessionStore> store_;
  std::unique_ptr<EngineHarness> harness_;
};

bool Lives(const Note& note) {
  return note.create_answered && !note.delete_asked;
}

// Works until it is killed, or for kRounds, and then kills itself.
[[noreturn]] void Work(const std::string& directory, Durability durability,
                       uint32_t seed, Notes& notes) {
  World world(directory, durability);
  std::mt19937 random(seed);
  size_t made = 0;
  for (int round = 0; round < kRounds; ++round) {
    world.harness().clock().Advance(absl::Milliseconds(300));
    if (made < 4 || (made < kMaxNotes && random() % 4 == 0)) {
      Note* from = nullptr;
      for (Note& note : notes) {
        if (Lives(note) && random() % 3 == 0) from = &note;
      }
      const std::string id = absl::StrCat("s", made);
      if (from != nullptr) {
        world.Fork(*from, random() % (from->steps + 1), notes[made], id);
      } else {
        world.Create(notes[made], id);
      }
      ++made;
    }
    std::vector<std::pair<Note*, StepFuture>> steps;
    size_t living = 0;
    for (Note& note : notes) {
      if (!Lives(note)) continue;
      if (++living > 8) {
        // What the log alone would make of it is something else.
        if (random() % 2 == 0) world.Rewind(note, random() % (note.steps + 1));
        world.Delete(note);
      } else if (random() % 8 == 0) {
        world.Rewind(note, random() % (note.steps + 1));
      } else if (random() % 2 == 0) {
        steps.emplace_back(&note, world.Step(note));
      }
    }
    for (const auto& [note, answer] : steps) {
      if (answer.Get().ok()) ++note->steps;
    }
    if (random() % 8 == 0) {
      Note& note = notes[random() % kMaxNotes];
      if (Lives(note)) world.Delete(note);
    }
  }
  kill(getpid(), SIGKILL);
  std::_Exit(4);
}

// The logits after a step that follows so many of the session's.
std::vector<float> LogitsAfter(const Note& note, uint64_t steps,
                               const std::vector<int32_t>& next) {
  EngineHarness alone;
  alone.CreateSession("alone");
  for (uint64_t step = 0; step < steps; ++step) {
    EXPECT_TRUE(
        alone.Step(StepOf("alone", StepTokens(step, note.branch_of[step])))
            .ok());
  }
  const auto answer = alone.Step(StepOf("alone", next));
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? answer->logits : std::vector<float>();
}

// Compares what the store has with what was answered. -> the exit code.
int Check(const std::string& directory, Durability durability,
          const Notes& notes) {
  World world(directory, durability);
  const std::vector<int32_t> tokens = {1, 2};
  for (const Note& note : notes) {
    if (!note.create_asked) continue;
    const auto info = world.engine().GetSession(note.id);
    EXPECT_FALSE(note.delete_answered && info.ok()) << note.id;
    EXPECT_TRUE(!Lives(note) || info.ok()) << note.id << info.status();
    if (!info.ok()) continue;
    uint64_t steps = 0;
    while (PositionAfter(steps) < info->position) ++steps;
    EXPECT_EQ(PositionAfter(steps), info->position) << note.id;
    // One more may have been written, and not answered any more; so may that it
    // went back.
    const bool rewound = note.rewind_asked && steps == note.rewind_to;
    EXPECT_TRUE(rewound || steps >= note.steps) << note.id;
    EXPECT_TRUE(rewound || !note.create_answered || steps <= note.steps + 1)
        << note.id;
    const auto next = world.harness().Step(StepOf(note.id, tokens));
    EXPECT_TRUE(next.ok()) << note.id << next.status();
    EXPECT_TRUE(!next.ok() || next->logits == LogitsAfter(note, steps, tokens))
        << note.id;
  }
  return testing::Test::HasFailure() ? 1 : 0;
}

class KillTest : public testing::Test {
 protected:
  KillTest() {
    void* const memory = mmap(nullptr, sizeof(Notes), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    notes_ = static_cast<Notes*>(memory);
    SharedTinyModel();
  }
  ~KillTest() override { munmap(notes_, sizeof(Notes)); }

  // Runs it in a process of its own. -> its exit code, or minus the signal.
  static int Run(const std::function<int()>& what) {
    const pid_t child = fork();
    if (child == 0) std::_Exit(what());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

  int Victim(const std::string& directory, Durability durability, uint32_t seed,
             const char* place, int times) {
    return Run([&]() -> int {
      kill_place = place;
      kill_after = times;
      parking_hook = &DieAt;
      Work(directory, durability, seed, *notes_);
    });
  }

  // A store whose process was killed at the place, and maybe that which read it
  // as well.
  void Try(const char* place, const char* read_place, uint32_t seed) {
    SCOPED_TRACE(absl::StrCat("at '", place, "', then at '", read_place,
                              "', seed ", seed));
    std::memset(notes_, 0, sizeof(Notes));
    const TempDirectory directory;
    const std::string store = directory.path() + "/store";
    const auto durability =
        seed % 2 == 0 ? Durability::kLog : Durability::kSync;
    std::mt19937 random(seed);
    // What comes at every step is waited for longer.
    const int times = 1 + static_cast<int>(random() % (seed % 3 == 0 ? 3 : 40));
    ASSERT_EQ(Victim(store, durability, seed, place, times), -SIGKILL);
    if (*read_place != '\0') {
      const int killed = Run([&] {
        kill_place = read_place;
        kill_after = 1;
        parking_hook = &DieAt;
        return Check(store, durability, *notes_);
      });
      ASSERT_EQ(killed, -SIGKILL);
    }
    ASSERT_EQ(Run([&] { return Check(store, durability, *notes_); }), 0);
  }

  static uint32_t Seeds() {
    const char* const seeds = std::getenv("STEADYSTATE_KILL_SEEDS");
    return seeds == nullptr ? 2 : static_cast<uint32_t>(std::atoi(seeds));
  }

  Notes* notes_ = nullptr;
};

TEST_F(KillTest, NothingThatWasAnsweredIsLostWhereverItIsKilled) {
  uint32_t seed = 1;
  for (const char* const place : kPlaces) {
    for (uint32_t i = 0; i < Seeds() && !HasFatalFailure(); ++i) {
      Try(place, "", ++seed);
    }
  }
}

TEST_F(KillTest, NorWhereSnapshotsAreFiles) {
  snapshots_in_files = true;
  uint32_t seed = 2000;
  for (const char* const place : kFilePlaces) {
    for (uint32_t i = 0; i < Seeds() && !HasFatalFailure(); ++i) {
      Try(place, i % 2 == 0 ? "" : "SnapshotFiles::Open", ++seed);
    }
  }
  snapshots_in_files = false;
}

TEST_F(KillTest, NorWhenItIsKilledAgainWhileItReadsTheLog) {
  uint32_t seed = 1000;
  for (const char* const place : kReadPlaces) {
    for (uint32_t i = 0; i < Seeds() && !HasFatalFailure(); ++i) {
      Try("Write, done", place, ++seed);
    }
  }
}

}  // namespace
}  // namespace steadystate::kill_test
