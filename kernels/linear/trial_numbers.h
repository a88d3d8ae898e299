#ifndef STEADYSTATE_KERNELS_LINEAR_TRIAL_NUMBERS_H_
#define STEADYSTATE_KERNELS_LINEAR_TRIAL_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace steadystate {

// Random numbers for trials, the same in every process.
class TrialNumbers {
 public:
  // Of a random sign and magnitude in [2^low, 2^high): every binade is as
  // likely.
  float Spread(int low, int high);

  // In [0, n). REQUIRES: 0 < n < 2^31.
  size_t Below(size_t n);

 private:
  uint32_t Next();
  uint64_t state_ = 2;
};

// Inputs and weights whose products show in what order they were added up, and
// what was rounded on the way. All magnitudes are far apart, so that nearly
// every addition rounds; and inputs are in pairs whose weights differ in sign
// alone, in all columns. Where a row has one large number at both, the products
// are large until the second comes and then gone, and what is left is what had
// been added before, between and after them.
class TellingNumbers {
 public:
  explicit TellingNumbers(size_t in);

  // One column.
  //   to  f32[in]  out
  void FillColumn(float* to);

  // The next row, of one of three kinds in turn: without pairs, with as many
  // pairs as not, with a single pair. The single ones begin at the last inputs,
  // which is where loops have their tails.
  //   to  f32[in]  out
  void FillRow(float* to);

 private:
  void FillSpread(int low, int high, float* to);

  const size_t in_;
  TrialNumbers numbers_;
  size_t rows_ = 0;               // that have been made
  std::vector<size_t> partners_;  // of each input; one may be its own
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_TRIAL_NUMBERS_H_
