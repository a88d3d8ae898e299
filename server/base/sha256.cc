#include "server/base/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace steadystate {

void Sha256::Free::operator()(EVP_MD_CTX* context) const {
  EVP_MD_CTX_free(context);
}

Sha256::Sha256()
    : context_(EVP_MD_CTX_new()),
      failed_(context_ == nullptr ||
              EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) {}

void Sha256::Update(std::span<const std::byte> bytes) {
  failed_ = failed_ ||
            EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) != 1;
}

absl::StatusOr<std::string> Sha256::FinishHex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (failed_ ||
      EVP_DigestFinal_ex(context_.get(), digest.data(), &size) != 1) {
    return absl::InternalError("OpenSSL does not compute SHA-256 here");
  }
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

}  // namespace steadystate
