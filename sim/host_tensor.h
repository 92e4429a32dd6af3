// The tensors that virtual ranks hold, in host memory.
//
//   auto memory = HostMemory::make(std::int64_t{8} << 30);           // at most 8 GiB at any time
//   HostTensor t = HostTensor::make(*memory, DType::kF32, {4, 8});   // uninitialised, writable
//   const HostTensor replica = t;                                    // shares the bytes
//   t.narrow_rows(1, 2)                                              // rows 1 and 2, shared too
//
// Tensors are row-major and contiguous. Copies share one buffer, which only a sole owner may write:
// 4,096 ranks that hold one replicated tensor hold one buffer. Buffers that are no longer used go
// back to a pool. Threads may share a HostMemory; a HostTensor is a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "costmodel/base/dtype.h"
#include "costmodel/base/index.h"
#include "sim/tensor_spec.h"

namespace shardlab {

class HostMemory : public std::enable_shared_from_this<HostMemory> {
 public:
  [[nodiscard]] static std::shared_ptr<HostMemory> make(std::int64_t limit_bytes);

  // A block of `bytes` bytes, which goes back to the pool when its last owner drops it. Throws
  // LimitError if the limit would be exceeded; the message says how much is in use.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::int64_t bytes);
  [[nodiscard]] std::int64_t limit_bytes() const { return limit_bytes_; }
  [[nodiscard]] std::int64_t in_use_bytes() const;
  [[nodiscard]] std::int64_t peak_bytes() const;

 private:
  struct Freed {
    void operator()(std::byte* block) const;
  };
  explicit HostMemory(std::int64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  void give_back(std::byte* block, std::int64_t bytes);

  const std::int64_t limit_bytes_;
  mutable std::mutex mutex_;
  std::int64_t in_use_bytes_ = 0;
  std::int64_t pooled_bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
  std::multimap<std::int64_t, std::unique_ptr<std::byte, Freed>> pool_;  // free blocks by size
};

class HostTensor {
 public:
  HostTensor() = default;
  // A tensor whose elements are not initialised. Throws LimitError if the memory's limit would be
  // exceeded, and InputError for a dtype without data (see holds_data()).
  [[nodiscard]] static HostTensor make(HostMemory& memory, DType dtype, const Shape& shape);

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] int ndim() const { return static_cast<int>(shape_.size()); }
  [[nodiscard]] std::int64_t extent(int dim) const { return shape_[to_index(dim)]; }
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::int64_t bytes() const { return elements() * itemsize(dtype_); }

  [[nodiscard]] const std::byte* data() const { return data_; }
  // The bytes, for writing. Assumes that no other tensor shares the buffer.
  [[nodiscard]] std::byte* writable();
  template <class T>
  [[nodiscard]] const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }

  // Rows [begin, begin + count) of dim 0, sharing the buffer.
  [[nodiscard]] HostTensor narrow_rows(std::int64_t begin, std::int64_t count) const;
  // The same elements in another shape, sharing the buffer.
  [[nodiscard]] HostTensor reshape(const Shape& shape) const;
  [[nodiscard]] bool shares_bytes_with(const HostTensor& other) const {
    return data_ == other.data_ && shape_ == other.shape_;
  }
  // Whether shape, dtype and every byte are equal.
  [[nodiscard]] bool same_bits(const HostTensor& other) const;

 private:
  DType dtype_ = DType::kF32;
  Shape shape_;
  std::shared_ptr<std::byte> buffer_;
  std::byte* data_ = nullptr;
};

// Whether tensors of this dtype can have data: every dtype but the 8-bit floating point types, u64
// and c64.
[[nodiscard]] bool holds_data(DType dtype);

}  // namespace shardlab
