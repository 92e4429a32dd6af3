#include "sim/host_tensor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <string>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

// The size of a cache line, which is enough for every element type and vector unit.
constexpr std::align_val_t kAlignment{64};

std::int64_t product(const Shape& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  return elements;
}

}  // namespace

void HostMemory::Freed::operator()(std::byte* block) const { ::operator delete(block, kAlignment); }

std::shared_ptr<HostMemory> HostMemory::make(std::int64_t limit_bytes) {
  return std::shared_ptr<HostMemory>(new HostMemory(limit_bytes));
}

std::shared_ptr<std::byte> HostMemory::allocate(std::int64_t bytes) {
  SHARDLAB_CHECK(bytes >= 0, bytes, " bytes");
  std::unique_ptr<std::byte, Freed> block;
  {
    const std::lock_guard lock(mutex_);
    if (bytes > limit_bytes_ - in_use_bytes_) {
      throw LimitError("the data of the virtual ranks needs " +
                       format_bytes(static_cast<double>(bytes)) + " beside the " +
                       format_bytes(static_cast<double>(in_use_bytes_)) + " in use; the limit is " +
                       format_bytes(static_cast<double>(limit_bytes_)) +
                       "; valid: a larger limit, a smaller tensor or mesh, or shapes only");
    }
    const auto found = pool_.find(bytes);
    if (found != pool_.end()) {
      block = std::move(found->second);
      pool_.erase(found);
      pooled_bytes_ -= bytes;
    } else if (in_use_bytes_ + pooled_bytes_ + bytes > limit_bytes_) {
      pool_.clear();
      pooled_bytes_ = 0;
    }
    in_use_bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, in_use_bytes_);
  }
  if (!block) {
    const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
    block.reset(static_cast<std::byte*>(::operator new(size, kAlignment, std::nothrow)));
    if (!block) {
      const std::lock_guard lock(mutex_);
      in_use_bytes_ -= bytes;
      throw LimitError(
          "this machine has no " + format_bytes(static_cast<double>(bytes)) +
          " for the data of the virtual ranks; valid: a smaller limit, tensor or mesh, "
          "or shapes only");
    }
  }
  return {block.release(),
          [memory = shared_from_this(), bytes](std::byte* p) { memory->give_back(p, bytes); }};
}

void HostMemory::give_back(std::byte* block, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  in_use_bytes_ -= bytes;
  pooled_bytes_ += bytes;
  pool_.emplace(bytes, std::unique_ptr<std::byte, Freed>(block));
}

std::int64_t HostMemory::in_use_bytes() const {
  const std::lock_guard lock(mutex_);
  return in_use_bytes_;
}

std::int64_t HostMemory::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_bytes_;
}

bool holds_data(DType dtype) {
  constexpr std::array<DType, 4> kShapesOnly = {DType::kF8E4M3, DType::kF8E5M2, DType::kU64,
                                                DType::kC64};
  return std::find(kShapesOnly.begin(), kShapesOnly.end(), dtype) == kShapesOnly.end();
}

HostTensor HostTensor::make(HostMemory& memory, DType dtype, const Shape& shape) {
  if (!holds_data(dtype)) {
    throw InputError("dtype " + std::string(to_string(dtype)) +
                     " holds no data here; valid: f64 f32 f16 bf16 i64 i32 i16 i8 u8 b8, or shapes "
                     "only");
  }
  HostTensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  tensor.buffer_ = memory.allocate(product(shape) * itemsize(dtype));
  tensor.data_ = tensor.buffer_.get();
  return tensor;
}

std::int64_t HostTensor::elements() const { return product(shape_); }

std::byte* HostTensor::writable() {
  SHARDLAB_CHECK(buffer_.use_count() == 1, "a buffer that ", buffer_.use_count(), " tensors share");
  return data_;
}

HostTensor HostTensor::narrow_rows(std::int64_t begin, std::int64_t count) const {
  SHARDLAB_CHECK(ndim() > 0 && begin >= 0 && count >= 0 && begin + count <= extent(0), "rows ",
                 begin, " to ", begin + count);
  HostTensor rows = *this;
  rows.shape_[0] = count;
  if (extent(0) > 0) rows.data_ += begin * (bytes() / extent(0));
  return rows;
}

HostTensor HostTensor::reshape(const Shape& shape) const {
  SHARDLAB_CHECK(product(shape) == elements(), product(shape), " elements for ", elements());
  HostTensor other = *this;
  other.shape_ = shape;
  return other;
}

bool HostTensor::same_bits(const HostTensor& other) const {
  if (dtype_ != other.dtype_ || shape_ != other.shape_) return false;
  if (data_ == other.data_ || elements() == 0) return true;
  return std::memcmp(data_, other.data_, static_cast<std::size_t>(bytes())) == 0;
}

}  // namespace shardlab
