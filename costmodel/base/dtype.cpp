#include "costmodel/base/dtype.h"

#include <array>

#include "costmodel/base/index.h"

namespace shardlab {
namespace {

struct DTypeRow {
  std::string_view name;
  int itemsize;
  bool floating_point;
};

constexpr std::array<DTypeRow, 14> kRows = {{
    {"f64", 8, true},
    {"f32", 4, true},
    {"f16", 2, true},
    {"bf16", 2, true},
    {"f8e4m3", 1, true},
    {"f8e5m2", 1, true},
    {"i64", 8, false},
    {"i32", 4, false},
    {"i16", 2, false},
    {"i8", 1, false},
    {"u8", 1, false},
    {"b8", 1, false},
    {"u64", 8, false},
    {"c64", 8, false},
}};

const DTypeRow& row(DType dtype) { return kRows[to_index(dtype)]; }

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
  for (const Rounding& row : kRoundings) {
    if (row.dtype == dtype) return row;
  }
  return {dtype, 0.0, 0.0};
}

}  // namespace

int itemsize(DType dtype) { return row(dtype).itemsize; }
std::string_view to_string(DType dtype) { return row(dtype).name; }
bool is_floating_point(DType dtype) { return row(dtype).floating_point; }

std::optional<DType> dtype_from_name(std::string_view name) {
  if (name == "bool") return DType::kB8;
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

double unit_roundoff(DType dtype) { return rounding_of(dtype).unit_roundoff; }
double underflow_error(DType dtype) { return rounding_of(dtype).underflow_error; }

}  // namespace shardlab
