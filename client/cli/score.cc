// `steadystate score`: how likely the model finds a given text. `steadystate
// embed`: its hidden vectors.

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/command.h"
#include "client/cli/input.h"
#include "client/cli/output.h"
#include "client/cli/session.h"

namespace steadystate::client {
namespace {

// Bytes or tokens of one request: below the least size limit of messages that a
// server can have, even where each token id takes five bytes.
constexpr size_t kScorePiece = 8192;

// What all requests came to.
struct ScoreTotals {
  uint64_t tokens = 0;
  uint64_t scored_tokens = 0;
  uint64_t position = 0;
  double total_logprob = 0;
};

class ScoreCommand : public Command {
 public:
  CommandText text() const override {
    return {"score", "[TEXT]", "Tells how likely the model finds a text",
            "Prints the number of tokens, the sum of their natural "
            "log-probabilities, and bits per token and per byte. The first "
            "token of a fresh state has no log-probability; bits per byte are "
            "bits per scored token times tokens per byte. Texts of any length "
            "are scored as one continuous stream. Without --session nothing is "
            "left behind.",
            "  steadystate score 'The database is open.'\n"
            "  steadystate score --text_file book.txt --json\n"
            "  steadystate score --token_ids_file ids.json --logits_out "
            "logits.npy\n"};
  }

  OptionTable options() override {
    OptionTable table;
    input_.AppendTo(table);
    const OptionTable own = {
        {"session", "ID", "Goes on from this session, which absorbs the text.",
         &session_id_, 's'},
        {"expected_position", "N",
         "Refuses to begin unless the session is at this position.",
         &expected_position_},
        {"logits_out", "FILE",
         "Writes the logits as a NumPy file, float32 [tokens, vocabulary]; row "
         "t is what the model expects after tokens 0 to t.",
         &logits_path_},
        {"logprobs_out", "FILE",
         "Writes the log-probability of each token as a NumPy file, float32 "
         "[tokens]; NaN where there is none.",
         &logprobs_path_},
        {"json", "", "Prints the results as a JSON object.", &json_},
    };
    table.insert(table.end(), own.begin(), own.end());
    return table;
  }

  absl::Duration default_timeout() const override {
    return absl::InfiniteDuration();
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override;
  absl::Status Run(const Connection& connection) override;

 private:
  absl::Status ScoreAll(const Connection& connection,
                        const std::string& session);
  absl::Status Add(const v1::ScoreResponse& message);
  absl::Status FinishFiles();
  Json Results() const;

  InputOptions input_{"text"};
  std::optional<std::string> session_id_;
  std::optional<uint64_t> expected_position_;
  std::optional<std::string> logits_path_;
  std::optional<std::string> logprobs_path_;
  bool json_ = false;

  std::optional<Input> given_;
  std::optional<NpyWriter> logits_;
  std::optional<NpyWriter> logprobs_;
  ScoreTotals totals_;
};

absl::Status ScoreCommand::Prepare(const std::vector<std::string>& arguments) {
  const absl::Status taken = input_.TakeArguments(arguments);
  if (!taken.ok()) return taken;
  if (expected_position_ && !session_id_) {
    return absl::InvalidArgumentError("--expected_position needs --session");
  }
  auto input = input_.Read();
  if (!input.ok()) return input.status();
  given_ = *std::move(input);
  if (!given_ || Length(*given_) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("nothing to score: give one of ", input_.Names()));
  }
  const auto open = [](const std::optional<std::string>& path,
                       NpyWriter::Shape shape,
                       std::optional<NpyWriter>& writer) -> absl::Status {
    if (!path) return absl::OkStatus();
    auto opened = NpyWriter::Open(*path, shape);
    if (!opened.ok()) return opened.status();
    writer.emplace(*std::move(opened));
    return absl::OkStatus();
  };
  const absl::Status opened =
      open(logits_path_, NpyWriter::Shape::kMatrix, logits_);
  if (!opened.ok()) return opened;
  return open(logprobs_path_, NpyWriter::Shape::kVector, logprobs_);
}

absl::Status ScoreCommand::Run(const Connection& connection) {
  absl::Status scored;
  if (session_id_ || Length(*given_) > kScorePiece) {
    // One session carries the state from piece to piece.
    const auto use = SessionUse::Open(connection, session_id_);
    if (!use.ok()) return use.status();
    scored = ScoreAll(connection, use->session().name());
  } else {
    scored = ScoreAll(connection, /*session=*/"");
  }
  if (!scored.ok()) return scored;
  const absl::Status written = FinishFiles();
  if (!written.ok()) return written;
  return json_ ? PrintJson(Results()) : Print(FormatLines(Results()));
}

absl::Status ScoreCommand::ScoreAll(const Connection& connection,
                                    const std::string& session) {
  const bool is_text = std::holds_alternative<std::string>(*given_);
  ProgressBar bar("score", is_text ? "bytes" : "tokens", Length(*given_),
                  ProgressBar::StandardError());
  std::optional<uint64_t> position = expected_position_;
  size_t done = 0;
  for (const Input& piece : Cut(*given_, kScorePiece)) {
    v1::ScoreRequest request;
    request.set_session(session);
    SetInput(piece, request);
    if (position) request.set_expected_position(*position);
    request.set_logits(logits_.has_value());
    size_t seen = 0;
    const absl::Status scored = connection.client.Score(
        request,
        [&](const v1::ScoreResponse& message) {
          // A token is at least a byte, whatever the tokenizer.
          seen += static_cast<size_t>(message.tokens_size());
          bar.Update(done + seen);
          return Add(message);
        },
        connection.call);
    if (!scored.ok()) return scored;
    done += Length(piece);
    if (!session.empty()) position = totals_.position;
  }
  return absl::OkStatus();
}

absl::Status ScoreCommand::Add(const v1::ScoreResponse& message) {
  for (const auto& token : message.tokens()) {
    if (logits_) {
      const absl::Status written = logits_->Append(
          {token.logits().data(), static_cast<size_t>(token.logits_size())});
      if (!written.ok()) return written;
    }
    if (logprobs_) {
      const float logprob = token.has_logprob()
                                ? token.logprob()
                                : std::numeric_limits<float>::quiet_NaN();
      const absl::Status written = logprobs_->Append({&logprob, 1});
      if (!written.ok()) return written;
    }
  }
  if (message.has_summary()) {
    totals_.tokens += message.summary().tokens();
    totals_.scored_tokens += message.summary().scored_tokens();
    totals_.total_logprob += message.summary().total_logprob();
    totals_.position = message.summary().position();
  }
  return absl::OkStatus();
}

absl::Status ScoreCommand::FinishFiles() {
  for (auto* writer : {&logits_, &logprobs_}) {
    if (!*writer) continue;
    const absl::Status written = (*writer)->Finish();
    if (!written.ok()) return written;
  }
  return absl::OkStatus();
}

Json ScoreCommand::Results() const {
  Json json{{"tokens", totals_.tokens},
            {"scored_tokens", totals_.scored_tokens},
            {"total_logprob", totals_.total_logprob},
            {"position", totals_.position}};
  if (totals_.scored_tokens == 0) return json;
  const double bits_per_token = -totals_.total_logprob / std::log(2.0) /
                                static_cast<double>(totals_.scored_tokens);
  json["bits_per_token"] = bits_per_token;
  if (std::holds_alternative<std::string>(*given_)) {
    json["bits_per_byte"] = bits_per_token *
                            static_cast<double>(totals_.tokens) /
                            static_cast<double>(Length(*given_));
  }
  return json;
}

}  // namespace

std::unique_ptr<Command> MakeScoreCommand() {
  return std::make_unique<ScoreCommand>();
}

namespace {

class EmbedCommand : public Command {
 public:
  CommandText text() const override {
    return {"embed", "[TEXT]", "Gives the model's hidden vectors of a text",
            "Writes the hidden vectors, after the final norm, as a NumPy file, "
            "float32 [vectors, width]; without --out prints them as JSON. By "
            "default there is one for each token, which sees what is before "
            "it. With --bidirectional each sees the whole text, for models to "
            "which order does not matter. The text travels in one message, "
            "which the server bounds. Without --session nothing is left "
            "behind.",
            "  steadystate embed 'The database is open.' --pooling mean\n"
            "  steadystate embed --text_file book.txt --out hidden.npy\n"
            "  steadystate embed --token_ids_file ids.json --bidirectional "
            "--out hidden.npy\n"};
  }

  OptionTable options() override {
    OptionTable table;
    input_.AppendTo(table);
    const OptionTable own = {
        {"session", "ID", "Goes on from this session, which absorbs the text.",
         &session_id_, 's'},
        {"expected_position", "N",
         "Refuses to begin unless the session is at this position.",
         &expected_position_},
        {"pooling", "none|mean|last",
         "Each token's vector, their mean, or the last. Default none.",
         &pooling_},
        {"bidirectional", "", "Lets every token see the whole text.",
         &bidirectional_},
        {"out", "FILE", "Where the vectors go.", &path_},
        {"json", "", "Prints the results as a JSON object.", &json_},
    };
    table.insert(table.end(), own.begin(), own.end());
    return table;
  }

  absl::Duration default_timeout() const override {
    return absl::InfiniteDuration();
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override;
  absl::Status Run(const Connection& connection) override;

 private:
  absl::Status SetPooling();
  absl::Status Add(const v1::EmbedResponse& message);

  InputOptions input_{"text"};
  std::optional<std::string> session_id_;
  std::optional<uint64_t> expected_position_;
  std::string pooling_ = "none";
  std::optional<std::string> path_;
  bool bidirectional_ = false;
  bool json_ = false;

  v1::EmbedRequest request_;
  size_t length_ = 0;  // of the input
  std::optional<NpyWriter> writer_;
  Json vectors_ = Json::array();
  v1::EmbedResponse::Summary summary_;
};

absl::Status EmbedCommand::SetPooling() {
  if (pooling_ == "mean") {
    request_.set_pooling(v1::MEAN);
  } else if (pooling_ == "last") {
    request_.set_pooling(v1::LAST);
  } else if (pooling_ != "none") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--pooling is ", pooling_, "; it must be none, mean or last"));
  }
  return absl::OkStatus();
}

absl::Status EmbedCommand::Prepare(const std::vector<std::string>& arguments) {
  const absl::Status taken = input_.TakeArguments(arguments);
  if (!taken.ok()) return taken;
  if (expected_position_ && !session_id_) {
    return absl::InvalidArgumentError("--expected_position needs --session");
  }
  if (bidirectional_ && session_id_) {
    return absl::InvalidArgumentError(
        "--bidirectional has no --session: a session cannot see what comes");
  }
  const absl::Status pooling = SetPooling();
  if (!pooling.ok()) return pooling;
  const auto input = input_.Read();
  if (!input.ok()) return input.status();
  if (!*input || Length(**input) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("nothing to embed: give one of ", input_.Names()));
  }
  length_ = Length(**input);
  SetInput(**input, request_);
  request_.set_bidirectional(bidirectional_);
  if (!path_) return absl::OkStatus();
  auto opened = NpyWriter::Open(*path_, NpyWriter::Shape::kMatrix);
  if (!opened.ok()) return opened.status();
  writer_.emplace(*std::move(opened));
  return absl::OkStatus();
}

absl::Status EmbedCommand::Run(const Connection& connection) {
  if (session_id_) request_.set_session(SessionName(*session_id_));
  if (expected_position_) {
    request_.set_expected_position(*expected_position_);
  }
  {
    ProgressBar bar("embed", request_.has_text() ? "bytes" : "tokens", length_,
                    ProgressBar::StandardError());
    size_t seen = 0;
    const absl::Status embedded = connection.client.Embed(
        request_,
        [&](const v1::EmbedResponse& message) {
          // A token is at least a byte, whatever the tokenizer.
          seen += static_cast<size_t>(message.rows_size());
          bar.Update(seen);
          return Add(message);
        },
        connection.call);
    if (!embedded.ok()) return embedded;
  }
  Json json{{"tokens", summary_.tokens()}, {"position", summary_.position()}};
  if (writer_) {
    const absl::Status written = writer_->Finish();
    if (!written.ok()) return written;
  } else {
    json["hidden"] = std::move(vectors_);
  }
  return json_ ? PrintJson(json) : Print(FormatLines(json));
}

absl::Status EmbedCommand::Add(const v1::EmbedResponse& message) {
  for (const auto& row : message.rows()) {
    if (!writer_) {
      vectors_.push_back(
          std::vector<float>(row.hidden().begin(), row.hidden().end()));
      continue;
    }
    const absl::Status written = writer_->Append(
        {row.hidden().data(), static_cast<size_t>(row.hidden_size())});
    if (!written.ok()) return written;
  }
  if (message.has_summary()) summary_ = message.summary();
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Command> MakeEmbedCommand() {
  return std::make_unique<EmbedCommand>();
}

}  // namespace steadystate::client
