// Goal: long texts become tokens one after the other, within bounds, and nobody
// else waits for them. Method: work that is held, then a real server with a
// tokenizer of tests/data/tokenizers beside a tiny model.
#include "server/rpc/text_thread.h"

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/checkpoint_writer.h"
#include "tests/testing/temp_directory.h"
#include "tests/testing/tiny_model.h"

namespace steadystate {
namespace {

ErrorReason ReasonOf(const absl::Status& status) {
  return GetErrorDetails(status)->reason;
}

// Keeps the thread busy until released. The thread may still be about to read
// what releases it when this ends, so they share it.
class Hold {
 public:
  explicit Hold(TextThread& texts) {
    EXPECT_TRUE(texts
                    .Run([state = state_](const absl::Status&) {
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

TEST(TextThreadTest, WorksInOrderOnAThreadOfItsOwn) {
  std::vector<int> order;
  std::thread::id thread;
  {
    TextThread texts;
    Hold hold(texts);
    for (int i = 0; i < 10; ++i) {
      EXPECT_TRUE(texts
                      .Run([&order, &thread, i](const absl::Status&) {
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

TEST(TextThreadTest, RefusesWhatIsBeyondItsBound) {
  std::atomic<size_t> called = 0;
  {
    TextThread texts;
    Hold hold(texts);
    const auto work = [&called](const absl::Status&) { ++called; };
    for (size_t i = 0; i < TextThread::kMaxWaiting; ++i) {
      EXPECT_TRUE(texts.Run(work).ok());
    }
    EXPECT_EQ(ReasonOf(texts.Run(work)), ErrorReason::kQueueFull);
    hold.Release();
  }
  EXPECT_EQ(called, TextThread::kMaxWaiting);
}

TEST(TextThreadTest, DrainingRefusesWhatWaitsAndWhatComes) {
  absl::Status turn;
  {
    TextThread texts;
    Hold hold(texts);
    EXPECT_TRUE(
        texts.Run([&turn](const absl::Status& status) { turn = status; }).ok());
    texts.Drain();
    EXPECT_EQ(ReasonOf(texts.Run([](const absl::Status&) { FAIL(); })),
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
      server_->model().tokenizer()->Encode(text);
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

}  // namespace
}  // namespace steadystate
