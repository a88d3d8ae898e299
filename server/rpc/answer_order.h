#ifndef STEADYSTATE_SERVER_RPC_ANSWER_ORDER_H_
#define STEADYSTATE_SERVER_RPC_ANSWER_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "server/engine/request.h"
#include "server/rpc/answer.h"
#include "server/rpc/step_protocol.h"

namespace steadystate {

// The requests of one stream that have not been answered, and the order in
// which their answers leave: that of the requests of each session, refusals
// included. An answer that comes before its turn waits here.
//
// Takes memory for as many requests as are unanswered at once, which the owner
// bounds by count() and cost(), and for the names of some sessions beside
// theirs. Thread-compatible.
class AnswerOrder {
 public:
  // `protocol`, which outlives it, says the answers.
  explicit AnswerOrder(const StepProtocol& protocol) : protocol_(protocol) {}

  // Names a request from its arrival on; no other one has the same.
  using Tag = uint64_t;

  // Takes up a request, the last one of its session so far. `cost`: bytes of it
  // and of the answer expected. REQUIRES: count() < 65536.
  Tag Add(const StepNames& names, size_t cost);

  // Answers a request: adds to `out` the answer, and those that have waited for
  // it, unless it has to wait itself. Without `out` nobody hears the answers,
  // and they are dropped. REQUIRES: it is unanswered.
  void Answer(Tag tag, const StepResult& result, StepQueue* out);
  void Refuse(Tag tag, const PublicError& error, StepQueue* out);
  // Nobody hears answers any more: frees those that wait here.
  void DropAnswers();
  // What Answer looks at will be needed soon.
  void Prefetch(Tag tag) const { __builtin_prefetch(pool_[Index(tag)].get()); }

  // Notes the engine's id of a request. False if it has been answered.
  bool NoteId(Tag tag, RequestId id);
  // False for the tag of one that has been answered.
  bool IsUnanswered(Tag tag) const { return pool_[Index(tag)]->tag == tag; }
  // The engine's ids of those that are unanswered, as far as they are known.
  std::vector<RequestId> Ids() const;

  // Unanswered requests, those whose answers wait here included, and what they
  // cost.
  size_t count() const { return count_; }
  size_t cost() const { return cost_; }

 private:
  struct Pending;

  // By session's name the last request of it that is unanswered, if any is.
  using Lanes = absl::node_hash_map<std::string, Pending*>;

  struct Pending {
    Tag tag = 0;
    std::string request_id;
    uint32_t form = 0;  // StepNames::form
    Lanes::pointer lane = nullptr;
    size_t cost = 0;
    RequestId id = 0;         // the engine's; 0: not known (yet)
    bool first = false;       // none of its session is before it
    Pending* next = nullptr;  // the one of its session after it
    bool answered = false;    // others of its session are before it
    std::unique_ptr<google::protobuf::Message> answer;  // if it is heard
  };

  // A tag has the place in pool_ in its lower bits, above them how often a
  // request was taken up before.
  static constexpr size_t kIndexBits = 16;
  static size_t Index(Tag tag) { return tag & ((Tag{1} << kIndexBits) - 1); }

  Lanes::pointer LaneOf(absl::string_view session);
  static StepNames NamesOf(const Pending& pending);
  // Keeps an answer until its turn, or sends it if that has come.
  void Hold(Pending& pending, std::unique_ptr<google::protobuf::Message> answer,
            StepQueue* out);
  // Sends the answers that need not wait any longer, from `pending` on, before
  // which there is none.
  void Release(Pending* pending, StepQueue* out);
  // Forgets a request that has been answered; returns the one of its session
  // after it.
  Pending* Forget(Pending& pending);

  const StepProtocol& protocol_;
  std::vector<std::unique_ptr<Pending>> pool_;
  std::vector<size_t> free_;  // places in it
  // Of sessions seen, not all of which have unanswered requests.
  Lanes lanes_;
  uint64_t added_ = 0;
  size_t count_ = 0;
  size_t cost_ = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_ANSWER_ORDER_H_
