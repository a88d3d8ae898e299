#include "server/checkpoint/weight_store.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// "[8, 32]", with an open dimension "[any, 32]".
std::string ShapeText(std::span<const size_t> shape, bool open = false) {
  std::vector<std::string> sizes;
  for (const size_t size : shape) {
    sizes.push_back(open && size == WeightStore::kOpen ? "any"
                                                       : absl::StrCat(size));
  }
  return absl::StrCat("[", absl::StrJoin(sizes, ", "), "]");
}

std::optional<DType> WeightDType(absl::string_view dtype) {
  if (dtype == "F32") return DType::kF32;
  if (dtype == "BF16") return DType::kBf16;
  if (dtype == "F16") return DType::kF16;
  return std::nullopt;
}

std::string Quoted(absl::string_view name) {
  return absl::StrCat("'", name, "'");
}

size_t Elements(std::span<const size_t> shape) {
  size_t elements = 1;
  for (const size_t dimension : shape) elements *= dimension;
  return elements;
}

}  // namespace

WeightStore::WeightStore(const Checkpoint& checkpoint, Progress progress)
    : checkpoint_(checkpoint), progress_(std::move(progress)) {
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    elements_ += Elements(tensor->shape);
  }
}

absl::Status WeightStore::Missing(absl::string_view names,
                                  absl::string_view shape) const {
  return absl::InvalidArgumentError(
      absl::StrCat(checkpoint_.directory(), ": tensor ", names, " of shape ",
                   shape, " is missing from the checkpoint"));
}

absl::Status WeightStore::Misshapen(absl::string_view name,
                                    std::span<const size_t> found,
                                    absl::string_view expected) const {
  return absl::InvalidArgumentError(
      absl::StrCat(checkpoint_.directory(), ": tensor '", name, "' has shape ",
                   ShapeText(found), ", the config asks for ", expected));
}

bool WeightStore::Has(const std::string& name) const {
  return checkpoint_.tensors().contains(name);
}

bool WeightStore::HasAny(const std::string& prefix) const {
  const auto first = checkpoint_.tensors().lower_bound(prefix);
  return first != checkpoint_.tensors().end() &&
         absl::StartsWith(first->first, prefix);
}

std::optional<std::vector<size_t>> WeightStore::ShapeOf(
    const std::string& name) const {
  const auto found = checkpoint_.tensors().find(name);
  if (found == checkpoint_.tensors().end()) return std::nullopt;
  return found->second->shape;
}

bool WeightStore::Equal(const std::string& name,
                        const std::string& other) const {
  const auto a = checkpoint_.tensors().find(name);
  const auto b = checkpoint_.tensors().find(other);
  if (a == checkpoint_.tensors().end() || b == checkpoint_.tensors().end()) {
    return false;
  }
  return a->second->dtype == b->second->dtype &&
         a->second->shape == b->second->shape &&
         std::equal(a->second->data, a->second->data + a->second->bytes,
                    b->second->data);
}

absl::StatusOr<TypedData> WeightStore::Take(const std::string& name,
                                            std::span<const size_t> shape) {
  const auto found = checkpoint_.tensors().find(name);
  if (found == checkpoint_.tensors().end()) {
    return Missing(Quoted(name), ShapeText(shape));
  }
  const StoredTensor& tensor = *found->second;
  if (!std::ranges::equal(tensor.shape, shape)) {
    return Misshapen(name, tensor.shape, ShapeText(shape));
  }
  const std::optional<DType> dtype = WeightDType(tensor.dtype);
  if (!dtype.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        checkpoint_.directory(), ": tensor '", name, "' has dtype ",
        tensor.dtype, "; weights are F32, BF16 or F16"));
  }
  if (taken_.insert(name).second) {
    if (progress_) progress_(parameters_, elements_);
    parameters_ += Elements(shape);
  }
  return TypedData{tensor.data, *dtype};
}

absl::StatusOr<size_t> WeightStore::OpenSize(
    const std::string& name, std::span<const size_t> shape) const {
  const std::string text = ShapeText(shape, true);
  const auto found = ShapeOf(name);
  if (!found.has_value()) return Missing(Quoted(name), text);
  size_t open = 0;
  bool fits = found->size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    if (shape[i] == kOpen) open = (*found)[i];
    fits = shape[i] == kOpen ? open > 0 : (*found)[i] == shape[i];
  }
  if (!fits) return Misshapen(name, *found, text);
  return open;
}

std::vector<std::string> WeightStore::Unused(
    std::span<const absl::string_view> foreign) const {
  std::vector<std::string> unused;
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    if (taken_.contains(name) || absl::EndsWith(name, ".rotary.inv_freq")) {
      continue;
    }
    const absl::string_view full = name;
    if (std::ranges::any_of(foreign, [full](absl::string_view prefix) {
          return absl::StartsWith(full, prefix);
        })) {
      continue;
    }
    unused.push_back(name);
  }
  return unused;
}

WeightScope WeightScope::Child(absl::string_view prefix) const {
  return WeightScope(*store_, FullName(prefix));
}

bool WeightScope::HasAny() const { return store_->HasAny(prefix_); }

bool WeightScope::Has(absl::string_view name) const {
  return store_->Has(FullName(name));
}

std::optional<std::vector<size_t>> WeightScope::ShapeOf(
    absl::string_view name) const {
  return store_->ShapeOf(FullName(name));
}

bool WeightScope::Equal(absl::string_view name, absl::string_view other) const {
  return store_->Equal(FullName(name), FullName(other));
}

absl::StatusOr<TypedData> WeightScope::Take(
    absl::string_view name, std::initializer_list<size_t> shape) const {
  return store_->Take(FullName(name), shape);
}

absl::StatusOr<size_t> WeightScope::OpenSize(
    absl::string_view name, std::initializer_list<size_t> shape) const {
  return store_->OpenSize(FullName(name),
                          std::span(shape.begin(), shape.size()));
}

absl::StatusOr<std::vector<float>> WeightScope::TakeFloats(
    absl::string_view name, std::initializer_list<size_t> shape) const {
  STEADYSTATE_ASSIGN_OR_RETURN(const TypedData data, Take(name, shape));
  std::vector<float> floats(Elements(shape));
  ConvertToF32(data, 0, floats.size(), floats.data());
  return floats;
}

absl::StatusOr<std::vector<float>> WeightScope::TakeFloatsOfEither(
    absl::string_view name, absl::string_view other_name,
    std::initializer_list<size_t> shape) const {
  if (Has(name)) return TakeFloats(name, shape);
  if (Has(other_name)) return TakeFloats(other_name, shape);
  return store_->Missing(absl::StrCat(Quoted(FullName(name)), " (or ",
                                      Quoted(FullName(other_name)), ")"),
                         ShapeText(std::span(shape.begin(), shape.size())));
}

std::string WeightScope::FullName(absl::string_view name) const {
  return absl::StrCat(prefix_, name);
}

}  // namespace steadystate
