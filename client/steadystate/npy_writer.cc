#include "client/steadystate/npy_writer.h"

#include <bit>
#include <cerrno>

#include "absl/strings/str_cat.h"

namespace steadystate::client {
namespace {

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

}  // namespace steadystate::client
