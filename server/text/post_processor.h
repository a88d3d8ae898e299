#ifndef STEADYSTATE_SERVER_TEXT_POST_PROCESSOR_H_
#define STEADYSTATE_SERVER_TEXT_POST_PROCESSOR_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace steadystate {

// The tokens that the library puts before a text of its own accord: those
// before the text in the template for single texts of the "post_processor" of a
// tokenizer.json, where that is a TemplateProcessing, alone or in a Sequence.
// Empty for all other kinds, and for null. INVALID_ARGUMENT for a template that
// is malformed, has more than 16 tokens there, or one of `vocab_size` or more.
absl::StatusOr<std::vector<int32_t>> TextPrefixOf(
    const nlohmann::json& post_processor, size_t vocab_size);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_POST_PROCESSOR_H_
