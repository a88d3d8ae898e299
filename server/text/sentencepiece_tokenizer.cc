#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/base/call_once.h"
#include "absl/base/config.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/text/marked_text.h"
#include "server/text/sentencepiece_file.h"
#include "server/text/sentencepiece_marks.h"
#include "server/text/sentencepiece_model.h"
#include "server/text/tokenizer_factory.h"

namespace steadystate {
namespace {

void AppendTo(void* context, const char* bytes, size_t count) {
  static_cast<std::string*>(context)->append(bytes, count);
}

void AppendTokensTo(void* context, const int* tokens, size_t count) {
  auto& to = *static_cast<std::vector<int32_t>*>(context);
  to.insert(to.end(), tokens, tokens + count);
}

// A model that is loaded when it is first asked for: one of 256,000 pieces
// takes tens of megabytes, and most servers never need the second. Thread-safe.
class LateModel {
 public:
  LateModel(OpenSentencePiece open, std::string file)
      : open_(open), file_(std::move(file)) {}

  // INVALID_ARGUMENT if SentencePiece does not take the file.
  absl::StatusOr<const SentencePieceModel*> Get() const {
    absl::call_once(once_, [this] {
      model_.reset(open_(file_.data(), file_.size(), &AppendTo, &error_));
      file_ = {};
    });
    if (model_ != nullptr) return model_.get();
    return MakeError(
        ErrorReason::kInvalidArgument,
        absl::StrCat("this model's tokenizer cannot keep literal text apart "
                     "from its own symbols (",
                     error_, "): send the text as token ids"));
  }

 private:
  const OpenSentencePiece open_;
  mutable absl::once_flag once_;
  // Written by the one that loads it, while others wait.
  mutable std::string file_;
  mutable std::unique_ptr<const SentencePieceModel> model_;
  mutable std::string error_;
};

class SentencePieceTokenizer final : public Tokenizer {
 public:
  // `second`: the model of SentencePieceMarks::SecondFile.
  SentencePieceTokenizer(std::unique_ptr<const SentencePieceModel> model,
                         std::unique_ptr<const LateModel> second,
                         SentencePieceMarks marks, size_t vocab_size)
      : model_(std::move(model)),
        second_(std::move(second)),
        marks_(std::move(marks)),
        bytes_(vocab_size) {
    for (int token = 0; token < model_->size(); ++token) {
      model_->BytesOf(token, &AppendTo, &bytes_[static_cast<size_t>(token)]);
    }
  }

  absl::string_view kind() const override { return "sentencepiece"; }

  bool HasToken(int32_t token) const override { return token < model_->size(); }

  // The library takes some 500 bytes of memory for each byte of text, and for
  // Unigram models without byte fallback time quadratic in a run of unknown
  // characters: two seconds for this many.
  size_t max_text_bytes() const override { return size_t{256} << 10; }

  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const override {
    std::vector<int32_t> tokens;
    model_->Encode(text.data(), text.size(), &AppendTokensTo, &tokens);
    return tokens;
  }

  absl::StatusOr<std::vector<int32_t>> EncodeParts(
      std::span<const TextPart> parts) const override;

  void AppendBytes(int32_t token, std::string& to) const override {
    to += bytes_[static_cast<size_t>(token)];
  }

  std::string Decode(std::span<const int32_t> tokens) const override {
    std::vector<int> known;
    known.reserve(tokens.size());
    for (const int32_t token : tokens) {
      if (token < model_->size()) known.push_back(token);
    }
    std::string text;
    model_->Decode(known.data(), known.size(), &AppendTo, &text);
    return text;
  }

 private:
  const std::unique_ptr<const SentencePieceModel> model_;
  const std::unique_ptr<const LateModel> second_;
  const SentencePieceMarks marks_;
  std::vector<std::string> bytes_;  // by id; empty beyond the model's
};

absl::StatusOr<std::vector<int32_t>> SentencePieceTokenizer::EncodeParts(
    std::span<const TextPart> parts) const {
  MarkedText text = MarkedUtf8(parts);
  if (text.literal.empty()) return Encode(Joined(parts));
  std::vector<int32_t> tokens;
  std::string result;
  model_->EncodeWithRanges(text.text.data(), text.text.size(), &AppendTo,
                           &result);
  STEADYSTATE_ASSIGN_OR_RETURN(std::vector<SentencePieceMarks::Found> found,
                               marks_.Read(result, tokens));
  if (!marks_.Alias(text, found)) return tokens;
  tokens.clear();
  STEADYSTATE_ASSIGN_OR_RETURN(const SentencePieceModel* const second,
                               second_->Get());
  second->Encode(text.text.data(), text.text.size(), &AppendTokensTo, &tokens);
  std::vector<int32_t> read;
  std::ranges::copy_if(tokens, std::back_inserter(read),
                       [&](int32_t token) { return marks_.IsMark(token); });
  if (std::ranges::equal(read, found, {}, {},
                         &SentencePieceMarks::Found::token)) {
    return tokens;
  }
  return MakeError(ErrorReason::kInvalidArgument,
                   "this model's tokenizer prefers other pieces to its own "
                   "symbols beside literal text that spells some: send the "
                   "text as token ids");
}

// The module lies beside the program or, for those outside of bin/, in the bin/
// next to their folder. A path, since sanitizers' dlopen knows no run path.
// Empty if the system does not tell: a path relative to the working directory
// would load what anybody has put there.
std::string ModulePath() {
  std::error_code ignored;
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe", ignored);
  if (!program.is_absolute()) return "";
  const std::filesystem::path folder = program.parent_path();
  const std::filesystem::path beside = folder / kSentencePieceModule;
  if (std::filesystem::exists(beside, ignored)) return beside.string();
  return (folder.parent_path() / "bin" / kSentencePieceModule).string();
}

// The module's function. It stays loaded to the end of the program, as the code
// of models does that nobody has destroyed.
absl::StatusOr<OpenSentencePiece> LoadModule() {
  int flags = RTLD_NOW | RTLD_LOCAL;
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
  // Sanitizers forbid RTLD_DEEPBIND. Without it the module must not meet
  // another Protobuf: see sentencepiece_module.cc.
  constexpr char kVerifyVersion[] =
      "_ZN6google8protobuf8internal13VerifyVersionEiiPKc";
  if (dlsym(RTLD_DEFAULT, kVerifyVersion) != nullptr) {
    return absl::UnimplementedError(
        "SentencePiece beside Protobuf in a build with sanitizers");
  }
#else
  flags |= RTLD_DEEPBIND;
#endif
  const std::string path = ModulePath();
  if (path.empty()) {
    return absl::UnimplementedError(
        "SentencePiece cannot be loaded: /proc does not tell where the program "
        "is");
  }
  void* const module = dlopen(path.c_str(), flags);
  if (module == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("SentencePiece cannot be loaded: ", dlerror()));
  }
  void* const function = dlsym(module, kOpenSentencePiece);
  if (function == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat(kSentencePieceModule, " is not this program's"));
  }
  return reinterpret_cast<OpenSentencePiece>(function);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeSentencePieceTokenizer(
    absl::string_view bytes, absl::string_view what, size_t vocab_size) {
  static const auto* const open =
      new absl::StatusOr<OpenSentencePiece>(LoadModule());
  if (!open->ok()) {
    return absl::UnimplementedError(
        absl::StrCat(what, ": ", open->status().message()));
  }
  const absl::Status sound = CheckSentencePieceFile(bytes, vocab_size);
  if (!sound.ok()) {
    return absl::Status(sound.code(),
                        absl::StrCat(what, ": ", sound.message()));
  }
  std::string error;
  std::unique_ptr<const SentencePieceModel> model(
      (**open)(bytes.data(), bytes.size(), &AppendTo, &error));
  if (model == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", error));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(SentencePieceMarks marks,
                               SentencePieceMarks::FromFile(bytes));
  STEADYSTATE_ASSIGN_OR_RETURN(std::string second_file,
                               SentencePieceMarks::SecondFile(bytes));
  return std::make_unique<SentencePieceTokenizer>(
      std::move(model),
      std::make_unique<LateModel>(**open, std::move(second_file)),
      std::move(marks), vocab_size);
}

}  // namespace steadystate
