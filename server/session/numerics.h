#ifndef STEADYSTATE_SERVER_SESSION_NUMERICS_H_
#define STEADYSTATE_SERVER_SESSION_NUMERICS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/model/model.h"
#include "server/session/session_state.h"

namespace steadystate {

// What decides the bits of a session's state, beside the model that the model's
// own fingerprint names: a state goes on to the bit only under equal numerics.
// Thread-compatible.
class Numerics {
 public:
  // Adds a fact. `name` and `value` have no line end, and `name` no '='.
  void Add(absl::string_view name, absl::string_view value);

  // In the order in which they were added.
  const std::vector<std::pair<std::string, std::string>>& facts() const {
    return facts_;
  }

  // The value of the first fact of that name; empty without one.
  std::string Find(absl::string_view name) const;

  // The facts as "name=value", a blank between two, for people.
  std::string ToString() const;

  // SHA-256 of the facts in their order, a line "name=value" for each: 64
  // lower-case hexadecimal digits. INTERNAL as Sha256::FinishHex.
  absl::StatusOr<std::string> Fingerprint() const;

 private:
  std::vector<std::pair<std::string, std::string>> facts_;
};

// In what `there` is not as `here`: "isa=avx2 (here avx512), ..."; what neither
// names, or both name alike, is left out, and long values are cut short.
std::string Difference(const Numerics& there, const Numerics& here);

// The fact that names what states are kept in.
inline constexpr absl::string_view kStateDtypeFact = "state_dtype";

// The version of how a session lies in its slot. Raised whenever the same
// layout comes to mean other bytes.
inline constexpr int kSessionLayoutVersion = 1;

// Raised whenever a change of ours to what is computed changes bits.
inline constexpr int kNumericsRevision = 3;

// The numerics of sessions of this layout: its version, what states are kept
// in ("f32", "f32+f64"), and a digest of where every slot lies. How many tokens
// softmax layers hold decides nothing. INTERNAL as Sha256::FinishHex.
absl::StatusOr<Numerics> NumericsOf(const SessionLayout& layout);

// And of what computes them: our revision, the weights' type, the instruction
// sets, oneDNN's version, how projections are cut and by what they are computed
// (a digest), and how prompts are cut, `prefill_rows`.
absl::StatusOr<Numerics> NumericsOf(const SessionLayout& layout,
                                    const ModelDescription& model,
                                    size_t prefill_rows);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_NUMERICS_H_
