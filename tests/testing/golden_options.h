#ifndef STEADYSTATE_TESTS_TESTING_GOLDEN_OPTIONS_H_
#define STEADYSTATE_TESTS_TESTING_GOLDEN_OPTIONS_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "server/model/family.h"
#include "tests/testing/golden_checkpoint.h"

namespace steadystate {

// Logits of a few tokens by a golden case with other keys in its config.json.
// Fails the test if it does not load without warnings.
std::vector<float> GoldenLogitsWith(
    const std::string& golden_case,
    const nlohmann::json& changes = nlohmann::json::object());

// What a config.json of this text says of its model. Fails the test if it is
// refused.
ModelConfig ReadConfigText(const std::string& text);

// A value that a key must not have.
struct Refusal {
  std::string key;
  nlohmann::json value;
  absl::StatusCode code;
};

// Fails the test unless the golden case with each of the values is refused with
// that code and a message that names the key.
void ExpectRefusals(const std::string& golden_case,
                    std::span<const Refusal> refusals);

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_GOLDEN_OPTIONS_H_
