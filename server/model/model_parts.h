#ifndef STEADYSTATE_SERVER_MODEL_MODEL_PARTS_H_
#define STEADYSTATE_SERVER_MODEL_MODEL_PARTS_H_

#include <memory>

#include "server/model/decoder.h"
#include "server/model/model.h"
#include "server/model/state_layout.h"
#include "server/text/tokenizer.h"

namespace steadystate {

// What a Model consists of.
struct Model::Parts {
  ModelDescription description;
  StateLayout layout;
  std::unique_ptr<Tokenizer> tokenizer;  // or null
  Decoder decoder;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MODEL_PARTS_H_
