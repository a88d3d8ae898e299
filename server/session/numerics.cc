#include "server/session/numerics.h"

#include <cstddef>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/sha256.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

absl::StatusOr<std::string> DigestOf(absl::string_view text) {
  Sha256 digest;
  digest.Update(std::as_bytes(std::span(text.data(), text.size())));
  return digest.FinishHex();
}

// One line for each slot: two layouts with the same lines put the same numbers
// at the same bytes.
std::string Describe(const StateLayout& layout) {
  std::string lines;
  for (const StateSlot& slot : layout.slots()) {
    absl::StrAppend(&lines, slot.layer, " ", slot.name, " [",
                    absl::StrJoin(slot.shape, ", "), "] ", Name(slot.type), " ",
                    slot.offset, " ", slot.row_stride, "\n");
  }
  return lines;
}

}  // namespace

void Numerics::Add(absl::string_view name, absl::string_view value) {
  facts_.emplace_back(name, value);
}

std::string Numerics::ToString() const {
  return absl::StrJoin(facts_, " ", absl::PairFormatter("="));
}

absl::StatusOr<std::string> Numerics::Fingerprint() const {
  return DigestOf(absl::StrCat(
      absl::StrJoin(facts_, "\n", absl::PairFormatter("=")), "\n"));
}

absl::StatusOr<Numerics> NumericsOf(const SessionLayout& layout) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::string slots,
      DigestOf(absl::StrCat("hidden ", layout.hidden_size(), "\n",
                            Describe(layout.state()))));
  Numerics numerics;
  numerics.Add("layout_version", absl::StrCat(kSessionLayoutVersion));
  numerics.Add("state_dtype", layout.state().dtype());
  numerics.Add("slots", slots);
  return numerics;
}

}  // namespace steadystate
