#include "server/text/rwkv_tokenizer.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/base/status_macros.h"
#include "server/text/prefix_table.h"
#include "server/text/python_literal.h"

namespace steadystate {
namespace {

// Bounds the time for a text; the vocabulary in use has 128.
constexpr size_t kMaxTokenBytes = 1024;

class RwkvTokenizer final : public Tokenizer {
 public:
  // `bytes` has one entry per id, empty for ids that are no token's.
  explicit RwkvTokenizer(std::vector<std::string> bytes)
      : table_(EntriesOf(bytes)), bytes_(std::move(bytes)) {}

  absl::string_view kind() const override { return "rwkv"; }

  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const override {
    std::vector<int32_t> tokens;
    tokens.reserve(text.size() / 3);
    while (!text.empty()) {
      const PrefixTable::Match match = table_.Longest(text);
      tokens.push_back(match.token);
      text.remove_prefix(match.bytes);
    }
    return tokens;
  }

  void AppendBytes(int32_t token, std::string& to) const override {
    to += bytes_[static_cast<size_t>(token)];
  }

  // True if `byte` alone is a token.
  bool Has(char byte) const {
    return table_.Longest(absl::string_view(&byte, 1)).bytes == 1;
  }

 private:
  static std::vector<PrefixTable::Entry> EntriesOf(
      const std::vector<std::string>& bytes) {
    std::vector<PrefixTable::Entry> entries;
    for (size_t id = 0; id < bytes.size(); ++id) {
      if (bytes[id].empty()) continue;
      entries.push_back({bytes[id], static_cast<int32_t>(id)});
    }
    return entries;
  }

  const PrefixTable table_;
  const std::vector<std::string> bytes_;
};

// Reads `line` into the entry of its id.
absl::Status ReadLine(absl::string_view line, std::vector<std::string>& bytes) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  size_t id = 0;
  size_t length = 0;
  if (first == absl::string_view::npos || first == last ||
      !absl::SimpleAtoi(line.substr(0, first), &id) ||
      !absl::SimpleAtoi(line.substr(last + 1), &length)) {
    return absl::InvalidArgumentError("not an id, a literal and a length");
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      std::string token,
      ParsePythonLiteral(line.substr(first + 1, last - first - 1)));
  if (token.size() != length || length == 0 || length > kMaxTokenBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a token of ", token.size(), " bytes that is said to have ", length,
        ", of 1 to ", kMaxTokenBytes));
  }
  if (id >= bytes.size() || !bytes[id].empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the id ", id, ", which is given twice or beyond the model's ",
        bytes.size(), " tokens"));
  }
  bytes[id] = std::move(token);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeRwkvTokenizer(
    absl::string_view text, absl::string_view what, size_t vocab_size) {
  std::vector<std::string> bytes(vocab_size);
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    absl::ConsumeSuffix(&line, "\r");
    if (line.empty()) continue;
    const absl::Status read = ReadLine(line, bytes);
    if (!read.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ", line ", number, ": ", read.message()));
    }
  }
  auto tokenizer = std::make_unique<RwkvTokenizer>(std::move(bytes));
  for (int byte = 0; byte < 256; ++byte) {
    if (!tokenizer->Has(static_cast<char>(byte))) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": the byte ", byte, " is no token"));
    }
  }
  return tokenizer;
}

}  // namespace steadystate
