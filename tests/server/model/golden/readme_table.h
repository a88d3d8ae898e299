#ifndef STEADYSTATE_TESTS_SERVER_MODEL_GOLDEN_README_TABLE_H_
#define STEADYSTATE_TESTS_SERVER_MODEL_GOLDEN_README_TABLE_H_

#include <map>
#include <string>

namespace steadystate {

// Errors that the mixers' README promises not to exceed, relative RMS over all
// logits.
struct ErrorBounds {
  double f32 = 0;
  double bf16 = 0;
};

// The table between the markers of tests/golden/table.py, by model_type. Ends
// the program if there is none.
std::map<std::string, ErrorBounds> ReadmeErrorBounds();

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_SERVER_MODEL_GOLDEN_README_TABLE_H_
