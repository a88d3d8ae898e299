// Of the products p = W x (and b, what is added where experts are chosen):
//   softmax: s = softmax(p);  sigmoid: s_e = 1 / (1 + exp(-p_e))
//   the k experts of the largest s + b, of the groups that are kept
//   w_e = factor s_e / (sum of those chosen + divided_with)
#include "server/model/parts/router.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "kernels/chunk/matrix_product.h"
#include "kernels/pointwise/activation.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// Rows that one task multiplies.
constexpr size_t kRowsOfTask = 8;

constexpr float kNever = -std::numeric_limits<float>::infinity();

// What is taken already. Products that are not a number count as kNever.
constexpr float kTaken = std::numeric_limits<float>::quiet_NaN();

// The index of the largest value that is not taken, the lowest of equal ones.
// REQUIRES: there is one.
size_t TakeLargest(float* values, size_t count) {
  size_t best = count;
  for (size_t i = 0; i < count; ++i) {
    if (std::isnan(values[i])) continue;
    if (best == count || values[i] > values[best]) best = i;
  }
  values[best] = kTaken;
  return best;
}

// Products become scores.
void Score(RouterOptions::Scores scores, size_t count, float* products) {
  if (scores == RouterOptions::Scores::kSigmoid) {
    Activate(Activation::kSigmoid, count, products, products);
    return;
  }
  const float max = *std::max_element(products, products + count);
  for (size_t i = 0; i < count; ++i) products[i] -= max;
  Activate(Activation::kExp, count, products, products);
  const float sum = std::accumulate(products, products + count, 0.0F);
  for (size_t i = 0; i < count; ++i) products[i] /= sum;
}

// The sum of the two largest, or of all that there are.
float SumOfTwoLargest(std::span<const float> values) {
  float first = kNever;
  float second = kNever;
  for (const float value : values) {
    if (value > first) {
      second = first;
      first = value;
    } else if (value > second) {
      second = value;
    }
  }
  const float sum = values.size() == 1 ? first : first + second;
  return std::isnan(sum) ? kNever : sum;
}

}  // namespace

absl::StatusOr<Router> Router::Make(const MixerBuilder& from,
                                    const RouterOptions& options) {
  Router router;
  router.options_ = options;
  router.D_ = from.hidden_size;
  router.gated_ = !options.shared_gate.empty();
  const size_t E = options.experts;
  STEADYSTATE_ASSIGN_OR_RETURN(
      std::vector<float> rows,
      from.weights.TakeFloats(options.matrix, {E, router.D_}));
  if (router.gated_) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        const std::vector<float> gate,
        from.weights.TakeFloats(options.shared_gate, {1, router.D_}));
    rows.insert(rows.end(), gate.begin(), gate.end());
  }
  if (!options.bias.empty()) {
    STEADYSTATE_ASSIGN_OR_RETURN(router.bias_,
                                 from.weights.TakeFloats(options.bias, {E}));
  }
  const size_t columns = router.columns();
  router.matrix_.resize(rows.size());
  for (size_t column = 0; column < columns; ++column) {
    for (size_t i = 0; i < router.D_; ++i) {
      router.matrix_[i * columns + column] = rows[column * router.D_ + i];
    }
  }
  return router;
}

void Router::Plan(RowScratchPlan& plan) {
  products_ = plan.Add(columns());
  biased_ = plan.Add(options_.experts);
}

void Router::Route(size_t rows, const float* x, Chosen* to, float* shared,
                   Workspace::Buffers& buffers) const {
  const size_t E = options_.experts;
  const size_t N = columns();
  float* const products = buffers.OfRows(rows)[products_];
  float* const biased = buffers.OfRows(rows)[biased_];
  const auto route = [&](size_t piece, size_t) {
    const size_t first = piece * kRowsOfTask;
    const size_t end = std::min(rows, first + kRowsOfTask);
    MatrixProduct({.m = end - first,
                   .n = N,
                   .k = D_,
                   .a = x + first * D_,
                   .a_row = D_,
                   .b = matrix_.data(),
                   .b_row = N,
                   .c = products + first * N,
                   .c_row = N});
    for (size_t row = first; row < end; ++row) {
      Choose(products + row * N, biased + row * E, to + row * options_.chosen);
      if (shared == nullptr) continue;
      Activate(Activation::kSigmoid, 1, products + row * N + E, shared + row);
    }
  };
  buffers.pool.ParallelFor((rows + kRowsOfTask - 1) / kRowsOfTask, route);
}

void Router::Choose(float* products, float* biased, Chosen* to) const {
  const size_t E = options_.experts;
  Score(options_.scores, E, products);
  for (size_t e = 0; e < E; ++e) {
    biased[e] = bias_.empty() ? products[e] : products[e] + bias_[e];
    if (std::isnan(biased[e])) biased[e] = kNever;
  }
  if (options_.groups > 1) KeepGroups(biased);
  float sum = options_.divided_with;
  for (size_t i = 0; i < options_.chosen; ++i) {
    const size_t expert = TakeLargest(biased, E);
    to[i] = {.expert = static_cast<uint32_t>(expert),
             .weight = products[expert]};
    sum += products[expert];
  }
  const float divisor = options_.divided_with < 0 ? 1 : sum;
  for (size_t i = 0; i < options_.chosen; ++i) {
    to[i].weight *= options_.factor / divisor;
  }
  std::sort(to, to + options_.chosen, [](const Chosen& a, const Chosen& b) {
    return a.expert < b.expert;
  });
}

void Router::KeepGroups(float* biased) const {
  const size_t size = options_.experts / options_.groups;
  // Of the groups, in the order of their scores, the best ones stay.
  float scores[RouterOptions::kMaxGroups];
  for (size_t group = 0; group < options_.groups; ++group) {
    scores[group] = SumOfTwoLargest({biased + group * size, size});
  }
  bool kept[RouterOptions::kMaxGroups] = {};
  for (size_t i = 0; i < options_.groups_kept; ++i) {
    kept[TakeLargest(scores, options_.groups)] = true;
  }
  for (size_t group = 0; group < options_.groups; ++group) {
    if (kept[group]) continue;
    std::fill_n(biased + group * size, size, kNever);
  }
}

}  // namespace steadystate
