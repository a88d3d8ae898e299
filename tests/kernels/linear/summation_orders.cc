#include "tests/kernels/linear/summation_orders.h"

#include <algorithm>

namespace steadystate {
namespace {

uint64_t Hash(uint64_t kind, uint64_t a, uint64_t b) {
  uint64_t hash = kind;
  for (const uint64_t word : {a, b}) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
    hash = hash * 0xbf58476d1ce4e5b9u;
    hash ^= hash >> 32;
  }
  return hash | 1;  // 0 is the sum of nothing
}

enum Kind : uint64_t { kTerm = 1, kSum, kFused, kBf16, kDouble };

// The terms of [begin, end) that are `stride` apart, one after the other.
template <typename Terms>
typename Terms::Value Chain(const Terms& terms, size_t begin, size_t end,
                            size_t stride = 1) {
  auto sum = Terms::Zero();
  for (size_t i = begin; i < end; i += stride) sum = terms.MultiplyAdd(i, sum);
  return sum;
}

// The sums of `parts`, the first first or the last first.
template <typename Terms>
typename Terms::Value InOrder(const Terms&,
                              const std::vector<typename Terms::Value>& parts,
                              bool from_last = false) {
  auto sum = Terms::Zero();
  for (size_t i = 0; i < parts.size(); ++i) {
    sum = Terms::Add(sum, parts[from_last ? parts.size() - 1 - i : i]);
  }
  return sum;
}

// Neighbours are added, then neighbours of these, and so on.
template <typename Terms>
typename Terms::Value AsTree(const Terms&,
                             std::vector<typename Terms::Value> parts) {
  while (parts.size() > 1) {
    std::vector<typename Terms::Value> sums;
    for (size_t i = 0; i < parts.size(); i += 2) {
      sums.push_back(i + 1 < parts.size() ? Terms::Add(parts[i], parts[i + 1])
                                          : parts[i]);
    }
    parts = std::move(sums);
  }
  return parts.empty() ? Terms::Zero() : parts.front();
}

template <typename Terms>
std::vector<typename Terms::Value> Chunks(const Terms& terms, size_t length) {
  std::vector<typename Terms::Value> chunks;
  for (size_t begin = 0; begin < terms.size(); begin += length) {
    chunks.push_back(
        Chain(terms, begin, std::min(begin + length, terms.size())));
  }
  return chunks;
}

template <typename Terms>
std::vector<typename Terms::Value> Products(const Terms& terms) {
  std::vector<typename Terms::Value> products;
  for (size_t i = 0; i < terms.size(); ++i) {
    products.push_back(terms.Product(i));
  }
  return products;
}

// Accumulators that terms go to in turn, as to the lanes of a vector.
template <typename Terms>
std::vector<typename Terms::Value> Lanes(const Terms& terms, size_t lanes) {
  std::vector<typename Terms::Value> sums;
  for (size_t lane = 0; lane < lanes; ++lane) {
    sums.push_back(Chain(terms, lane, terms.size(), lanes));
  }
  return sums;
}

// s + (a + b) for so many terms at a time, a of the even ones and b of the odd.
template <typename Terms>
typename Terms::Value EvenAndOddBlocks(const Terms& terms, size_t length) {
  auto sum = Terms::Zero();
  for (size_t begin = 0; begin < terms.size(); begin += length) {
    const size_t end = std::min(begin + length, terms.size());
    sum = Terms::Add(sum, Terms::Add(Chain(terms, begin, end, 2),
                                     Chain(terms, begin + 1, end, 2)));
  }
  return sum;
}

// One chain of groups, each of which is entered from its last term.
template <typename Terms>
typename Terms::Value ChainOfTurnedGroups(const Terms& terms, size_t length) {
  auto sum = Terms::Zero();
  for (size_t begin = 0; begin < terms.size(); begin += length) {
    for (size_t i = std::min(begin + length, terms.size()); i-- > begin;) {
      sum = terms.MultiplyAdd(i, sum);
    }
  }
  return sum;
}

// What is left of whole groups is added up by itself.
template <typename Terms>
typename Terms::Value TailApart(const Terms& terms, size_t length) {
  const size_t whole = terms.size() / length * length;
  return Terms::Add(Chain(terms, 0, whole), Chain(terms, whole, terms.size()));
}

// A chain that starts within and ends with what lies before.
template <typename Terms>
typename Terms::Value ChainFrom(const Terms& terms, size_t start) {
  auto sum = Terms::Zero();
  for (size_t i = 0; i < terms.size(); ++i) {
    sum = terms.MultiplyAdd((start + i) % terms.size(), sum);
  }
  return sum;
}

// A chain whose sum is rounded to bf16 after every `length` terms.
template <typename Terms>
typename Terms::Value RoundedChain(const Terms& terms, size_t length) {
  auto sum = Terms::Zero();
  for (size_t i = 0; i < terms.size(); ++i) {
    sum = terms.MultiplyAdd(i, sum);
    if ((i + 1) % length == 0) sum = Terms::RoundToBf16(sum);
  }
  return sum;
}

template <typename Sum>
SummationOrder Make(std::string name, const Sum& sum) {
  return {std::move(name),
          [sum](const FloatTerms& terms) { return sum(terms); },
          [sum](const FormulaTerms& terms) { return sum(terms); }};
}

using Orders = std::vector<SummationOrder>;

void AddChains(Orders& orders) {
  orders.push_back(
      Make("chain", [](const auto& t) { return Chain(t, 0, t.size()); }));
  orders.push_back(Make("backwards", [](const auto& t) {
    return ChainOfTurnedGroups(t, t.size());
  }));
  for (const size_t length : {2u, 4u, 8u, 16u}) {
    orders.push_back(
        Make("turned groups of " + std::to_string(length),
             [=](const auto& t) { return ChainOfTurnedGroups(t, length); }));
  }
  for (const size_t part : {1u, 2u, 3u}) {
    orders.push_back(
        Make("from " + std::to_string(part) + "/3", [=](const auto& t) {
          return ChainFrom(t, part == 3 ? t.size() - 1 : part * t.size() / 3);
        }));
  }
  orders.push_back(Make("products rounded",
                        [](const auto& t) { return InOrder(t, Products(t)); }));
}

void AddChunks(Orders& orders) {
  for (const size_t length :
       {2u,  3u,  4u,  5u,   7u,   8u,   15u,  16u,  24u,   31u,   32u,  33u,
        48u, 63u, 64u, 128u, 256u, 384u, 512u, 768u, 1024u, 2048u, 4096u}) {
    const std::string name = "chunks of " + std::to_string(length);
    orders.push_back(Make(
        name, [=](const auto& t) { return InOrder(t, Chunks(t, length)); }));
    orders.push_back(Make(name + ", last first", [=](const auto& t) {
      return InOrder(t, Chunks(t, length), true);
    }));
  }
  for (const size_t parts : {2u, 3u, 4u}) {
    orders.push_back(Make("K in " + std::to_string(parts), [=](const auto& t) {
      return InOrder(t, Chunks(t, (t.size() + parts - 1) / parts));
    }));
  }
  for (const size_t length : {2u, 4u, 8u, 16u, 32u, 64u}) {
    orders.push_back(Make("tail of " + std::to_string(length),
                          [=](const auto& t) { return TailApart(t, length); }));
  }
}

void AddAccumulators(Orders& orders) {
  for (const size_t lanes : {2u, 4u, 8u, 16u}) {
    const std::string name = std::to_string(lanes) + " accumulators";
    orders.push_back(
        Make(name, [=](const auto& t) { return InOrder(t, Lanes(t, lanes)); }));
    orders.push_back(Make(name + ", tree", [=](const auto& t) {
      return AsTree(t, Lanes(t, lanes));
    }));
  }
  for (const size_t length : {4u, 8u, 16u, 32u, 64u, 128u}) {
    orders.push_back(
        Make("even and odd of " + std::to_string(length),
             [=](const auto& t) { return EvenAndOddBlocks(t, length); }));
  }
}

void AddTrees(Orders& orders) {
  orders.push_back(
      Make("tree", [](const auto& t) { return AsTree(t, Products(t)); }));
  for (const size_t length : {2u, 4u, 16u}) {
    orders.push_back(
        Make("tree of chunks of " + std::to_string(length),
             [=](const auto& t) { return AsTree(t, Chunks(t, length)); }));
  }
}

void AddPrecisions(Orders& orders) {
  for (const size_t length : {1u, 2u, 16u, 64u, 512u}) {
    orders.push_back(
        Make("bf16 after " + std::to_string(length),
             [=](const auto& t) { return RoundedChain(t, length); }));
  }
  orders.push_back(Make("bf16", [](const auto& t) {
    return std::decay_t<decltype(t)>::RoundToBf16(Chain(t, 0, t.size()));
  }));
  orders.push_back(
      Make("double", [](const auto& t) { return t.SumInDouble(0, t.size()); }));
  orders.push_back(Make("double, but for the last", [](const auto& t) {
    return t.MultiplyAdd(t.size() - 1, t.SumInDouble(0, t.size() - 1));
  }));
}

}  // namespace

float FloatTerms::RoundToBf16(float value) {
  uint16_t bits = 0;
  ConvertToBf16(1, &value, &bits);
  ConvertToF32({&bits, DType::kBf16}, 0, 1, &value);
  return value;
}

float FloatTerms::SumInDouble(size_t begin, size_t end) const {
  double sum = 0;
  for (size_t i = begin; i < end; ++i) {
    sum += static_cast<double>(x_[i]) * static_cast<double>(w_[i]);
  }
  return static_cast<float>(sum);
}

uint64_t FormulaTerms::Add(uint64_t a, uint64_t b) {
  if (a == 0) return b;
  if (b == 0) return a;
  return Hash(kSum, std::min(a, b), std::max(a, b));
}

uint64_t FormulaTerms::Product(size_t i) const { return Hash(kTerm, i, 0); }

uint64_t FormulaTerms::MultiplyAdd(size_t i, uint64_t sum) const {
  if (sum == 0 || dtype_ == DType::kBf16) return Add(Product(i), sum);
  return Hash(kFused, i, sum);
}

uint64_t FormulaTerms::RoundToBf16(uint64_t value) {
  return value == 0 ? 0 : Hash(kBf16, value, 0);
}

uint64_t FormulaTerms::SumInDouble(size_t begin, size_t end) const {
  const size_t terms = end - begin;
  if (terms == 0) return 0;
  if (terms == 1) return Product(begin);
  // Two products of bf16 are exact in double as they are in f32.
  if (terms == 2 && dtype_ == DType::kBf16) {
    return Add(Product(begin), Product(begin + 1));
  }
  return Hash(kDouble, begin, end);
}

std::vector<SummationOrder> AllSummationOrders() {
  Orders orders;
  AddChains(orders);
  AddChunks(orders);
  AddAccumulators(orders);
  AddTrees(orders);
  AddPrecisions(orders);
  return orders;
}

}  // namespace steadystate
