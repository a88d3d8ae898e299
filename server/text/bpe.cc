#include "server/text/bpe.h"

#include <queue>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "server/base/status_macros.h"
#include "server/text/json_fields.h"
#include "server/text/unicode.h"

namespace steadystate {

// Bpe::FromJson.

namespace {

using nlohmann::json;

// Bounds the text of a list of tokens. Runs of spaces are the longest in use,
// up to a thousand bytes.
constexpr size_t kMaxTokenBytes = 8192;

// A token's spelling, shortened, for a message.
std::string Quoted(absl::string_view token) {
  return absl::StrCat("\"", token.substr(0, 80), "\"");
}

absl::Status RefuseText(const json& model, absl::string_view name) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string text,
                               StringMember(model, name, ""));
  if (text.empty()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("the model's '", name, "' is ",
                                               Quoted(text),
                                               "; only none is supported"));
}

}  // namespace

absl::StatusOr<Bpe> Bpe::FromJson(const json& model, const json& added_tokens,
                                  size_t vocab_size) {
  if (!model.is_object()) {
    return absl::InvalidArgumentError("'model' is no object");
  }
  // Files older than 2020 have no type; then it is told by what there is.
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::string type,
      StringMember(model, "type", model.contains("merges") ? "BPE" : ""));
  if (type != "BPE") return UnsupportedType("a model", type);
  Bpe bpe;
  STEADYSTATE_RETURN_IF_ERROR(bpe.ReadVocabulary(model, vocab_size));
  STEADYSTATE_RETURN_IF_ERROR(bpe.ReadOptions(model));
  STEADYSTATE_RETURN_IF_ERROR(bpe.ReadUnknown(model, added_tokens, vocab_size));
  STEADYSTATE_RETURN_IF_ERROR(bpe.ReadMerges(model));
  return bpe;
}

absl::Status Bpe::ReadVocabulary(const json& model, size_t vocab_size) {
  const auto& vocabulary = MemberOrNull(model, "vocab");
  if (!vocabulary.is_object()) {
    return absl::InvalidArgumentError("the model's 'vocab' is no object");
  }
  vocabulary_.reserve(vocabulary.size());
  std::vector<bool> taken(vocab_size);
  for (const auto& [token, value] : vocabulary.items()) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= vocab_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "token ", Quoted(token), " has the id ", value.dump().substr(0, 40),
          ", not one in [0, ", vocab_size, "), the model's vocab_size"));
    }
    const auto id = value.get<uint64_t>();
    if (taken[id]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "token ", Quoted(token), " has the id ", id, " of another token"));
    }
    if (token.size() > kMaxTokenBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", id, " has ", token.size(), " bytes, at most ",
                       kMaxTokenBytes));
    }
    taken[id] = true;
    vocabulary_.emplace(token, static_cast<int32_t>(id));
  }
  for (int byte = 0; byte < 256; ++byte) {
    byte_tokens_.push_back(IdOf(absl::StrFormat("<0x%02X>", byte)));
  }
  return absl::OkStatus();
}

absl::Status Bpe::ReadOptions(const json& model) {
  STEADYSTATE_RETURN_IF_ERROR(RefuseText(model, "continuing_subword_prefix"));
  STEADYSTATE_RETURN_IF_ERROR(RefuseText(model, "end_of_word_suffix"));
  const auto& dropout = MemberOrNull(model, "dropout");
  if (!dropout.is_null() && (!dropout.is_number() || dropout != 0)) {
    return absl::UnimplementedError(absl::StrCat("the model's 'dropout' is ",
                                                 dropout.dump().substr(0, 40),
                                                 "; only none is supported"));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(byte_fallback_,
                               BoolMember(model, "byte_fallback", false));
  STEADYSTATE_ASSIGN_OR_RETURN(fuse_unknown_,
                               BoolMember(model, "fuse_unk", false));
  STEADYSTATE_ASSIGN_OR_RETURN(ignore_merges_,
                               BoolMember(model, "ignore_merges", false));
  return absl::OkStatus();
}

// The library fails at the first unknown character where the token is an added
// one alone; here that stands for the character all the same.
absl::Status Bpe::ReadUnknown(const json& model, const json& added_tokens,
                              size_t vocab_size) {
  if (MemberOrNull(model, "unk_token").is_null()) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string unknown,
                               StringMember(model, "unk_token"));
  unknown_ = IdOf(unknown);
  if (*unknown_ >= 0) return absl::OkStatus();
  for (const json& added : added_tokens) {
    if (MemberOrNull(added, "content") != unknown) continue;
    STEADYSTATE_ASSIGN_OR_RETURN(unknown_,
                                 IndexMember(added, "id", vocab_size));
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the model's 'unk_token' ", Quoted(unknown), " is no token"));
}

// A merge is "a b" or, in files of 2024 and later, ["a", "b"].
absl::Status Bpe::ReadMerges(const json& model) {
  const auto& merges = MemberOrNull(model, "merges");
  if (!merges.is_array()) {
    return absl::InvalidArgumentError("the model's 'merges' is no array");
  }
  merges_.reserve(merges.size());
  uint32_t rank = 0;
  for (const auto& merge : merges) {
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      if (absl::StartsWith(text, "#version")) continue;
      const std::vector<absl::string_view> both = absl::StrSplit(text, ' ');
      if (both.size() == 2) {
        STEADYSTATE_RETURN_IF_ERROR(AddMerge(both[0], both[1], rank++));
        continue;
      }
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      STEADYSTATE_RETURN_IF_ERROR(
          AddMerge(merge[0].get_ref<const std::string&>(),
                   merge[1].get_ref<const std::string&>(), rank++));
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "the merge ", merge.dump().substr(0, 80), " is not a pair of tokens"));
  }
  return absl::OkStatus();
}

absl::Status Bpe::AddMerge(absl::string_view left, absl::string_view right,
                           uint32_t rank) {
  const std::string joined = absl::StrCat(left, right);
  for (const absl::string_view part :
       {left, right, absl::string_view(joined)}) {
    if (IdOf(part) >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the merge of ", Quoted(left), " and ", Quoted(right),
                     " needs ", Quoted(part), ", which is no token"));
  }
  // Of a pair that is listed twice the reference library keeps the last.
  merges_[PairOf(IdOf(left), IdOf(right))] = {rank, IdOf(joined)};
  return absl::OkStatus();
}

namespace {

constexpr uint32_t kNone = UINT32_MAX;

// A merge that may be done: of the symbol at `at` and the one after it.
struct Candidate {
  uint32_t rank;
  uint32_t at;
  int32_t joined;

  // std::priority_queue has the greatest on top: the lowest rank, and of equal
  // ones the leftmost.
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : at > other.at;
  }
};

bool IsIn(const std::vector<bool>& tokens, int32_t token) {
  return static_cast<size_t>(token) < tokens.size() &&
         tokens[static_cast<size_t>(token)];
}

}  // namespace

int32_t Bpe::IdOf(absl::string_view token) const {
  const auto found = vocabulary_.find(token);
  return found == vocabulary_.end() ? -1 : found->second;
}

const Bpe::Merge* Bpe::FindMerge(int32_t left, int32_t right) const {
  const auto found = merges_.find(PairOf(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

bool Bpe::AppendBytes(absl::string_view bytes, std::vector<int32_t>& to) const {
  for (const char byte : bytes) {
    if (byte_tokens_[static_cast<unsigned char>(byte)] < 0) return false;
  }
  for (const char byte : bytes) {
    to.push_back(byte_tokens_[static_cast<unsigned char>(byte)]);
  }
  return true;
}

// Where the unknown token goes is the reference library's order: it waits for
// the next character that the vocabulary has, behind tokens of bytes.
std::vector<Bpe::Symbol> Bpe::Symbols(const std::vector<bool>& without,
                                      absl::string_view word) const {
  std::vector<int32_t> tokens;
  tokens.reserve(word.size());
  bool waiting = false;
  const auto let_unknown_in = [&] {
    if (waiting) tokens.push_back(*unknown_);
    waiting = false;
  };
  while (!word.empty()) {
    const absl::string_view character =
        word.substr(0, FirstCharacter(word).bytes);
    word.remove_prefix(character.size());
    const int32_t token = IdOf(character);
    if (token >= 0 && IsIn(without, token) && byte_fallback_ &&
        AppendBytes(character, tokens)) {
      continue;
    }
    if (token >= 0) {
      let_unknown_in();
      tokens.push_back(token);
    } else if (byte_fallback_ && AppendBytes(character, tokens)) {
      continue;
    } else if (unknown_.has_value()) {
      if (!fuse_unknown_) let_unknown_in();
      waiting = true;
    }
  }
  let_unknown_in();
  std::vector<Symbol> symbols(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto index = static_cast<uint32_t>(i);
    symbols[i] = {tokens[i], i == 0 ? kNone : index - 1,
                  i + 1 == tokens.size() ? kNone : index + 1, false};
  }
  return symbols;
}

// A candidate is outdated if a neighbour was merged away meanwhile. As in the
// reference library, one that would still give the same token is done.
void Bpe::MergeAll(const std::vector<bool>& without,
                   std::vector<Symbol>& symbols) const {
  std::priority_queue<Candidate> candidates;
  const auto consider = [&](uint32_t at) {
    if (at == kNone || symbols[at].next == kNone) return;
    const Merge* merge =
        FindMerge(symbols[at].token, symbols[symbols[at].next].token);
    if (merge == nullptr || IsIn(without, merge->joined)) return;
    candidates.push({merge->rank, at, merge->joined});
  };
  for (uint32_t at = 0; at < symbols.size(); ++at) consider(at);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Symbol& left = symbols[best.at];
    if (left.gone || left.next == kNone) continue;
    Symbol& right = symbols[left.next];
    const Merge* merge = FindMerge(left.token, right.token);
    if (merge == nullptr || merge->joined != best.joined) continue;
    left.token = best.joined;
    left.next = right.next;
    right.gone = true;
    if (left.next != kNone) symbols[left.next].previous = best.at;
    consider(left.previous);
    consider(best.at);
  }
}

void Bpe::AppendTokensBut(const std::vector<bool>& without,
                          absl::string_view word,
                          std::vector<int32_t>& to) const {
  if (ignore_merges_) {
    const int32_t whole = IdOf(word);
    if (whole >= 0 && !IsIn(without, whole)) {
      to.push_back(whole);
      return;
    }
  }
  std::vector<Symbol> symbols = Symbols(without, word);
  MergeAll(without, symbols);
  for (const Symbol& symbol : symbols) {
    if (!symbol.gone) to.push_back(symbol.token);
  }
}

}  // namespace steadystate
