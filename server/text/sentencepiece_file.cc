#include "server/text/sentencepiece_file.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"
#include "server/text/chars_map.h"
#include "server/text/proto_fields.h"

namespace steadystate {
namespace {

// SentencePiece builds its trie with a call within a call for each byte.
constexpr size_t kMaxPieceBytes = 1024;
// The results that SentencePiece's PrefixMatcher has room for.
constexpr size_t kMaxNested = 64;
// An empty string takes two bytes in the file and forty in memory.
constexpr size_t kMaxOptionBytes = size_t{1} << 20;

// sentencepiece_model.proto: the fields of a ModelProto ...
enum ModelField : uint32_t {
  kPieces = 1,
  kTrainerSpec = 2,
  kNormalizerSpec = 3,
  kSelfTestData = 4,
  kDenormalizerSpec = 5,
};
// ... of a SentencePiece, and the one type that matters here ...
enum PieceField : uint32_t { kPiece = 1, kType = 3 };
constexpr int32_t kUserDefined = 4;
// ... of a NormalizerSpec and of a TrainerSpec.
constexpr uint32_t kPrecompiledCharsMap = 2;
constexpr uint32_t kUnknownSurface = 44;

absl::Status CheckNormalizer(absl::string_view spec) {
  return ForEachProtoField(spec, [](const ProtoField& field) {
    const bool map = field.number == kPrecompiledCharsMap &&
                     field.type == ProtoField::kBytes;
    return map ? CheckCharsMap(field.bytes) : absl::OkStatus();
  });
}

absl::Status CheckTrainer(absl::string_view spec) {
  return ForEachProtoField(spec, [](const ProtoField& field) {
    if (field.number != kUnknownSurface ||
        field.bytes.size() <= kMaxPieceBytes) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("the unk_surface has ", field.bytes.size(),
                     " bytes, at most ", kMaxPieceBytes));
  });
}

class FileCheck {
 public:
  explicit FileCheck(size_t vocab_size) : vocab_size_(vocab_size) {}

  absl::Status Run(absl::string_view file) {
    STEADYSTATE_RETURN_IF_ERROR(ForEachProtoField(
        file, [this](const ProtoField& field) { return Check(field); }));
    if (pieces_ > vocab_size_) {
      return absl::InvalidArgumentError(absl::StrCat(
          pieces_, " pieces; the model has ", vocab_size_, " tokens"));
    }
    return CheckNested();
  }

 private:
  absl::Status Check(const ProtoField& field) {
    if (field.type != ProtoField::kBytes) return absl::OkStatus();
    switch (field.number) {
      case kPieces:
        return CheckPiece(field.bytes);
      case kTrainerSpec:
        STEADYSTATE_RETURN_IF_ERROR(CountOptions(field.bytes.size()));
        return CheckTrainer(field.bytes);
      case kSelfTestData:
        return CountOptions(field.bytes.size());
      case kNormalizerSpec:
      case kDenormalizerSpec:
        return CheckNormalizer(field.bytes);
      default:
        return absl::OkStatus();
    }
  }

  absl::Status CheckPiece(absl::string_view message) {
    absl::string_view piece;
    int32_t type = 0;
    STEADYSTATE_RETURN_IF_ERROR(
        ForEachProtoField(message, [&](const ProtoField& field) {
          if (field.number == kPiece && field.type == ProtoField::kBytes) {
            piece = field.bytes;
          }
          if (field.number == kType && field.type == ProtoField::kVarint) {
            type = static_cast<int32_t>(field.varint);
          }
          return absl::OkStatus();
        }));
    if (piece.empty() || piece.size() > kMaxPieceBytes ||
        absl::StrContains(piece, '\0')) {
      return absl::InvalidArgumentError(
          absl::StrCat("piece ", pieces_, " has ", piece.size(),
                       " bytes; it must have between 1 and ", kMaxPieceBytes,
                       ", none of them NUL"));
    }
    if (type == kUserDefined) user_defined_.push_back(piece);
    ++pieces_;
    return absl::OkStatus();
  }

  absl::Status CountOptions(size_t bytes) {
    option_bytes_ += bytes;
    if (option_bytes_ <= kMaxOptionBytes) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "more than ", kMaxOptionBytes, " bytes of options and self-tests"));
  }

  // In order each piece comes behind those that begin it.
  absl::Status CheckNested() {
    std::sort(user_defined_.begin(), user_defined_.end());
    std::vector<absl::string_view> begin_it;
    for (const absl::string_view piece : user_defined_) {
      while (!begin_it.empty() && !absl::StartsWith(piece, begin_it.back())) {
        begin_it.pop_back();
      }
      begin_it.push_back(piece);
      if (begin_it.size() > kMaxNested) {
        return absl::InvalidArgumentError(absl::StrCat(
            "more than ", kMaxNested, " user defined pieces begin each other"));
      }
    }
    return absl::OkStatus();
  }

  const size_t vocab_size_;
  size_t pieces_ = 0;
  size_t option_bytes_ = 0;
  std::vector<absl::string_view> user_defined_;
};

}  // namespace

absl::Status CheckSentencePieceFile(absl::string_view bytes,
                                    size_t vocab_size) {
  return FileCheck(vocab_size).Run(bytes);
}

}  // namespace steadystate
