#ifndef STEADYSTATE_TESTS_KERNELS_NUMBERS_H_
#define STEADYSTATE_TESTS_KERNELS_NUMBERS_H_

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace steadystate {

// A float array whose last element is the last of its page, before one that
// cannot be read, so that one element too many ends the test, in every build;
// the first is not aligned to anything but a float, as a rule.
class Floats {
 public:
  explicit Floats(size_t n) : n_(n), pages_(Map(n)) {}
  explicit Floats(std::span<const float> values) : Floats(values.size()) {
    std::copy(values.begin(), values.end(), data());
  }
  Floats(const Floats& other) : Floats(std::span<const float>(other)) {}
  Floats(Floats&& other) noexcept
      : n_(std::exchange(other.n_, 0)),
        pages_(std::exchange(other.pages_, nullptr)) {}
  ~Floats() {
    if (pages_ != nullptr) munmap(pages_, Bytes(n_) + kPage);
  }

  size_t size() const { return n_; }
  float* data() { return reinterpret_cast<float*>(pages_ + Bytes(n_)) - n_; }
  const float* data() const {
    return reinterpret_cast<const float*>(pages_ + Bytes(n_)) - n_;
  }
  float& operator[](size_t i) { return data()[i]; }
  float operator[](size_t i) const { return data()[i]; }
  float* begin() { return data(); }
  float* end() { return data() + n_; }
  const float* begin() const { return data(); }
  const float* end() const { return data() + n_; }
  operator std::span<const float>() const { return {data(), n_}; }

 private:
  static constexpr size_t kPage = 4096;

  // Of the pages that hold so many floats.
  static size_t Bytes(size_t n) {
    return (n * sizeof(float) + kPage - 1) / kPage * kPage;
  }
  static std::byte* Map(size_t n) {
    void* pages = mmap(nullptr, Bytes(n) + kPage, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    auto* const bytes = static_cast<std::byte*>(pages);
    if (mprotect(bytes + Bytes(n), kPage, PROT_NONE) != 0) {
      throw std::bad_alloc();
    }
    return bytes;
  }

  size_t n_;
  std::byte* pages_;
};

// Random test inputs; put the seed into the failure message.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : generator_(seed) {}

  float Uniform(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(generator_);
  }
  Floats Uniform(size_t n, float low, float high) {
    Floats values(n);
    for (float& value : values) value = Uniform(low, high);
    return values;
  }
  // In [0, n).
  size_t Below(size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(generator_);
  }

 private:
  std::mt19937_64 generator_;
};

inline bool SameBits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

// |actual - exact| in units of the last place of a float near `exact`.
// Infinities of one sign agree, as do NaNs.
inline double UlpError(float actual, double exact) {
  const auto nearest = static_cast<float>(exact);
  if (std::isnan(exact)) return std::isnan(actual) ? 0.0 : HUGE_VAL;
  if (std::isinf(nearest)) return actual == nearest ? 0.0 : HUGE_VAL;
  int exponent = 0;
  std::frexp(exact, &exponent);
  const double ulp = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::abs(static_cast<double>(actual) - exact) / ulp;
}

// Numbers from every region of float: dense where exp, log and sigmoid bend,
// one of each binade, subnormals, the ends of the range.
inline std::vector<float> ManyFiniteFloats() {
  std::vector<float> values = {0.0f, -0.0f};
  for (float x = -110.0f; x <= 110.0f; x += 0.0137f) values.push_back(x);
  for (float x = 1e-45f; x < 1e38f; x *= 1.7f) {
    values.push_back(x);
    values.push_back(-x);
  }
  values.push_back(std::numeric_limits<float>::max());
  values.push_back(std::numeric_limits<float>::lowest());
  return values;
}

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_KERNELS_NUMBERS_H_
