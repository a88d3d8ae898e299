#include "server/rpc/inference/infer_parameters.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "inference/grpc_service.pb.h"
#include "server/base/error.h"
#include "server/base/sha256.h"
#include "server/base/status_macros.h"
#include "server/rpc/convert.h"
#include "server/session/session_id.h"

namespace steadystate {
namespace {

using inference::InferParameter;
using ParameterMap = google::protobuf::Map<std::string, InferParameter>;

constexpr absl::string_view kSessionPrefix = "sequence-";
constexpr size_t kPlainIdBytes = 63 - kSessionPrefix.size();
constexpr size_t kMaxSequenceIdBytes = 1024;
std::string Shown(const InferParameter& value) {
  switch (value.parameter_choice_case()) {
    case InferParameter::kBoolParam:
      return value.bool_param() ? "true" : "false";
    case InferParameter::kInt64Param:
      return absl::StrCat(value.int64_param());
    case InferParameter::kStringParam:
      return absl::StrCat("'", Excerpt(value.string_param(), kMaxShownBytes),
                          "'");
    case InferParameter::kDoubleParam:
      return absl::StrCat(value.double_param());
    case InferParameter::kUint64Param:
      return absl::StrCat(value.uint64_param());
    case InferParameter::PARAMETER_CHOICE_NOT_SET:
      break;
  }
  return "without a value";
}

absl::Status Wrong(const std::string& field, const InferParameter& value,
                   absl::string_view bounds) {
  return OutOfBounds(field, Shown(value), bounds);
}

absl::Status GetBool(const std::string& field, const InferParameter& value,
                     bool& to) {
  if (value.parameter_choice_case() != InferParameter::kBoolParam) {
    return Wrong(field, value, "a bool_param");
  }
  to = value.bool_param();
  return absl::OkStatus();
}

absl::Status GetNumber(const std::string& field, const InferParameter& value,
                       uint64_t most, uint64_t& to) {
  const bool is_signed =
      value.parameter_choice_case() == InferParameter::kInt64Param;
  if ((is_signed && value.int64_param() >= 0) ||
      value.parameter_choice_case() == InferParameter::kUint64Param) {
    to = is_signed ? static_cast<uint64_t>(value.int64_param())
                   : value.uint64_param();
    if (to <= most) return absl::OkStatus();
  }
  return Wrong(field, value,
               absl::StrCat("an int64_param or uint64_param of 0 to ", most));
}

absl::Status GetReal(const std::string& field, const InferParameter& value,
                     double& to) {
  switch (value.parameter_choice_case()) {
    case InferParameter::kDoubleParam:
      to = value.double_param();
      return absl::OkStatus();
    case InferParameter::kInt64Param:
      to = static_cast<double>(value.int64_param());
      return absl::OkStatus();
    case InferParameter::kUint64Param:
      to = static_cast<double>(value.uint64_param());
      return absl::OkStatus();
    default:
      return Wrong(field, value, "a double_param, int64_param or uint64_param");
  }
}

absl::Status SetSequence(const std::string& field, const InferParameter& value,
                         InferParameters& to) {
  if (value.parameter_choice_case() == InferParameter::kStringParam) {
    const std::string& id = value.string_param();
    if (id.size() > kMaxSequenceIdBytes) {
      return OutOfBounds(
          field, absl::StrCat(id.size(), " bytes long"),
          absl::StrCat("at most ", kMaxSequenceIdBytes, " bytes long"));
    }
    if (id.empty()) return absl::OkStatus();
    STEADYSTATE_ASSIGN_OR_RETURN(to.session, SequenceSession(id));
    return absl::OkStatus();
  }
  uint64_t id = 0;
  if (!GetNumber(field, value, UINT64_MAX, id).ok()) {
    return Wrong(field, value,
                 "an int64_param or uint64_param of 0 to 2^64-1, or a "
                 "string_param");
  }
  if (id != 0) to.session = SequenceSession(id);
  return absl::OkStatus();
}

absl::Status SetTimeout(const std::string& field, const InferParameter& value,
                        InferParameters& to) {
  uint64_t microseconds = 0;
  STEADYSTATE_RETURN_IF_ERROR(GetNumber(field, value, INT64_MAX, microseconds));
  if (microseconds > 0) to.timeout = absl::Microseconds(microseconds);
  return absl::OkStatus();
}

absl::Status SetPosition(const std::string& field, const InferParameter& value,
                         InferParameters& to) {
  return GetNumber(field, value, UINT64_MAX, to.expected_position.emplace());
}

// All requests take turns; a client that asks for more is told so.
absl::Status CheckPriority(const std::string& field,
                           const InferParameter& value,
                           InferParameters& /*to*/) {
  uint64_t priority = 0;
  if (GetNumber(field, value, 0, priority).ok()) return absl::OkStatus();
  return Wrong(field, value, "0 or absent: all requests take turns");
}

template <auto member>
absl::Status SetFlag(const std::string& field, const InferParameter& value,
                     InferParameters& to) {
  return GetBool(field, value, to.*member);
}

// `member`: of SamplingParams, a number or a number that may be absent.
template <auto member>
absl::Status SetSampling(const std::string& field, const InferParameter& value,
                         InferParameters& to) {
  using Member = std::decay_t<decltype(to.sampling.*member)>;
  to.sampling_by = field;
  if constexpr (std::is_same_v<Member, std::optional<uint32_t>>) {
    uint64_t number = 0;
    STEADYSTATE_RETURN_IF_ERROR(GetNumber(field, value, UINT32_MAX, number));
    to.sampling.*member = static_cast<uint32_t>(number);
  } else if constexpr (std::is_integral_v<Member>) {
    uint64_t number = 0;
    STEADYSTATE_RETURN_IF_ERROR(
        GetNumber(field, value, std::numeric_limits<Member>::max(), number));
    to.sampling.*member = static_cast<Member>(number);
  } else {
    double number = 0;
    STEADYSTATE_RETURN_IF_ERROR(GetReal(field, value, number));
    to.sampling.*member = number;
  }
  return absl::OkStatus();
}

struct ParameterRow {
  const char* name;
  absl::Status (*set)(const std::string& field, const InferParameter& value,
                      InferParameters& to);
};

constexpr ParameterRow kParameters[] = {
    {"sequence_id", SetSequence},
    {"sequence_start", SetFlag<&InferParameters::starts>},
    {"sequence_end", SetFlag<&InferParameters::ends>},
    {"timeout", SetTimeout},
    {"priority", CheckPriority},
    {"triton_enable_empty_final_response",
     SetFlag<&InferParameters::says_final>},
    {"expected_position", SetPosition},
    {"temperature", SetSampling<&SamplingParams::temperature>},
    {"top_k", SetSampling<&SamplingParams::top_k>},
    {"top_p", SetSampling<&SamplingParams::top_p>},
    {"min_p", SetSampling<&SamplingParams::min_p>},
    {"repetition_penalty", SetSampling<&SamplingParams::repetition_penalty>},
    {"presence_penalty", SetSampling<&SamplingParams::presence_penalty>},
    {"frequency_penalty", SetSampling<&SamplingParams::frequency_penalty>},
    {"penalty_window", SetSampling<&SamplingParams::penalty_window>},
    {"seed", SetSampling<&SamplingParams::seed>},
};

// That of which there is no row; the first one by name.
absl::Status UnknownParameter(const ParameterMap& from) {
  std::vector<std::string> known;
  for (const ParameterRow& row : kParameters) known.emplace_back(row.name);
  std::vector<std::string> unknown;
  for (const auto& [name, value] : from) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      unknown.push_back(name);
    }
  }
  return OutOfBounds("parameters",
                     *std::min_element(unknown.begin(), unknown.end()),
                     absl::StrCat("of ", absl::StrJoin(known, ", ")));
}

}  // namespace

std::string SequenceSession(uint64_t id) {
  return absl::StrCat(kSessionPrefix, id);
}

absl::StatusOr<std::string> SequenceSession(absl::string_view id) {
  constexpr size_t kDigits = 32;
  if (id.size() <= kPlainIdBytes && IsSessionId(id)) {
    return absl::StrCat(kSessionPrefix, id);
  }
  Sha256 sha;
  sha.Update(std::as_bytes(std::span(id.data(), id.size())));
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string digest, sha.FinishHex());
  return absl::StrCat(kSessionPrefix, "-", digest.substr(0, kDigits));
}

absl::string_view SequenceOf(absl::string_view session) {
  return absl::StripPrefix(session, kSessionPrefix);
}

absl::Status ReadParameters(const inference::ModelInferRequest& request,
                            InferParameters& to) {
  const ParameterMap& from = request.parameters();
  size_t known = 0;
  for (const ParameterRow& row : kParameters) {
    if (from.empty()) break;
    const auto found = from.find(row.name);
    if (found == from.end()) continue;
    ++known;
    STEADYSTATE_RETURN_IF_ERROR(
        row.set(absl::StrCat("parameters.", row.name), found->second, to));
  }
  if (known < from.size()) return UnknownParameter(from);
  if ((to.starts || to.ends) && to.session.empty()) {
    return MissingField("parameters.sequence_id",
                        "sequence_start and sequence_end need the id of a "
                        "sequence, above 0 or a text");
  }
  return absl::OkStatus();
}

}  // namespace steadystate
