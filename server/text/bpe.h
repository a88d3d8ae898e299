#ifndef STEADYSTATE_SERVER_TEXT_BPE_H_
#define STEADYSTATE_SERVER_TEXT_BPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace steadystate {

// Byte-pair encoding, the "model" of a tokenizer.json: a word is cut into
// characters, then the neighbours whose merge comes first in the list become
// one token, the leftmost first, until none can. Immutable; thread-safe.
class Bpe {
 public:
  // Type "BPE" (UNIMPLEMENTED for others, as for dropout and for prefixes and
  // suffixes of subwords). INVALID_ARGUMENT for what is malformed: an id of
  // `vocab_size` or more or of two tokens, a merge of what is no token or into
  // none, an unknown token that is neither in the vocabulary nor among
  // `added_tokens`, the file's.
  static absl::StatusOr<Bpe> FromJson(const nlohmann::json& model,
                                      const nlohmann::json& added_tokens,
                                      size_t vocab_size);

  // Appends the ids of a word, in time O(n log n). Characters that the
  // vocabulary lacks become their bytes' tokens, else the unknown token, else
  // nothing.
  // REQUIRES: `word` is UTF-8.
  void AppendTokens(absl::string_view word, std::vector<int32_t>& to) const {
    AppendTokensBut({}, word, to);
  }

  // The same with a vocabulary that lacks the tokens `without`, by id; empty:
  // none. A single character that has no other spelling keeps its token.
  void AppendTokensBut(const std::vector<bool>& without, absl::string_view word,
                       std::vector<int32_t>& to) const;

  // Of a token as it is spelled in the file; -1 if there is none.
  int32_t IdOf(absl::string_view token) const;

  // The vocabulary as in the file.
  const absl::flat_hash_map<std::string, int32_t>& vocabulary() const {
    return vocabulary_;
  }
  bool byte_fallback() const { return byte_fallback_; }

 private:
  struct Merge {
    uint32_t rank;
    int32_t joined;
  };
  struct Symbol {
    int32_t token;
    // Indices of the neighbours; kNone at the ends.
    uint32_t previous;
    uint32_t next;
    bool gone;  // became a part of its left neighbour
  };

  absl::Status ReadVocabulary(const nlohmann::json& model, size_t vocab_size);
  absl::Status ReadMerges(const nlohmann::json& model);
  absl::Status ReadOptions(const nlohmann::json& model);
  absl::Status ReadUnknown(const nlohmann::json& model,
                           const nlohmann::json& added_tokens,
                           size_t vocab_size);
  absl::Status AddMerge(absl::string_view left, absl::string_view right,
                        uint32_t rank);
  static uint64_t PairOf(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 |
           static_cast<uint32_t>(right);
  }
  std::vector<Symbol> Symbols(const std::vector<bool>& without,
                              absl::string_view word) const;
  void MergeAll(const std::vector<bool>& without,
                std::vector<Symbol>& symbols) const;
  const Merge* FindMerge(int32_t left, int32_t right) const;
  // Appends the tokens of the bytes if each has one.
  bool AppendBytes(absl::string_view bytes, std::vector<int32_t>& to) const;

  absl::flat_hash_map<std::string, int32_t> vocabulary_;
  absl::flat_hash_map<uint64_t, Merge> merges_;  // by both tokens
  std::vector<int32_t> byte_tokens_;             // 256; -1: none
  std::optional<int32_t> unknown_;
  bool byte_fallback_ = false;
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_BPE_H_
