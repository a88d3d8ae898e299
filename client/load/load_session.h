#ifndef STEADYSTATE_CLIENT_LOAD_LOAD_SESSION_H_
#define STEADYSTATE_CLIENT_LOAD_LOAD_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/load/load_clock.h"
#include "client/load/load_options.h"
#include "client/load/random.h"
#include "client/load/tally.h"
#include "steadystate/v1/model.pb.h"

namespace steadystate::client {

// What becomes of a session after a request.
enum class SessionFate : uint8_t {
  kGoesOn,   // the next request may begin
  kBroken,   // somebody has to look after it first: see LoadSession::Mending
  kRetired,  // is of no more use
};

// One session and the request that it is working on. Belongs to whoever has it
// at the moment: the pool while it is free, its carrier while it is busy.
class LoadSession {
 public:
  // What a failed request has left unknown.
  enum class Doubt : uint8_t {
    kNone,
    kPosition,  // where the session is; the request has absorbed nothing
    kAbsorbed,  // that, and how much the request has absorbed
  };

  // What has to happen before a broken session can go on.
  struct Mending {
    absl::Duration rest;   // pass
    bool replace = false;  // take a new session in its place
  };

  // `options` outlives this object.
  LoadSession(size_t index, const LoadOptions& options, const v1::Model& model)
      : index_(index),
        options_(options),
        vocab_size_(model.vocab_size()),
        context_cap_(model.context_cap()),
        random_(options.seed, index) {}

  size_t index() const { return index_; }
  const std::string& name() const { return name_; }
  // Tokens absorbed, as far as is known.
  uint64_t position() const { return position_; }
  Doubt doubt() const { return doubt_; }
  // True if it had requests and none of them got an answer of any kind.
  bool unheard() const { return asked_ && !answered_; }
  // True if the server has the session, as far as is known.
  bool exists() const { return exists_; }
  const Mending& mending() const { return mending_; }

  // Makes it stand for another session of the server, which is new.
  void Replace(const std::string& name);

  // Begins a request that was to be sent at `intended`.
  void Begin(LoadTime intended, Tally& tally);

  // A random token for a prompt.
  int32_t DrawPromptToken() {
    return static_cast<int32_t>(random_.Below(vocab_size_));
  }

  // Takes the next tokens of the request's prompt, `most` at most, which are to
  // be sent; returns how many.
  uint64_t TakePrompt(uint64_t most);
  // True if there are more.
  bool has_prompt() const { return prompt_left_ > 0; }

  // Tokens were sent that are not answered yet.
  void Sent(uint64_t tokens) { unanswered_ = tokens; }

  // The server says where the session is, having absorbed the tokens sent and
  // `generated` ones of its own.
  void Absorbed(uint64_t position, uint64_t generated, Tally& tally);

  // Drawn tokens arrived, together.
  void Received(uint64_t tokens, LoadTime now, const Window& window,
                Tally& tally);

  // True if the request has all of its tokens.
  bool complete() const { return drawn_ >= options_.generate_tokens; }

  // The request ended as it was meant to.
  SessionFate Complete(LoadTime now, const Window& window, Tally& tally);

  // The tester ends it, since the run is over.
  void Cut(LoadTime now, const Window& window, Tally& tally);

  // The same, by giving up a call: what it came to has to be asked for.
  void CutShort(LoadTime now, const Window& window, Tally& tally);

  // It failed. `all_or_nothing`: it absorbs what was sent as a whole or, if it
  // is refused at whatever time, not at all.
  SessionFate Fail(const absl::Status& status, bool all_or_nothing,
                   const Window& window, Tally& tally);

  // Ends the doubt: the session is at `position`, or that cannot be known.
  void Reconcile(uint64_t position, Tally& tally);
  void GiveUpReconciling(Tally& tally);

  // The session was deleted.
  void Gone() { exists_ = false; }

 private:
  const size_t index_;
  const LoadOptions& options_;
  const uint32_t vocab_size_;
  const uint64_t context_cap_;  // 0: none
  std::string name_;
  Random random_;
  uint64_t position_ = 0;
  uint64_t unanswered_ = 0;  // tokens
  Doubt doubt_ = Doubt::kNone;
  bool exists_ = false;
  bool asked_ = false;
  bool answered_ = false;
  Mending mending_;
  // Of the request.
  uint64_t prompt_left_ = 0;  // tokens not sent
  uint64_t drawn_ = 0;
  LoadTime intended_;
  LoadTime last_token_;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_LOAD_SESSION_H_
