#ifndef STEADYSTATE_CLIENT_LOAD_LENGTHS_H_
#define STEADYSTATE_CLIENT_LOAD_LENGTHS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/load/random.h"

namespace steadystate::client {

// How many tokens prompts have, or answers. Immutable but for assignment.
class Lengths {
 public:
  // All of them `tokens`.
  Lengths(uint64_t tokens)  // NOLINT(google-explicit-constructor)
      : kind_(Kind::kConstant), least_(tokens), most_(tokens) {}

  // "128"; "uniform:LEAST:MOST", each length as often as any other; or
  // "lognormal:MEAN:STDDEV[:MOST]", whose logarithm is normal, as of texts that
  // people write: many are short and some are very long. Those beyond MOST, by
  // default ten times MEAN, are cut to it. INVALID_ARGUMENT, for people.
  static absl::StatusOr<Lengths> Parse(absl::string_view text);

  // As Parse takes it.
  std::string ToString() const;

  // The next length, in [least(), most()].
  uint64_t Draw(Random& random) const;

  uint64_t least() const { return least_; }
  uint64_t most() const { return most_; }
  // Of a lognormal distribution, before lengths beyond most() are cut.
  double mean() const;

 private:
  enum class Kind : uint8_t { kConstant, kUniform, kLognormal };

  Lengths(Kind kind, uint64_t least, uint64_t most)
      : kind_(kind), least_(least), most_(most) {}

  static absl::StatusOr<Lengths> Uniform(absl::string_view text);
  static absl::StatusOr<Lengths> Lognormal(absl::string_view text);

  Kind kind_;
  uint64_t least_;
  uint64_t most_;
  // Lognormal.
  double mean_ = 0;
  double deviation_ = 0;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_LENGTHS_H_
