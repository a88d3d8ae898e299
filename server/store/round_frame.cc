#include "server/store/round_frame.h"

#include <cstring>

#include "server/base/binary.h"
#include "server/base/crc32c.h"

namespace steadystate {
namespace {

constexpr size_t kHeaderBytes = 2 * sizeof(uint32_t);

}  // namespace

void WriteFrame(const RoundFrame& round, std::string& to) {
  to.assign(kHeaderBytes, '\0');
  BinaryWriter(to).Number(round.number);
  to.append(round.content.data(), round.content.size());
  const absl::string_view body = absl::string_view(to).substr(kHeaderBytes);
  const auto size = static_cast<uint32_t>(body.size());
  const uint32_t checksum = Crc32cOf(body);
  std::memcpy(to.data(), &size, sizeof(size));
  std::memcpy(to.data() + sizeof(size), &checksum, sizeof(checksum));
}

std::optional<RoundFrame> TakeFrame(absl::string_view& bytes) {
  BinaryReader reader(bytes);
  const auto size = reader.Number<uint32_t>();
  const auto checksum = reader.Number<uint32_t>();
  const absl::string_view body = reader.Bytes(size);
  if (!reader.ok() || size < sizeof(uint64_t) || Crc32cOf(body) != checksum) {
    return std::nullopt;
  }
  bytes.remove_prefix(kHeaderBytes + size);
  return RoundFrame{.number = BinaryReader(body).Number<uint64_t>(),
                    .content = body.substr(sizeof(uint64_t))};
}

std::optional<size_t> FindFrame(absl::string_view bytes, uint64_t after) {
  // Numbers of rounds are near each other: few places come as far as a
  // checksum, which would take long at each.
  constexpr uint64_t kNear = uint64_t{1} << 40;
  for (size_t at = 0; at < bytes.size(); ++at) {
    BinaryReader reader(bytes.substr(at));
    reader.Number<uint64_t>();
    const auto number = reader.Number<uint64_t>();
    if (!reader.ok()) break;
    if (number <= after || number - after > kNear) continue;
    absl::string_view left = bytes.substr(at);
    if (TakeFrame(left).has_value()) return at;
  }
  return std::nullopt;
}

}  // namespace steadystate
