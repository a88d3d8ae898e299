#ifndef STEADYSTATE_SERVER_METRICS_EXPOSITION_H_
#define STEADYSTATE_SERVER_METRICS_EXPOSITION_H_

#include <memory>
#include <string>
#include <vector>

#include "prometheus/collectable.h"

namespace steadystate {

// The text exposition of everything that is collected. Thread-safe.
std::string Exposition(
    const std::vector<std::shared_ptr<prometheus::Collectable>>& collectables);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_METRICS_EXPOSITION_H_
