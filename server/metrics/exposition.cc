#include "server/metrics/exposition.h"

#include <utility>

#include "prometheus/text_serializer.h"

namespace steadystate {

std::string Exposition(
    const std::vector<std::shared_ptr<prometheus::Collectable>>& collectables) {
  std::vector<prometheus::MetricFamily> all;
  for (const auto& collectable : collectables) {
    for (prometheus::MetricFamily& family : collectable->Collect()) {
      all.push_back(std::move(family));
    }
  }
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace steadystate
