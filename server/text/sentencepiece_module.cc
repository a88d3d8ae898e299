// SentencePiece behind the interface of sentencepiece_model.h, as a shared
// object of its own. Debian's libsentencepiece has a copy of Protobuf 3.14 in
// it, whose symbols it exports. In one process with the Protobuf of gRPC each
// calls functions of the other: at best a version check ends the program.
// Loaded with RTLD_DEEPBIND, as sentencepiece_tokenizer.cc does, this module
// and that library see their own symbols first.
//
// sentencepiece_processor.h declares absl::string_view itself, so nothing here
// includes Abseil.
#include <sentencepiece_processor.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/text/sentencepiece_model.h"

namespace steadystate {
namespace {

using Processor = sentencepiece::SentencePieceProcessor;

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

class Model final : public SentencePieceModel {
 public:
  explicit Model(std::unique_ptr<Processor> processor)
      : processor_(std::move(processor)) {}

  int size() const override { return processor_->GetPieceSize(); }

  void Encode(const char* text, size_t size, TakeTokens take,
              void* context) const override {
    std::vector<int> tokens;
    if (!processor_->Encode({text, size}, &tokens).ok()) return;
    take(context, tokens.data(), tokens.size());
  }

  void EncodeWithRanges(const char* text, size_t size, TakeBytes take,
                        void* context) const override {
    const std::string result =
        processor_->EncodeAsSerializedProto({text, size});
    take(context, result.data(), result.size());
  }

  void Decode(const int* tokens, size_t count, TakeBytes take,
              void* context) const override {
    std::string text;
    const std::vector<int> all(tokens, tokens + count);
    if (!processor_->Decode(all, &text).ok()) return;
    take(context, text.data(), text.size());
  }

  void BytesOf(int token, TakeBytes take, void* context) const override {
    if (processor_->IsControl(token)) return;
    if (processor_->IsUnknown(token)) {
      Decode(&token, 1, take, context);
      return;
    }
    const std::string& piece = processor_->IdToPiece(token);
    if (processor_->IsByte(token)) {
      // "<0xE2>"; the library has checked that it is of this form.
      const auto byte =
          static_cast<char>(std::strtol(piece.c_str() + 3, nullptr, 16));
      take(context, &byte, 1);
      return;
    }
    std::string_view rest = piece;
    for (size_t mark; (mark = rest.find(kSpaceMark)) != rest.npos;) {
      take(context, rest.data(), mark);
      take(context, " ", 1);
      rest.remove_prefix(mark + kSpaceMark.size());
    }
    take(context, rest.data(), rest.size());
  }

 private:
  const std::unique_ptr<Processor> processor_;
};

}  // namespace
}  // namespace steadystate

extern "C" steadystate::SentencePieceModel* SteadystateOpenSentencePiece(
    const char* bytes, size_t size, steadystate::TakeBytes take_error,
    void* context) {
  auto processor = std::make_unique<steadystate::Processor>();
  std::string error;
  try {
    const auto loaded = processor->LoadFromSerializedProto({bytes, size});
    if (!loaded.ok()) error = loaded.ToString();
  } catch (const std::exception& thrown) {
    // Darts-clone, in the library, throws when it cannot make a trie of the
    // pieces.
    error = thrown.what();
  }
  if (!error.empty()) {
    take_error(context, error.data(), error.size());
    return nullptr;
  }
  return std::make_unique<steadystate::Model>(std::move(processor)).release();
}
