#include "server/model/registry.h"

#include <algorithm>
#include <vector>

#include "server/model/mixers/mixers.h"

namespace steadystate {
namespace {

std::vector<Family> AllFamilies() {
  std::vector<Family> all = {DeltaNetFamily(),    GatedDeltanetFamily(),
                             GlaFamily(),         HgrnFamily(),
                             Hgrn2Family(),       KdaFamily(),
                             LinearAttnFamily(),  LinearRecurrenceFamily(),
                             MambaFamily(),       Mamba2Family(),
                             RetnetFamily(),      Rwkv6Family(),
                             Rwkv7Family(),       SimpleGlaFamily(),
                             TransformerFamily(), XlstmFamily()};
  std::ranges::sort(all, {}, &Family::model_type);
  return all;
}

}  // namespace

std::span<const Family> Families() {
  static const std::vector<Family> families = AllFamilies();
  return families;
}

const Family* FindFamily(absl::string_view model_type) {
  const std::span<const Family> families = Families();
  const auto found =
      std::ranges::find(families, model_type, &Family::model_type);
  return found == families.end() ? nullptr : &*found;
}

}  // namespace steadystate
