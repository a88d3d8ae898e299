#ifndef STEADYSTATE_TESTS_SERVER_ENGINE_SIMULATION_PLAIN_SESSION_H_
#define STEADYSTATE_TESTS_SERVER_ENGINE_SIMULATION_PLAIN_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "server/base/error.h"
#include "server/engine/request.h"
#include "tests/server/engine/simulation/past.h"

namespace steadystate {

// How many inputs sessions remember, and records of requests they have.
inline constexpr uint64_t kHistory = 64;
inline constexpr size_t kRecords = 32;

// A request on a session, as its client sent it.
struct Asked {
  std::variant<StepRequest, GenerateRequest, ScoreRequest> request;
  // Two that ask the same have the same.
  uint64_t content = 0;

  const RequestBase& base() const {
    return std::visit([](const auto& one) -> const RequestBase& { return one; },
                      request);
  }
};
using AskedPtr = std::shared_ptr<const Asked>;

// What a session knows of a request.
struct PlainRecord {
  AskedPtr asked;
  uint64_t begin = 0;
  uint64_t end = 0;
  bool finished = false;
  // It is there, as far as others have not pushed it out. Where the session was
  // taken back it may not be.
  bool sure = true;
};

// All that a session is at one moment. Immutable.
struct Version {
  PastPtr past;
  std::vector<PlainRecord> records{};  // oldest first
  uint64_t after_embedding = 0;        // after the last one; 0: there was none
  std::shared_ptr<const Version> before{};

  uint64_t position() const { return past->position; }
  uint64_t history_begin() const {
    return position() > kHistory ? position() - kHistory : 0;
  }
};
using VersionPtr = std::shared_ptr<const Version>;

enum class Presence { kAbsent, kPerhaps, kPresent };
// Of the record at that place.
Presence PresenceOf(const Version& version, size_t record);

// One way in which a request may go.
struct Outcome {
  std::optional<ErrorReason> refusal{};
  // The session before, after each piece and, last, in the end.
  std::vector<VersionPtr> path;
  // Of an answer.
  bool replayed = false;
  PastPtr answers_about{};        // a Step's outputs
  uint64_t position = 0;          // in the end
  uint64_t first = 0;             // the position before the first item
  std::vector<int32_t> tokens{};  // of the items, in order
  size_t replayed_tokens = 0;     // the first of them
};

// What a session is, without locks, slots and stores.
class PlainSessions {
 public:
  explicit PlainSessions(Reference& reference) : reference_(reference) {}

  Reference& reference() { return reference_; }
  VersionPtr New() const;
  // As it was at `position`, which is not behind it.
  VersionPtr Rewound(const VersionPtr& from, uint64_t position);
  // Can it be told for sure that it can go back there?
  static bool SurelyReaches(const Version& from, uint64_t position);
  // As a new session is after so much of a prompt.
  VersionPtr AfterPrompt(const std::vector<int32_t>& prompt, uint64_t position);

  // All ways in which a request may go on a session.
  std::vector<Outcome> OutcomesOf(const VersionPtr& from,
                                  const AskedPtr& asked);

 private:
  Outcome CarryOut(const VersionPtr& from, const AskedPtr& asked,
                   uint64_t begin);
  void Feed(const AskedPtr& asked, uint64_t begin, size_t done,
            Outcome& outcome);
  void Generate(const AskedPtr& asked, uint64_t begin, Outcome& outcome);
  Outcome Repeat(const VersionPtr& from, const AskedPtr& asked,
                 const PlainRecord& record);
  Outcome RepeatStep(const VersionPtr& from, const AskedPtr& asked,
                     const PlainRecord& record);
  Outcome RepeatGenerate(const VersionPtr& from, const AskedPtr& asked,
                         const PlainRecord& record);

  Reference& reference_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_SERVER_ENGINE_SIMULATION_PLAIN_SESSION_H_
