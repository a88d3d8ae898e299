#ifndef STEADYSTATE_CLIENT_STEADYSTATE_STEP_STREAM_H_
#define STEADYSTATE_CLIENT_STEADYSTATE_STEP_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "steadystate/client.h"
#include "steadystate/v1/generation.pb.h"
#include "steadystate/v1/session.pb.h"

namespace steadystate::client {

// What one step absorbs and what it answers. StepStream::Send copies it.
struct Step {
  // Either token ids,
  absl::Span<const int32_t> tokens = {};
  // or vectors f32[embedding_count, hidden_size],
  absl::Span<const float> embeddings = {};
  uint64_t embedding_count = 0;
  // or text, UTF-8, of at most 4,096 bytes: one of the three. How many tokens a
  // text has the server tells, so nothing can be sent behind it on its session
  // before it is answered.
  absl::string_view text = {};
  // Optional: what to answer beside the position. With `text` in it the text of
  // the token drawn, StepResponse.text_delta.
  const v1::StepOutput* output = nullptr;
  // True: the step makes the session if there is none, which then lives as long
  // as the stream. Without inputs and output it does no more.
  bool ephemeral = false;
};

// What became of one step.
struct StepAnswer {
  size_t session = 0;  // as AddSession returned it
  uint64_t tag = 0;    // as Send was given it
  // The answer; or the server's error, with its reason in ReasonOf: the step
  // has absorbed nothing then, but where DRAINING cut it short.
  absl::StatusOr<v1::StepResponse> step;
};

// A step without an answer.
struct UnansweredStep {
  uint64_t tag = 0;
  uint64_t inputs = 0;   // tokens or embeddings; 0 of text
  bool is_text = false;  // then it is the last of its session
};

// Where a session of a stream stands, as far as its answers tell.
struct SessionStanding {
  std::string name;       // "sessions/{id}"
  uint64_t position = 0;  // acknowledged: after the last step answered
  // Steps that left, or may have, oldest first. The server carries them out in
  // this order, each as a whole. Once the stream has ended: the first few of
  // them, or all, or none, were carried out, and StepsTaken tells which.
  std::vector<UnansweredStep> in_doubt;
  // Steps that had not left when the stream ended: they are not carried out.
  std::vector<UnansweredStep> unsent;
};

// How many of standing.in_doubt the server has carried out, given the session
// as GetSession shows it after the stream's end; the session is at
// found.position(). What these steps answered is lost: a step that drew a token
// drew it from logits that Generate without a prompt goes on from.
//
// INVALID_ARGUMENT: `found` is another session. UNAVAILABLE: the session is
// still at work; ask for it again. ABORTED: the position is between two steps
// or beyond all of them, so somebody else has written to the session.
absl::StatusOr<size_t> StepsTaken(const SessionStanding& standing,
                                  const v1::Session& found);

// How a stream is to be.
struct StepStreamOptions {
  // Steps without an answer, at most; one that Next would return has none yet.
  // So memory is bounded, by as many steps and answers.
  size_t max_in_flight = 1024;
  // The same for each session. A server takes 32.
  size_t max_in_flight_per_session = 32;
  // Of the stream as a whole.
  CallOptions call = {};

  // Optional, at most 128 bytes. Names the client to the server, which then
  // knows steps that another stream of the same name sends again: they are
  // carried out once, and answered as the first time. Use a name that no other
  // client has. Empty: a random one, which no other stream has.
  std::string client_id = {};

  // Optional. Is given answers as they arrive, several at a time, in place of
  // Next. Comes on threads of gRPC's, one call at a time; they must not be kept
  // waiting. May send, to any session: what is sent meanwhile leaves in one
  // message when the callback returns. May take answers apart; they are gone
  // when it returns. May not destroy the stream.
  std::function<void(absl::Span<StepAnswer> answers)> on_answers = nullptr;
  // Optional. Comes when the server says that it is about to shut down, at most
  // once, after the answers that came with that, as one of the callbacks that
  // come one at a time. The server takes steps until then, by its time of day,
  // and then ends the stream: whoever can goes on elsewhere. May send. May not
  // destroy the stream.
  std::function<void(absl::Time requests_until)> on_going_away = nullptr;
  // Optional. Comes once, last of all callbacks, with what Finish returns.
  // Standing is final by then. May not destroy the stream.
  std::function<void(const absl::Status& end)> on_end = nullptr;
};

// One StreamStep call, which carries the steps of many sessions. Knows the
// position of each and sends it as expected_position, so that no step is ever
// carried out twice, or after one that failed.
//
//   auto stream = StepStream::Open(client);
//   const size_t a = stream->AddSession(session.name(), session.position());
//   absl::Status sent = stream->Send(a, {.tokens = prompt}, /*tag=*/1);
//   if (!sent.ok()) return sent;
//   while (std::optional<StepAnswer> answer = stream->Next()) {
//     if (!answer->step.ok()) return answer->step.status();
//     ...
//   }
//   if (stream->broken()) Resume(stream->Unanswered());
//   return stream->Finish();
//
// Answers of one session come in the order of its steps, those of different
// sessions in any order. After a step that fails, steps of its session that are
// already in flight fail with POSITION_MISMATCH.
//
// A broken stream stays so; nothing is sent again by itself. To go on, with a
// client_id: open another stream of the same client_id, AddSession each of
// Unanswered() at the position that its standing has, and send its steps again,
// those in doubt first. What the server has carried out is answered again, by
// StepResponse.replayed; a session that is still at work is not busy for it.
// Without one: for each of Unanswered() ask GetSession until StepsTaken can
// tell, AddSession at the position found, and send the steps that were not
// taken.
//
// Thread-safe. Keeps the connection, so the Client may go first. An interface,
// so that tests of callers can put something else in its place.
class StepStream {
 public:
  // Opens the stream, without waiting for the server.
  static std::unique_ptr<StepStream> Open(
      const Client& client, const StepStreamOptions& options = {});

  // Cancels what is in flight, and waits for the last callback.
  virtual ~StepStream() = default;

  // Makes the stream carry a session, "sessions/{id}", which is at `position`;
  // returns the number by which the other methods know the session. Numbers
  // count from 0, and those of sessions that were removed are used again.
  virtual size_t AddSession(absl::string_view name, uint64_t position) = 0;

  // Tells the stream that another session has this number, or that the same one
  // is elsewhere. FAILED_PRECONDITION: steps of it are in flight.
  // INVALID_ARGUMENT: there is no such number.
  virtual absl::Status PlaceSession(size_t session, absl::string_view name,
                                    uint64_t position) = 0;

  // Forgets a session. Errors as in PlaceSession.
  virtual absl::Status RemoveSession(size_t session) = 0;

  // Sends a step behind those of the session that are in flight. Never waits.
  // `tag` comes back with the answer.
  //
  // Errors, with which nothing was sent. RESOURCE_EXHAUSTED: as many steps are
  // in flight as the options allow, or one of the session that is text; wait
  // for answers. UNAVAILABLE: the stream has ended. FAILED_PRECONDITION: Close
  // was called. INVALID_ARGUMENT: there is no such session, or the step has no
  // input or more than one. What the server refuses comes as an answer.
  virtual absl::Status Send(size_t session, const Step& step,
                            uint64_t tag = 0) = 0;

  // Waits for the next answer. Nothing if no step is in flight, or none of them
  // will be answered since the stream has ended.
  // REQUIRES: there is no on_answers.
  virtual std::optional<StepAnswer> Next() = 0;

  // No more steps come. Those in flight are answered, then the stream ends.
  virtual void Close() = 0;

  // Ends the stream at once, with CANCELLED. What is in flight may be carried
  // out or not.
  virtual void Cancel() = 0;

  // Closes the stream and waits for its end: OK if the server answered all
  // steps, else why the stream broke. Answers not taken yet stay for Next.
  // REQUIRES: not called by a callback.
  virtual absl::Status Finish() = 0;

  // True once the stream has ended with steps unanswered, or with an error.
  virtual bool broken() const = 0;

  // Until when the server takes steps, by its time of day, if it has said that
  // it is about to shut down. The stream ends with DRAINING after that.
  virtual std::optional<absl::Time> going_away() const = 0;

  // Where a session stands. REQUIRES: AddSession returned `session`.
  virtual SessionStanding Standing(size_t session) const = 0;

  // Of sessions with steps that have no answer, in the order of their numbers.
  // Once the stream has ended: all that a caller has to look after.
  virtual std::vector<SessionStanding> Unanswered() const = 0;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_STEADYSTATE_STEP_STREAM_H_
