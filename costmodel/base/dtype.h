// Element types of tensors, under PyTorch's short names. "bool" is read as b8; c64 is a complex
// number of two f32.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "costmodel/base/enum_names.h"

namespace shardlab {

enum class DType : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kB8,
  kU64,
  kC64,
};

template <>
struct EnumNames<DType> {
  static constexpr std::string_view kKind = "dtype";
  static constexpr std::array kNames = {
      Named{DType::kF64, "f64"},   Named{DType::kF32, "f32"},       Named{DType::kF16, "f16"},
      Named{DType::kBF16, "bf16"}, Named{DType::kF8E4M3, "f8e4m3"}, Named{DType::kF8E5M2, "f8e5m2"},
      Named{DType::kI64, "i64"},   Named{DType::kI32, "i32"},       Named{DType::kI16, "i16"},
      Named{DType::kI8, "i8"},     Named{DType::kU8, "u8"},         Named{DType::kB8, "b8"},
      Named{DType::kU64, "u64"},   Named{DType::kC64, "c64"},       Named{DType::kB8, "bool"}};
};
inline constexpr std::string_view kDTypeNames = kSpacedNames<DType>;

[[nodiscard]] int itemsize(DType dtype);  // bytes of one element
[[nodiscard]] std::string_view to_string(DType dtype);
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view name);
[[nodiscard]] bool is_floating_point(DType dtype);
// The largest relative error of rounding to the nearest: half of the distance from 1 to the next
// number. 0 for types other than f64, f32, f16 and bf16. Source: IEEE 754; bf16 has 8 significant
// bits.
[[nodiscard]] double unit_roundoff(DType dtype);
// The largest absolute error where a result is too small for unit_roundoff to hold: half of the
// smallest subnormal number. For f64 it is the smallest subnormal number itself, since a double
// cannot hold half of it.
[[nodiscard]] double underflow_error(DType dtype);

}  // namespace shardlab
