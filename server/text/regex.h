#ifndef STEADYSTATE_SERVER_TEXT_REGEX_H_
#define STEADYSTATE_SERVER_TEXT_REGEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace steadystate {

// A stretch of a text: matched by a pattern, or between matches.
struct Stretch {
  absl::string_view text;
  bool matched;
};

// What searches with patterns may take together while a tokenizer is read: as
// long as it lives, those of the thread that made it take from it. Each takes a
// few dozen steps at least; those for literals take none.
class SearchBudget {
 public:
  // REQUIRES: the thread has no other.
  explicit SearchBudget(uint64_t steps);
  ~SearchBudget();
  SearchBudget(const SearchBudget&) = delete;
  SearchBudget& operator=(const SearchBudget&) = delete;

 private:
  friend class RegexSearch;
  const uint64_t steps_;
  uint64_t left_;
};

// A regular expression as tokenizer.json files have them: Oniguruma's Ruby
// syntax over Unicode. Run by PCRE2, whose project lives on while Oniguruma's
// has ended, and which bounds what a search may take. Immutable; thread-safe.
class Regex {
 public:
  // INVALID_ARGUMENT if the pattern is none; UNIMPLEMENTED if it has something
  // that the two libraries take differently and that is not translated: \w, \b,
  // \h, \R, \X, \G, \K, anchors by letter, back references, named groups,
  // inline flags but (?i:), intersections, classes within classes, looks
  // behind of no fixed length, and properties that are neither categories, by
  // their short or long names, nor scripts that PCRE2 knows.
  static absl::StatusOr<Regex> Compile(absl::string_view pattern);

  // A pattern that matches `text` itself.
  static absl::StatusOr<Regex> OfLiteral(absl::string_view text);

  // Cuts `text` into matches, leftmost first, and what lies between. A match of
  // nothing is an empty part, but right behind another match it is none; in a
  // text of nothing there is none. The parts point into `text`. Categories of
  // characters are those of the library (unicode.h). INVALID_ARGUMENT if one
  // search takes more than kMaxSteps, or than kMaxHeapKib of memory to go back
  // by: patterns come with checkpoints and texts from clients, and some pairs
  // of them take time exponential in the text's length. Also if the thread's
  // SearchBudget is spent. REQUIRES: `text` is UTF-8.
  absl::StatusOr<std::vector<Stretch>> Cut(absl::string_view text) const;

  // The least that a match of Cut has: characters, so bytes, too. 0 if it may
  // be empty.
  size_t least_match() const;

  static constexpr unsigned kMaxSteps = 20'000'000;
  static constexpr unsigned kMaxHeapKib = 64 << 10;

 private:
  struct Free {
    void operator()(void* code) const;
  };
  Regex(void* code, bool literal) : code_(code), literal_(literal) {}

  std::unique_ptr<void, Free> code_;  // a pcre2_code
  bool literal_;                      // made by OfLiteral
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_REGEX_H_
