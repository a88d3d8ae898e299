#include "server/text/tokenizer.h"

namespace steadystate {

std::string Tokenizer::Decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) AppendBytes(token, text);
  return text;
}

}  // namespace steadystate
