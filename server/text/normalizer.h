#ifndef STEADYSTATE_SERVER_TEXT_NORMALIZER_H_
#define STEADYSTATE_SERVER_TEXT_NORMALIZER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "server/text/marked_text.h"
#include "server/text/unicode.h"

namespace steadystate {

// The "normalizer" of a tokenizer.json: steps that change text before it is
// looked up. Immutable; thread-safe.
class Normalizer {
 public:
  // From null (no step), "NFC", "NFD", "NFKC", "NFKD", "Prepend", "Replace",
  // "Strip", "ByteLevel" or a "Sequence" of such. UNIMPLEMENTED for others,
  // INVALID_ARGUMENT for what is malformed.
  static absl::StatusOr<Normalizer> FromJson(const nlohmann::json& description);

  // Errors as Regex::Cut. REQUIRES: `text` is UTF-8. So is the result.
  absl::StatusOr<std::string> Normalize(std::string text) const;

  // The same, with the marks of what comes out: a byte is literal if a byte is
  // that it was made of.
  absl::StatusOr<MarkedText> Normalize(MarkedText text) const;

  // How long Normalize can make a text.
  const Growth& growth() const { return growth_; }

 private:
  absl::Status Add(const nlohmann::json& description);

  std::vector<std::function<absl::StatusOr<MarkedText>(MarkedText)>> steps_;
  Growth growth_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_NORMALIZER_H_
