#include "server/text/tokenizer_factory.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "server/base/fetched_file.h"
#include "server/base/status_macros.h"
#include "server/text/marked_text.h"
#include "server/text/rwkv_tokenizer.h"

namespace steadystate {
namespace {

constexpr size_t kByteValues = 256;

class ByteTokenizer final : public Tokenizer {
 public:
  absl::string_view kind() const override { return "bytes"; }

  // Ids above the bytes are a model's own: what they are for, nobody says.
  bool HasToken(int32_t /*token*/) const override { return true; }

  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const override {
    std::vector<int32_t> tokens;
    tokens.reserve(text.size());
    for (const char byte : text) {
      tokens.push_back(static_cast<unsigned char>(byte));
    }
    return tokens;
  }

  // All of its tokens are text.
  absl::StatusOr<std::vector<int32_t>> EncodeParts(
      std::span<const TextPart> parts) const override {
    return Encode(Joined(parts));
  }

  void AppendBytes(int32_t token, std::string& to) const override {
    if (token < static_cast<int32_t>(kByteValues)) {
      to.push_back(static_cast<char>(token));
    }
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeByteTokenizer(
    size_t vocab_size) {
  if (vocab_size < kByteValues) {
    return absl::InvalidArgumentError(
        absl::StrCat("a vocabulary of ", vocab_size,
                     " tokens; the byte tokenizer needs ", kByteValues));
  }
  return std::make_unique<ByteTokenizer>();
}

namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;

using Made = absl::StatusOr<std::unique_ptr<Tokenizer>>;

// For people who have a tokenizer in a form that is not read.
std::string NeedsJson(absl::string_view directory) {
  return absl::StrCat(
      "a tokenizer.json is needed; transformers writes one of the forms that "
      "it knows: `t = AutoTokenizer.from_pretrained(\"",
      directory, "\"); t.save_pretrained(\"", directory, "\")`");
}

// Lines of a token in base64 and its rank, as tiktoken's, which some models
// call tokenizer.model, too. SentencePiece's begin with a byte of no letter.
bool IsTiktoken(absl::string_view text) {
  const absl::string_view line = text.substr(0, text.find('\n'));
  const size_t space = line.find(' ');
  if (space == absl::string_view::npos || space == 0) return false;
  std::string token;
  uint32_t rank = 0;
  return absl::Base64Unescape(line.substr(0, space), &token) &&
         absl::SimpleAtoi(line.substr(space + 1), &rank);
}

Made MakeFromText(absl::string_view name, const std::string& text,
                  const std::string& path, size_t vocab_size,
                  std::vector<std::string>& warnings) {
  if (name == "tokenizer.json") {
    return MakeJsonTokenizer(text, path, vocab_size, warnings);
  }
  if (name == "tokenizer.model") {
    if (IsTiktoken(text)) {
      return absl::UnimplementedError(absl::StrCat(
          path,
          " is a list of tokens as tiktoken has it, not SentencePiece's: ",
          NeedsJson(std::filesystem::path(path).parent_path().string())));
    }
    return MakeSentencePieceTokenizer(text, path, vocab_size);
  }
  return MakeRwkvTokenizer(text, path, vocab_size);
}

// The names of the tokenizers' files in a directory, in the order of trying.
std::vector<std::string> FilesOf(const std::string& directory) {
  std::vector<std::string> rwkv;
  std::error_code ignored;
  bool has_json = false;
  bool sentencepiece = false;
  for (const auto& entry :
       std::filesystem::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    has_json |= name == "tokenizer.json";
    sentencepiece |= name == "tokenizer.model";
    if (absl::StartsWith(name, "rwkv_vocab_") && absl::EndsWith(name, ".txt")) {
      rwkv.push_back(name);
    }
  }
  // The names end in dates: the newest first.
  std::sort(rwkv.rbegin(), rwkv.rend());
  if (sentencepiece) rwkv.insert(rwkv.begin(), "tokenizer.model");
  if (has_json) rwkv.insert(rwkv.begin(), "tokenizer.json");
  return rwkv;
}

// What to tell of a directory with no file of a tokenizer that is read: the
// files of another form, if there are any.
std::vector<std::string> WarningsOfOtherForms(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name == "vocab.json" || name == "tekken.json" ||
        absl::EndsWith(name, ".tiktoken") || name == "tiktoken.model") {
      names.push_back(name);
    }
  }
  if (names.empty()) return {};
  std::ranges::sort(names);
  return {absl::StrCat("no tokenizer: ", absl::StrJoin(names, ", "),
                       " is not read; ", NeedsJson(directory))};
}

}  // namespace

absl::StatusOr<TokenizerChoice> MakeTokenizer(const std::string& directory,
                                              bool bytes, size_t vocab_size) {
  TokenizerChoice choice;
  if (bytes) {
    STEADYSTATE_ASSIGN_OR_RETURN(choice.tokenizer,
                                 MakeByteTokenizer(vocab_size));
    return choice;
  }
  const std::vector<std::string> files = FilesOf(directory);
  if (files.empty()) choice.warnings = WarningsOfOtherForms(directory);
  for (const std::string& name : files) {
    const std::string path = absl::StrCat(directory, "/", name);
    STEADYSTATE_ASSIGN_OR_RETURN(const std::optional<std::string> text,
                                 ReadModelFile(path, kMaxFileBytes));
    if (!text.has_value()) continue;
    Made made = MakeFromText(name, *text, path, vocab_size, choice.warnings);
    if (made.ok()) {
      choice.tokenizer = *std::move(made);
      return choice;
    }
    if (!absl::IsUnimplemented(made.status())) return made.status();
    choice.warnings.push_back(
        absl::StrCat("not used as the tokenizer: ", made.status().message()));
  }
  return choice;
}

}  // namespace steadystate
