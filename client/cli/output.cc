#include "client/cli/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "steadystate/error.h"

namespace steadystate::client {
namespace {

using google::protobuf::FieldDescriptor;
using ProtoMessage = google::protobuf::Message;

// The value of a field, or of its element `index` if it is repeated.
Json FieldValue(const ProtoMessage& message, const FieldDescriptor* field,
                int index) {
  const auto* reflection = message.GetReflection();
  const bool repeated = field->is_repeated();
  const auto get = [&](auto single, auto element) -> Json {
    return repeated ? (reflection->*element)(message, field, index)
                    : (reflection->*single)(message, field);
  };
  using R = google::protobuf::Reflection;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return get(&R::GetInt32, &R::GetRepeatedInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return get(&R::GetInt64, &R::GetRepeatedInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return get(&R::GetUInt32, &R::GetRepeatedUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return get(&R::GetUInt64, &R::GetRepeatedUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return get(&R::GetDouble, &R::GetRepeatedDouble);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return get(&R::GetFloat, &R::GetRepeatedFloat);
    case FieldDescriptor::CPPTYPE_BOOL:
      return get(&R::GetBool, &R::GetRepeatedBool);
    case FieldDescriptor::CPPTYPE_ENUM:
      return (repeated ? reflection->GetRepeatedEnum(message, field, index)
                       : reflection->GetEnum(message, field))
          ->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return get(&R::GetString, &R::GetRepeatedString);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(repeated
                        ? reflection->GetRepeatedMessage(message, field, index)
                        : reflection->GetMessage(message, field));
  }
  return nullptr;
}

Json RepeatedValue(const ProtoMessage& message, const FieldDescriptor* field) {
  const int count = message.GetReflection()->FieldSize(message, field);
  if (!field->is_map()) {
    Json array = Json::array();
    for (int i = 0; i < count; ++i) {
      array.push_back(FieldValue(message, field, i));
    }
    return array;
  }
  Json object = Json::object();
  for (int i = 0; i < count; ++i) {
    const Json entry = FieldValue(message, field, i);
    const Json& key = entry["key"];
    object[key.is_string() ? key.get<std::string>() : key.dump()] =
        entry["value"];
  }
  return object;
}

// Marks the error of a write that nobody reads.
constexpr absl::string_view kReaderGonePayload = "steadystate/reader_gone";

static_assert(std::endian::native == std::endian::little,
              "rows are written as they lie in memory");

// Magic, version, length of the rest, and a text padded with blanks: together
// as long for every shape, and a multiple of 64 as the format asks.
constexpr size_t kHeaderBytes = 128;
constexpr size_t kPrefixBytes = 10;

std::string Header(const std::string& shape) {
  std::string text = absl::StrCat(
      "{'descr': '<f4', 'fortran_order': False, 'shape': ", shape, ", }");
  text.resize(kHeaderBytes - kPrefixBytes - 1, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xFF);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace

absl::Status Print(absl::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
      std::fflush(stdout) == 0) {
    return absl::OkStatus();
  }
  const int error = errno;
  absl::Status status =
      absl::ErrnoToStatus(error, "cannot write to standard output");
  if (error == EPIPE) status.SetPayload(kReaderGonePayload, absl::Cord());
  return status;
}

bool IsReaderGone(const absl::Status& status) {
  return status.GetPayload(kReaderGonePayload).has_value();
}

std::string Described(const absl::Status& status) {
  std::string text = absl::StatusCodeToString(status.code());
  const auto details = GetErrorDetails(status);
  if (!details) return absl::StrCat(text, ": ", status.message());
  absl::StrAppend(&text, " ", details->reason, ": ", status.message());
  if (details->retry_after) {
    // Many messages say themselves to try again.
    absl::StrAppend(
        &text,
        absl::StrContains(text, "try again") ? " (in " : " (try again in ",
        absl::FormatDuration(*details->retry_after), ")");
  }
  return text;
}

namespace {

// Under this name a file is written, until it is whole.
std::string PartOf(const std::string& path) { return path + ".part"; }

}  // namespace

absl::Status CheckWritable(const std::string& path) {
  const std::string part = PartOf(path);
  FILE* const file = std::fopen(part.c_str(), "ab");
  if (file == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
  }
  std::fclose(file);
  std::remove(part.c_str());
  return absl::OkStatus();
}

absl::Status WriteFile(const std::string& path, absl::string_view content) {
  const std::string part = PartOf(path);
  const auto failure = [&path] {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  };
  FILE* const file = std::fopen(part.c_str(), "wb");
  if (file == nullptr) return failure();
  const bool written =
      std::fwrite(content.data(), 1, content.size(), file) == content.size() &&
      std::fflush(file) == 0 && fsync(fileno(file)) == 0;
  absl::Status status = written ? absl::OkStatus() : failure();
  if (std::fclose(file) != 0) status.Update(failure());
  if (status.ok() && std::rename(part.c_str(), path.c_str()) != 0) {
    status = failure();
  }
  if (!status.ok()) std::remove(part.c_str());
  return status;
}

absl::Status PrintJson(const Json& json) {
  return Print(absl::StrCat(json.dump(2), "\n"));
}

Json ToJson(const ProtoMessage& message) {
  using google::protobuf::Duration;
  using google::protobuf::Timestamp;
  if (const auto* time = dynamic_cast<const Timestamp*>(&message)) {
    return absl::FormatTime(absl::RFC3339_full,
                            absl::FromUnixSeconds(time->seconds()) +
                                absl::Nanoseconds(time->nanos()),
                            absl::UTCTimeZone());
  }
  if (const auto* duration = dynamic_cast<const Duration*>(&message)) {
    return static_cast<double>(duration->seconds()) + duration->nanos() * 1e-9;
  }
  Json json = Json::object();
  const auto* descriptor = message.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    if (field->is_repeated()) {
      json[field->name()] = RepeatedValue(message, field);
    } else if (!field->has_presence() ||
               message.GetReflection()->HasField(message, field)) {
      json[field->name()] = FieldValue(message, field, /*index=*/0);
    }
  }
  return json;
}

namespace {

// On one line.
std::string FormatValue(const Json& value) {
  if (value.is_array() && !value.empty() && value[0].is_object()) {
    return absl::StrCat(value.size(), " (see --json)");
  }
  if (!value.is_string()) return value.dump();
  std::string text = value.get<std::string>();
  if (!absl::StrContains(text, '\n')) return text;
  return absl::StrCat(text.size(), " bytes (see --json)");
}

}  // namespace

std::string FormatLines(const Json& object) {
  size_t width = 0;
  for (const auto& [key, value] : object.items()) {
    width = std::max(width, key.size());
  }
  std::string text;
  for (const auto& [key, value] : object.items()) {
    absl::StrAppend(&text, key, std::string(width + 2 - key.size(), ' '),
                    FormatValue(value), "\n");
  }
  return text;
}

absl::StatusOr<NpyWriter> NpyWriter::Open(const std::string& path,
                                          Shape shape) {
  FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", path));
  }
  NpyWriter writer(path, shape, file);
  if (std::fseek(file, 0, SEEK_SET) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": a .npy file cannot be written to a pipe or terminal"));
  }
  const absl::Status written = writer.WriteHeader();
  if (!written.ok()) return written;
  return writer;
}

absl::Status NpyWriter::Append(std::span<const float> row) {
  if (row_count_ == 0) column_count_ = row.size();
  if (row.empty() || row.size() != column_count_ ||
      (shape_ == Shape::kVector && row.size() != 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": row ", row_count_, " has ", row.size(),
                     " numbers, the first one has ", column_count_));
  }
  if (std::fwrite(row.data(), sizeof(float), row.size(), file_.get()) !=
      row.size()) {
    return Failure();
  }
  ++row_count_;
  return absl::OkStatus();
}

absl::Status NpyWriter::Finish() {
  if (std::fseek(file_.get(), 0, SEEK_SET) != 0) return Failure();
  const absl::Status written = WriteHeader();
  if (!written.ok()) return written;
  if (std::fclose(file_.release()) != 0) return Failure();
  return absl::OkStatus();
}

absl::Status NpyWriter::WriteHeader() {
  const std::string header =
      Header(shape_ == Shape::kVector
                 ? absl::StrCat("(", row_count_, ",)")
                 : absl::StrCat("(", row_count_, ", ", column_count_, ")"));
  if (std::fwrite(header.data(), 1, header.size(), file_.get()) !=
      header.size()) {
    return Failure();
  }
  return absl::OkStatus();
}

absl::Status NpyWriter::Failure() const {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
}

namespace {

constexpr absl::Duration kMoment = absl::Milliseconds(300);
constexpr absl::Duration kInterval = absl::Milliseconds(100);
constexpr size_t kDefaultColumns = 80;
constexpr size_t kMinBar = 8;
constexpr size_t kMaxBar = 40;
// Back to the first column, and clear to the end of the line.
constexpr absl::string_view kEraseLine = "\r\033[K";

std::string FormatRate(double per_second) {
  if (per_second >= 1e6) return absl::StrFormat("%.1fM/s", per_second / 1e6);
  if (per_second >= 1e3) return absl::StrFormat("%.1fk/s", per_second / 1e3);
  return absl::StrFormat("%.1f/s", per_second);
}

std::string FormatRemaining(double seconds) {
  const auto whole = static_cast<int64_t>(std::min(seconds, 359999.0) + 0.5);
  if (whole < 3600) {
    return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
  }
  return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60,
                         whole % 60);
}

std::string FormatBar(double fraction, size_t length) {
  const auto filled =
      static_cast<size_t>(fraction * static_cast<double>(length));
  return absl::StrCat("[", std::string(filled, '#'),
                      std::string(length - filled, ' '), "]");
}

size_t TerminalColumns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kDefaultColumns;
  }
  return size.ws_col;
}

std::string FormatEndless(const Progress& progress, size_t columns) {
  return absl::StrCat(progress.task, "  ", progress.done, " ", progress.unit,
                      progress.note.empty() ? "" : "  ", progress.note)
      .substr(0, columns);
}

}  // namespace

std::string FormatProgress(const Progress& progress, size_t columns) {
  if (progress.total == Progress::kEndless) {
    return FormatEndless(progress, columns);
  }
  const size_t done = std::min(progress.done, progress.total);
  const double fraction =
      progress.total == 0
          ? 1.0
          : static_cast<double>(done) / static_cast<double>(progress.total);
  const double seconds = absl::ToDoubleSeconds(progress.elapsed);
  std::string line = absl::StrFormat("%s %3d%%", progress.task,
                                     static_cast<int>(fraction * 100));
  std::string tail =
      absl::StrCat(" ", done, "/", progress.total, " ", progress.unit);
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  if (!progress.note.empty()) {
    absl::StrAppend(&tail, "  ", progress.note);
  } else if (rate > 0) {
    absl::StrAppend(&tail, "  ", FormatRate(rate));
  }
  if (rate > 0) {
    absl::StrAppend(
        &tail, "  ",
        FormatRemaining(static_cast<double>(progress.total - done) / rate));
  }
  if (line.size() + tail.size() <= columns) {
    const size_t room = columns - line.size() - tail.size();
    // Two brackets and a blank.
    if (room >= kMinBar + 3) {
      absl::StrAppend(&line, " ",
                      FormatBar(fraction, std::min(room - 3, kMaxBar)));
    }
    line += tail;
  }
  return line.substr(0, columns);
}

ProgressBar::Terminal ProgressBar::StandardError() {
  if (isatty(STDERR_FILENO) == 0)
    return {nullptr, TerminalColumns, std::chrono::steady_clock::now};
  return {[](absl::string_view text) {
            std::fwrite(text.data(), 1, text.size(), stderr);
            std::fflush(stderr);
          },
          TerminalColumns, std::chrono::steady_clock::now};
}

ProgressBar::ProgressBar(absl::string_view task, absl::string_view unit,
                         size_t total, Terminal terminal)
    : task_(task),
      unit_(unit),
      total_(total),
      terminal_(std::move(terminal)),
      start_(terminal_.now()) {}

void ProgressBar::Update(size_t done, absl::string_view note) {
  if (!terminal_.write) return;
  const std::chrono::steady_clock::time_point now = terminal_.now();
  const absl::Duration elapsed = absl::FromChrono(now - start_);
  if (elapsed < kMoment) return;
  if (last_draw_ && absl::FromChrono(now - *last_draw_) < kInterval) return;
  last_draw_ = now;
  drawn_ = true;
  // A line that fills the last column wraps on some terminals.
  const size_t columns = std::max<size_t>(terminal_.columns(), 2) - 1;
  terminal_.write(absl::StrCat(
      kEraseLine,
      FormatProgress({task_, unit_, done, total_, elapsed, note}, columns)));
}

void ProgressBar::Erase() {
  if (!drawn_) return;
  terminal_.write(kEraseLine);
  drawn_ = false;
}

}  // namespace steadystate::client
