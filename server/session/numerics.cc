#include "server/session/numerics.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <span>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/sha256.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

absl::StatusOr<std::string> HexDigestOf(absl::string_view text) {
  Sha256 digest;
  digest.Update(std::as_bytes(std::span(text.data(), text.size())));
  return digest.FinishHex();
}

// One line for each slot: two layouts with the same lines put the same numbers
// at the same bytes.
std::string Describe(const StateLayout& layout) {
  std::string lines;
  for (const StateSlot& slot : layout.slots()) {
    const bool grows = slot.growth == SlotGrowth::kPerToken;
    const std::span<const size_t> shape(slot.shape);
    absl::StrAppend(&lines, slot.layer, " ", slot.name, " [",
                    absl::StrJoin(shape.subspan(grows ? 1 : 0), ", "), "] ",
                    Name(slot.type), " ", slot.offset, " ", slot.row_stride,
                    "\n");
  }
  return lines;
}

// One line for each shape of projection: how it is cut, and by what computed.
std::string Describe(const LinearReport& linear) {
  std::string lines;
  for (const LinearReport::Shape& shape : linear.shapes) {
    absl::StrAppend(&lines, shape.in, " ", shape.block, " [",
                    absl::StrJoin(shape.decode_tiles, ", "), "] [",
                    absl::StrJoin(shape.prefill_tiles, ", "), "] ",
                    shape.implementation, "\n");
  }
  return lines;
}

}  // namespace

void Numerics::Add(absl::string_view name, absl::string_view value) {
  facts_.emplace_back(name, value);
}

std::string Numerics::Find(absl::string_view name) const {
  const auto found =
      std::find_if(facts_.begin(), facts_.end(),
                   [name](const auto& fact) { return fact.first == name; });
  return found == facts_.end() ? std::string() : found->second;
}

std::string Numerics::ToString() const {
  return absl::StrJoin(facts_, " ", absl::PairFormatter("="));
}

std::string Difference(const Numerics& there, const Numerics& here) {
  std::map<absl::string_view, std::array<absl::string_view, 2>> values;
  for (const auto& [name, value] : there.facts()) values[name][0] = value;
  for (const auto& [name, value] : here.facts()) values[name][1] = value;
  const auto shown = [](absl::string_view value) {
    constexpr size_t kLongest = 24;
    constexpr size_t kShown = 8;  // of a digest
    if (value.empty()) return std::string("nothing");
    return value.size() <= kLongest
               ? absl::CHexEscape(value)
               : absl::StrCat(absl::CHexEscape(value.substr(0, kShown)), "...");
  };
  std::vector<std::string> differences;
  for (const auto& [name, both] : values) {
    if (both[0] == both[1]) continue;
    differences.push_back(absl::StrCat(absl::CHexEscape(name), "=",
                                       shown(both[0]), " (here ",
                                       shown(both[1]), ")"));
  }
  return absl::StrJoin(differences, ", ");
}

absl::StatusOr<std::string> Numerics::Fingerprint() const {
  return HexDigestOf(absl::StrCat(
      absl::StrJoin(facts_, "\n", absl::PairFormatter("=")), "\n"));
}

absl::StatusOr<Numerics> NumericsOf(const SessionLayout& layout) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::string slots,
      HexDigestOf(absl::StrCat("hidden ", layout.hidden_size(), "\n",
                               Describe(layout.state()))));
  Numerics numerics;
  numerics.Add("layout_version", absl::StrCat(kSessionLayoutVersion));
  numerics.Add(kStateDtypeFact, layout.state().dtype());
  numerics.Add("slots", slots);
  return numerics;
}

absl::StatusOr<Numerics> NumericsOf(const SessionLayout& layout,
                                    const ModelDescription& model,
                                    size_t prefill_rows) {
  STEADYSTATE_ASSIGN_OR_RETURN(Numerics numerics, NumericsOf(layout));
  const LinearReport& linear = model.linear;
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string projections,
                               HexDigestOf(Describe(linear)));
  numerics.Add("revision", absl::StrCat(kNumericsRevision));
  numerics.Add("weight_dtype", linear.weight_dtype);
  numerics.Add("isa", linear.isa);
  numerics.Add("onednn", linear.onednn_version);
  numerics.Add("kernel_target", model.kernel_target);
  numerics.Add("projections", projections);
  numerics.Add("prefill_rows", absl::StrCat(prefill_rows));
  return numerics;
}

}  // namespace steadystate
