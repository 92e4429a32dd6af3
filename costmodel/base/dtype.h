// Element types by PyTorch's short names: f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u8 b8
// u64 c64 ("bool" is read as b8; c64 is a complex number of two f32).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

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

[[nodiscard]] int itemsize(DType dtype);  // bytes of one element
[[nodiscard]] std::string_view to_string(DType dtype);
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view name);
[[nodiscard]] bool is_floating_point(DType dtype);
// Half of the distance from 1 to the next number, relative; 0 for types that are not f64, f32, f16
// or bf16. (IEEE 754; bf16 has 8 significant bits.)
[[nodiscard]] double unit_roundoff(DType dtype);
// Half of the least subnormal number (of f64, that number): the error of a result too small for u.
[[nodiscard]] double underflow_error(DType dtype);

inline constexpr std::string_view kDTypeNames =
    "f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u8 b8 u64 c64";

}  // namespace shardlab
