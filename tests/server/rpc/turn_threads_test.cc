// Goal: what takes long is done in turn, within bounds, and nobody else waits
// for it. Method: work that is held, then a real server with a
// tokenizer of tests/data/tokenizers beside a tiny model.
//
// Goal: work is done once, on another thread, and then let go of.
#include "server/rpc/turn_threads.h"

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/rpc/service_context.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/checkpoint_writer.h"
#include "tests/testing/temp_directory.h"
#include "tests/testing/tiny_model.h"

namespace steadystate::turn_threads_test {
namespace {

ErrorReason ReasonOf(const absl::Status& status) {
  return GetErrorDetails(status)->reason;
}

constexpr ClientId kClient = 1;
constexpr ClientId kOther = 2;
constexpr size_t kShort = kTextBounds.long_bytes;
constexpr size_t kLong = kTextBounds.long_bytes + 1;

// Keeps the thread for texts of `bytes` busy until released. The thread may
// still be about to read what releases it when this ends, so they share it.
class Hold {
 public:
  explicit Hold(TurnThreads& texts, size_t bytes = kShort) {
    EXPECT_TRUE(texts
                    .Run(kClient, bytes,
                         [state = state_](const absl::Status&) {
                           state->begun.set_value();
                           state->released.get_future().wait();
                         })
                    .ok());
    state_->begun.get_future().wait();
  }
  void Release() { state_->released.set_value(); }

 private:
  struct State {
    std::promise<void> begun;
    std::promise<void> released;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

TEST(TurnThreadsTest, WorksInOrderOnAThreadOfItsOwn) {
  std::vector<int> order;
  std::thread::id thread;
  {
    TurnThreads texts(kTextBounds);
    Hold hold(texts);
    for (int i = 0; i < 10; ++i) {
      EXPECT_TRUE(texts
                      .Run(kClient, kShort,
                           [&order, &thread, i](const absl::Status&) {
                             order.push_back(i);
                             thread = std::this_thread::get_id();
                           })
                      .ok());
    }
    EXPECT_TRUE(order.empty());
    hold.Release();
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(TurnThreadsTest, ServesClientsInTurn) {
  std::vector<ClientId> order;
  {
    TurnThreads texts(kTextBounds);
    Hold hold(texts);
    for (const ClientId client : {1u, 1u, 1u, 1u, 2u, 2u, 3u}) {
      EXPECT_TRUE(texts
                      .Run(client, kShort,
                           [&order, client](const absl::Status&) {
                             order.push_back(client);
                           })
                      .ok());
    }
    hold.Release();
  }
  EXPECT_EQ(order, (std::vector<ClientId>{1, 2, 3, 1, 2, 1, 1}));
}

TEST(TurnThreadsTest, ShortTextsDoNotWaitForLongOnes) {
  TurnThreads texts(kTextBounds);
  Hold hold(texts, kLong);
  std::promise<void> done;
  EXPECT_TRUE(texts
                  .Run(kOther, kShort,
                       [&done](const absl::Status&) { done.set_value(); })
                  .ok());
  done.get_future().wait();
  hold.Release();
}

TEST(TurnThreadsTest, ForgetsAndAnswersWhatIsCancelled) {
  TurnThreads texts(kTextBounds);
  Hold hold(texts, kLong);
  std::vector<int> called;
  std::vector<TurnTicket> tickets;
  for (int i = 0; i < 3; ++i) {
    const absl::StatusOr<TurnTicket> ticket =
        texts.Run(kClient, kLong, [&called, i](const absl::Status& turn) {
          called.push_back(absl::IsCancelled(turn) ? i : -i);
        });
    ASSERT_TRUE(ticket.ok());
    tickets.push_back(*ticket);
  }
  texts.Forget(tickets[1]);
  EXPECT_EQ(called, std::vector<int>{1});
  texts.Forget(tickets[2]);
  texts.Forget(tickets[2]);
  texts.Forget(0);
  EXPECT_EQ(called, (std::vector<int>{1, 2}));
  texts.Forget(tickets[0]);
  EXPECT_EQ(called, (std::vector<int>{1, 2, 0}));
  hold.Release();
}

TEST(TurnThreadsTest, RefusesAClientWhatIsBeyondItsShare) {
  constexpr size_t kShare =
      kTextBounds.own_waiting + kTextBounds.waiting / (kTextBounds.parts + 1);
  std::atomic<size_t> called = 0;
  {
    TurnThreads texts(kTextBounds);
    Hold hold(texts);
    const auto work = [&called](const absl::Status&) { ++called; };
    size_t accepted = 0;
    absl::StatusOr<TurnTicket> ticket = 0;
    while (ticket.ok()) {
      ticket = texts.Run(kClient, 1, work);
      accepted += ticket.ok();
    }
    EXPECT_EQ(ReasonOf(ticket.status()), ErrorReason::kQueueFull);
    EXPECT_EQ(accepted, kShare);
    EXPECT_TRUE(texts.Run(kOther, 1, work).ok());
    hold.Release();
  }
  EXPECT_EQ(called, kShare + 1);
}

TEST(TurnThreadsTest, BoundsTheBytesThatWait) {
  constexpr size_t kShare =
      kTextBounds.own_bytes + kTextBounds.bytes / (kTextBounds.parts + 1);
  TurnThreads texts(kTextBounds);
  Hold hold(texts, kLong);
  const auto work = [](const absl::Status&) {};
  EXPECT_TRUE(texts.Run(kClient, kShare, work).ok());
  EXPECT_EQ(ReasonOf(texts.Run(kClient, 1, work).status()),
            ErrorReason::kQueueFull);
  EXPECT_EQ(ReasonOf(texts.Run(kOther, kShare, work).status()),
            ErrorReason::kQueueFull);
  EXPECT_TRUE(texts.Run(kOther, kShare / 2, work).ok());
  EXPECT_TRUE(texts.Run(3, kTextBounds.own_bytes, work).ok());
  hold.Release();
}

// However many others have as much as they may, one of the largest requests of
// another client still waits with them.
TEST(TurnThreadsTest, EveryClientMayWaitWithALargeRequest) {
  constexpr size_t kMessage = size_t{4} << 20;
  TurnThreads reading(ReadingBounds(size_t{256} << 20, kMessage));
  Hold hold(reading);
  const auto work = [](const absl::Status&) {};
  size_t waiting = 0;
  for (ClientId client = 1; client <= 30; ++client) {
    while (reading.Run(client, kMessage, work).ok()) ++waiting;
  }
  EXPECT_LE(waiting, 64u + 30u);
  EXPECT_TRUE(reading.Run(31, kMessage, work).ok());
  EXPECT_FALSE(reading.Run(31, kMessage, work).ok());
  hold.Release();
}

// It must be done some time, however long messages may be.
TEST(TurnThreadsTest, TakesATextOfAnyLengthWhereNoneWaits) {
  TurnThreads texts(kTextBounds);
  Hold hold(texts, kLong);
  const auto work = [](const absl::Status&) {};
  EXPECT_TRUE(texts.Run(kOther, 2 * kTextBounds.bytes, work).ok());
  EXPECT_FALSE(texts.Run(kClient, kLong, work).ok());
  hold.Release();
}

TEST(TurnThreadsTest, DrainingRefusesWhatWaitsAndWhatComes) {
  absl::Status turn;
  {
    TurnThreads texts(kTextBounds);
    Hold hold(texts);
    EXPECT_TRUE(texts
                    .Run(kClient, kShort,
                         [&turn](const absl::Status& status) { turn = status; })
                    .ok());
    texts.Drain();
    EXPECT_EQ(
        ReasonOf(texts.Run(kClient, kShort, [](const absl::Status&) { FAIL(); })
                     .status()),
        ErrorReason::kDraining);
    hold.Release();
  }
  EXPECT_EQ(ReasonOf(turn), ErrorReason::kDraining);
}

// A server with a tokenizer that takes its time, and a text to go with it.
class LongTextTest : public testing::Test {
 protected:
  LongTextTest() {
    TinyModelOptions model;
    model.vocab_size = 1500;
    model.byte_tokenizer = false;
    WriteCheckpoint(MakeTinyCheckpoint(model), directory_.path());
    directory_.Write(
        "tokenizer.json",
        ReadWholeFile(STEADYSTATE_SOURCE_DIR "/tests/data/tokenizers/mistral/"
                                             "tokenizer.json"));
    OpenServerOptions options;
    options.checkpoint = directory_.path().c_str();
    server_ = std::make_unique<OpenServer>(options);
    for (int i = 0; text_.size() < 256 << 10; ++i) {
      absl::StrAppend(&text_, "word ", i, " and another, ");
    }
  }

  TempDirectory directory_;
  std::unique_ptr<OpenServer> server_;
  std::string text_;
};

TEST_F(LongTextTest, GivesTheTokensThatItsPartsGive) {
  // Long enough for the thread, and short.
  const std::string text = text_.substr(0, kShortTextBytes + 1);
  v1::TokenizeRequest request;
  request.set_text(text);
  v1::TokenizeResponse response;
  Context context;
  ASSERT_THAT(server_->models().Tokenize(&context, request, &response), IsOk());
  const std::vector<int32_t> expected =
      server_->model().tokenizer()->Encode(text).value();
  EXPECT_EQ(
      std::vector<int32_t>(response.tokens().begin(), response.tokens().end()),
      expected);

  v1::ScoreRequest score;
  score.set_text(text);
  Context score_context;
  const auto stream = server_->generation().Score(&score_context, score);
  std::vector<int32_t> scored;
  v1::ScoreResponse message;
  while (stream->Read(&message)) {
    for (const auto& token : message.tokens()) scored.push_back(token.token());
  }
  EXPECT_THAT(stream->Finish(), IsOk());
  EXPECT_EQ(scored, expected);
}

// Calls of Tokenize that run side by side until they are cancelled.
class TokenizeCalls {
 public:
  TokenizeCalls(OpenServer& server, const std::string& text, size_t count)
      : calls_(count) {
    request_.set_text(text);
    for (Call& call : calls_) {
      server.models().async()->Tokenize(&call.context, &request_,
                                        &call.response,
                                        [this, &call](const grpc::Status&) {
                                          ++done_;
                                          call.done.set_value();
                                        });
    }
  }
  ~TokenizeCalls() {
    for (Call& call : calls_) call.context.TryCancel();
    for (Call& call : calls_) call.done.get_future().wait();
  }

  size_t done() const { return done_; }

 private:
  struct Call {
    Context context;
    v1::TokenizeResponse response;
    std::promise<void> done;
  };

  v1::TokenizeRequest request_;
  std::atomic<size_t> done_ = 0;
  std::vector<Call> calls_;
};

// More calls than gRPC has threads; were they used, no step would be answered
// before the last texts are at work.
TEST_F(LongTextTest, StreamsGoOnMeanwhile) {
  constexpr size_t kCalls = 20;
  const std::string session = server_->CreateSession();
  Context context;
  const auto stream = server_->generation().StreamStep(&context);
  const TokenizeCalls calls(*server_, text_, kCalls);
  v1::StreamStepRequest step;
  *step.mutable_step() = StepOf(session, {1});
  v1::StreamStepResponse response;
  int steps = 0;
  while (calls.done() < kCalls / 2 && steps < 100) {
    ASSERT_TRUE(stream->Write(step));
    ASSERT_TRUE(stream->Read(&response));
    if (calls.done() < kCalls / 2) ++steps;
  }
  EXPECT_GE(steps, 3);
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(stream->Finish(), IsOk());
}

// Whether its text has had its turn or not.
TEST_F(LongTextTest, ACancelledCallEnds) {
  v1::GenerateRequest request;
  request.set_session(server_->CreateSession());
  request.set_text(text_);
  Context context;
  const auto stream = server_->generation().Generate(&context, request);
  context.TryCancel();
  v1::GenerateResponse response;
  while (stream->Read(&response)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(server_->server().Shutdown(absl::Seconds(30)).ok());
}

TEST(RunSoonTest, RunsOnAnotherThreadAndLetsGo) {
  std::promise<std::thread::id> thread;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> weak = held;
  RunSoon([held = std::move(held), &thread] {
    thread.set_value(std::this_thread::get_id());
  });
  EXPECT_NE(thread.get_future().get(), std::this_thread::get_id());
  while (!weak.expired()) std::this_thread::yield();
}

}  // namespace
}  // namespace steadystate::turn_threads_test
