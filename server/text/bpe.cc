#include "server/text/bpe.h"

#include <queue>
#include <utility>

#include "server/text/utf8.h"

namespace steadystate {
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
std::vector<Bpe::Symbol> Bpe::Symbols(absl::string_view word) const {
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
void Bpe::MergeAll(std::vector<Symbol>& symbols) const {
  std::priority_queue<Candidate> candidates;
  const auto consider = [&](uint32_t at) {
    if (at == kNone || symbols[at].next == kNone) return;
    const Merge* merge =
        FindMerge(symbols[at].token, symbols[symbols[at].next].token);
    if (merge != nullptr) candidates.push({merge->rank, at, merge->joined});
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

void Bpe::AppendTokens(absl::string_view word, std::vector<int32_t>& to) const {
  if (ignore_merges_) {
    const int32_t whole = IdOf(word);
    if (whole >= 0) {
      to.push_back(whole);
      return;
    }
  }
  std::vector<Symbol> symbols = Symbols(word);
  MergeAll(symbols);
  for (const Symbol& symbol : symbols) {
    if (!symbol.gone) to.push_back(symbol.token);
  }
}

}  // namespace steadystate
