#include "server/text/byte_alphabet.h"

#include <array>
#include <cstddef>
#include <optional>

#include "server/text/utf8.h"

namespace steadystate {
namespace {

constexpr char32_t kFirstStandIn = 0x100;
constexpr size_t kStandIns = 68;

constexpr bool StandsForItself(size_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
         byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> of_byte{};
  std::array<char, kStandIns> byte_of_stand_in{};
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  size_t stand_ins = 0;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (StandsForItself(byte)) {
      alphabet.of_byte[byte] = static_cast<char32_t>(byte);
    } else {
      alphabet.of_byte[byte] = static_cast<char32_t>(kFirstStandIn + stand_ins);
      alphabet.byte_of_stand_in[stand_ins++] = static_cast<char>(byte);
    }
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

std::optional<char> ByteOf(char32_t code) {
  if (code < kFirstStandIn) {
    if (!StandsForItself(code)) return std::nullopt;
    return static_cast<char>(code);
  }
  if (code >= kFirstStandIn + kStandIns) return std::nullopt;
  return kAlphabet.byte_of_stand_in[code - kFirstStandIn];
}

}  // namespace

std::string ToByteAlphabet(absl::string_view text) {
  std::string mapped;
  mapped.reserve(text.size() * 2);
  for (const char byte : text) {
    AppendUtf8(kAlphabet.of_byte[static_cast<unsigned char>(byte)], mapped);
  }
  return mapped;
}

void AppendFromByteAlphabet(absl::string_view token, std::string& to) {
  const size_t before = to.size();
  for (absl::string_view rest = token; !rest.empty();) {
    const Character character = FirstCharacter(rest);
    const std::optional<char> byte = ByteOf(character.code);
    if (!byte.has_value()) {
      to.resize(before);
      to.append(token.data(), token.size());
      return;
    }
    to.push_back(*byte);
    rest.remove_prefix(character.bytes);
  }
}

}  // namespace steadystate
