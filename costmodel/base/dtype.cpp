#include "costmodel/base/dtype.h"

#include <array>

#include "costmodel/base/index.h"

namespace shardlab {
namespace {

struct Layout {
  int itemsize;  // bytes
  bool floating_point;
};
// One row per enumerator, in the order of DType.
constexpr std::array<Layout, 14> kLayouts = {{{8, true},     // f64
                                              {4, true},     // f32
                                              {2, true},     // f16
                                              {2, true},     // bf16
                                              {1, true},     // f8e4m3
                                              {1, true},     // f8e5m2
                                              {8, false},    // i64
                                              {4, false},    // i32
                                              {2, false},    // i16
                                              {1, false},    // i8
                                              {1, false},    // u8
                                              {1, false},    // b8
                                              {8, false},    // u64
                                              {8, false}}};  // c64

struct Rounding {
  DType dtype;
  double unit_roundoff;
  double underflow_error;
};
constexpr std::array<Rounding, 4> kRoundings = {{{DType::kF64, 0x1p-53, 0x1p-1074},
                                                 {DType::kF32, 0x1p-24, 0x1p-150},
                                                 {DType::kF16, 0x1p-11, 0x1p-25},
                                                 {DType::kBF16, 0x1p-8, 0x1p-134}}};

Rounding rounding_of(DType dtype) {
  for (const Rounding& rounding : kRoundings) {
    if (rounding.dtype == dtype) return rounding;
  }
  return {dtype, 0.0, 0.0};
}

// The names that PyTorch prints and accepts, and those that people use. Source: PyTorch 2.13.0,
// docs/source/tensor_attributes.rst, and torch.utils._dtype_abbrs for f8e4m3fn.
constexpr std::array<Named<DType>, 25> kTorchNames = {{{DType::kF64, "float64"},
                                                       {DType::kF64, "double"},
                                                       {DType::kF64, "fp64"},
                                                       {DType::kF32, "float32"},
                                                       {DType::kF32, "float"},
                                                       {DType::kF32, "fp32"},
                                                       {DType::kF16, "float16"},
                                                       {DType::kF16, "half"},
                                                       {DType::kF16, "fp16"},
                                                       {DType::kBF16, "bfloat16"},
                                                       {DType::kF8E4M3, "float8_e4m3fn"},
                                                       {DType::kF8E4M3, "f8e4m3fn"},
                                                       {DType::kF8E5M2, "float8_e5m2"},
                                                       {DType::kI64, "int64"},
                                                       {DType::kI64, "long"},
                                                       {DType::kI32, "int32"},
                                                       {DType::kI32, "int"},
                                                       {DType::kI16, "int16"},
                                                       {DType::kI16, "short"},
                                                       {DType::kI8, "int8"},
                                                       {DType::kU8, "uint8"},
                                                       {DType::kU64, "uint64"},
                                                       {DType::kC64, "complex64"},
                                                       {DType::kC64, "cfloat"},
                                                       {DType::kB8, "bool"}}};

}  // namespace

int itemsize(DType dtype) { return kLayouts[to_index(dtype)].itemsize; }
bool is_floating_point(DType dtype) { return kLayouts[to_index(dtype)].floating_point; }
std::string_view to_string(DType dtype) { return name_of(dtype); }

std::optional<DType> dtype_from_name(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  for (const auto& [dtype, word] : kTorchNames) {
    if (word == name) return dtype;
  }
  return from_name<DType>(name);
}

double unit_roundoff(DType dtype) { return rounding_of(dtype).unit_roundoff; }
double underflow_error(DType dtype) { return rounding_of(dtype).underflow_error; }

}  // namespace shardlab
