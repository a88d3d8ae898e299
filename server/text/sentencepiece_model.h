#ifndef STEADYSTATE_SERVER_TEXT_SENTENCEPIECE_MODEL_H_
#define STEADYSTATE_SERVER_TEXT_SENTENCEPIECE_MODEL_H_

#include <cstddef>

namespace steadystate {

// What the server and sentencepiece_module.cc, which has SentencePiece in it,
// have in common. No memory changes hands: results go to a function of the
// caller's, since either side may have an allocator of its own.

// Takes `count` results; `context` is the caller's.
using TakeTokens = void (*)(void* context, const int* tokens, size_t count);
using TakeBytes = void (*)(void* context, const char* bytes, size_t count);

// A loaded tokenizer.model. Immutable; thread-safe. Destroyed by delete.
class SentencePieceModel {
 public:
  virtual ~SentencePieceModel() = default;

  // Tokens have ids in [0, size()).
  virtual int size() const = 0;

  virtual void Encode(const char* text, size_t size, TakeTokens take,
                      void* context) const = 0;

  // The same with the bytes of the text that each token was made of: `take`
  // gets a serialized SentencePieceText.
  virtual void EncodeWithRanges(const char* text, size_t size, TakeBytes take,
                                void* context) const = 0;

  // The text that begins with these tokens.
  virtual void Decode(const int* tokens, size_t count, TakeBytes take,
                      void* context) const = 0;

  // The bytes that a token stands for within a text.
  virtual void BytesOf(int token, TakeBytes take, void* context) const = 0;
};

// The module's only function, kOpenSentencePiece: a model from the bytes of its
// file, or null, with the reason for `take_error`.
using OpenSentencePiece = SentencePieceModel* (*)(const char* bytes,
                                                  size_t size,
                                                  TakeBytes take_error,
                                                  void* context);
inline constexpr char kOpenSentencePiece[] = "SteadystateOpenSentencePiece";
inline constexpr char kSentencePieceModule[] = "steadystate-sentencepiece.so";

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_SENTENCEPIECE_MODEL_H_
