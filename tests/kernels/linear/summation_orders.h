#ifndef STEADYSTATE_TESTS_KERNELS_LINEAR_SUMMATION_ORDERS_H_
#define STEADYSTATE_TESTS_KERNELS_LINEAR_SUMMATION_ORDERS_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/dtype.h"

namespace steadystate {

// The products of a row and a column, for a SummationOrder to add up in f32.
class FloatTerms {
 public:
  using Value = float;

  // `x` and `w` are of one length and outlive this.
  FloatTerms(std::span<const float> x, std::span<const float> w)
      : x_(x), w_(w) {}

  size_t size() const { return x_.size(); }
  static Value Zero() { return 0.0f; }
  static Value Add(Value a, Value b) { return a + b; }
  Value Product(size_t i) const { return MultiplyAdd(i, Zero()); }
  Value MultiplyAdd(size_t i, Value sum) const {
    return std::fma(x_[i], w_[i], sum);
  }
  static Value RoundToBf16(Value value);
  // Of the terms from `begin` on before `end`, rounded once at the end.
  Value SumInDouble(size_t begin, size_t end) const;

 private:
  std::span<const float> x_;
  std::span<const float> w_;
};

// The same for the formula itself, as a hash: equal for two orders that compute
// the same, whatever the numbers are. Sums commute, a sum with nothing is the
// other, and products of bf16 are exact in f32.
class FormulaTerms {
 public:
  using Value = uint64_t;

  FormulaTerms(size_t size, DType dtype) : size_(size), dtype_(dtype) {}

  size_t size() const { return size_; }
  static Value Zero() { return 0; }
  static Value Add(Value a, Value b);
  Value Product(size_t i) const;
  Value MultiplyAdd(size_t i, Value sum) const;
  static Value RoundToBf16(Value value);
  Value SumInDouble(size_t begin, size_t end) const;

 private:
  size_t size_;
  DType dtype_;
};

// A way to add up products.
struct SummationOrder {
  std::string name;
  std::function<float(const FloatTerms&)> sum;
  std::function<uint64_t(const FormulaTerms&)> formula;
};

// Those that multiplications are known to use, and neighbours of theirs that
// differ in a single place.
std::vector<SummationOrder> AllSummationOrders();

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_KERNELS_LINEAR_SUMMATION_ORDERS_H_
