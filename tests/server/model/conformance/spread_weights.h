#ifndef STEADYSTATE_TESTS_SERVER_MODEL_CONFORMANCE_SPREAD_WEIGHTS_H_
#define STEADYSTATE_TESTS_SERVER_MODEL_CONFORMANCE_SPREAD_WEIGHTS_H_

#include <memory>
#include <string>

#include "server/model/model.h"

namespace steadystate {

// Loads a checkpoint of floats with its matrices changed: each element is
// multiplied by a random power of two from 2^-12 to 2^12, and each row then
// scaled to its old RMS. Results keep their sizes, but nearly every addition in
// a projection rounds, so that one in another order has other bits: with few
// inputs in bf16, those of an ordinary model do not show it. Tables of
// embeddings stay. Ends the program with the error if that fails.
std::shared_ptr<const Model> LoadWithSpreadWeights(const std::string& directory,
                                                   DType weights);

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_SERVER_MODEL_CONFORMANCE_SPREAD_WEIGHTS_H_
