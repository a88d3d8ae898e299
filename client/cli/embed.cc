// `steadystate embed`: the model's hidden vectors of a given text.

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/command.h"
#include "client/cli/input.h"
#include "client/cli/output.h"
#include "client/cli/session.h"

namespace steadystate::client {
namespace {

class EmbedCommand : public Command {
 public:
  CommandText text() const override {
    return {
        "embed", "", "Gives the model's hidden vectors of a text",
        "Writes the hidden vectors, after the final norm, as a NumPy file, "
        "float32 [vectors, width]; without --out prints them as JSON. By "
        "default there is one for each token, which sees what is before "
        "it. With --bidirectional each sees the whole text, for models to "
        "which order does not matter. The text travels in one message, "
        "which the server bounds. Without --session nothing is left "
        "behind.",
        "  steadystate embed --text 'The database is open.' --pooling mean\n"
        "  steadystate embed --text_file book.txt --out hidden.npy\n"
        "  steadystate embed --token_ids_file ids.json --bidirectional "
        "--out hidden.npy\n"};
  }

  OptionTable options() override {
    OptionTable table;
    input_.AppendTo(table);
    const OptionTable own = {
        {"session", "ID", "Goes on from this session, which absorbs the text.",
         &session_id_},
        {"expected_position", "N",
         "Refuses to begin unless the session is at this position.",
         &expected_position_},
        {"pooling", "HOW", "none (each vector, the default), mean or last.",
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
  if (!arguments.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unexpected '", arguments[0], "'; a text is given with --text"));
  }
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
