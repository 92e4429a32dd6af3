// Buffers of virtual ranks are shared, limited and pooled.
#include "sim/host_tensor.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace host_tensor_test {

TEST(HostTensor, CopiesAndRowsShareTheBytes) {
  const auto memory = HostMemory::make(1 << 20);
  const HostTensor whole = HostTensor::make(*memory, DType::kF32, {4, 8});
  const HostTensor copy = whole;
  const HostTensor rows = whole.narrow_rows(1, 2);
  EXPECT_TRUE(copy.shares_bytes_with(whole));
  EXPECT_EQ(rows.shape(), (Shape{2, 8}));
  EXPECT_EQ(rows.data(), whole.data() + 32);
  EXPECT_EQ(whole.narrow_rows(4, 0).elements(), 0);
  EXPECT_EQ(whole.reshape({32}).data(), whole.data());
  EXPECT_EQ(memory->in_use_bytes(), 128);
}

TEST(HostTensor, IsWrittenByItsSoleOwnerOnly) {
  const auto memory = HostMemory::make(1 << 20);
  HostTensor tensor = HostTensor::make(*memory, DType::kI8, {4});
  EXPECT_NO_THROW((void)tensor.writable());
  const HostTensor other = tensor;
  EXPECT_THROW((void)tensor.writable(), ContractError);
}

TEST(HostTensor, SameBitsAreOfOneDTypeShapeAndBytes) {
  const auto memory = HostMemory::make(1 << 20);
  HostTensor a = HostTensor::make(*memory, DType::kU8, {2});
  HostTensor b = HostTensor::make(*memory, DType::kU8, {2});
  a.writable()[0] = b.writable()[0] = std::byte{1};
  a.writable()[1] = b.writable()[1] = std::byte{2};
  EXPECT_TRUE(a.same_bits(b));
  EXPECT_FALSE(a.same_bits(b.reshape({2, 1})));
  b.writable()[1] = std::byte{3};
  EXPECT_FALSE(a.same_bits(b));
}

TEST(HostMemory, RefusesWhatPassesItsLimit) {
  const auto memory = HostMemory::make(100);
  const HostTensor held = HostTensor::make(*memory, DType::kI8, {60});
  EXPECT_THROW_MSG((void)HostTensor::make(*memory, DType::kI8, {41}), InputError,
                   "the data of the virtual ranks needs 41 B beside the 60 B in use; the limit is "
                   "100 B; valid: a larger limit, a smaller tensor or mesh, or shapes only");
  EXPECT_NO_THROW((void)HostTensor::make(*memory, DType::kI8, {40}));
  EXPECT_EQ(memory->peak_bytes(), 100);
}

TEST(HostMemory, GivesFreedBuffersAgain) {
  const auto memory = HostMemory::make(100);
  const std::byte* first = nullptr;
  {
    const HostTensor tensor = HostTensor::make(*memory, DType::kI8, {60});
    first = tensor.data();
  }
  EXPECT_EQ(memory->in_use_bytes(), 0);
  EXPECT_EQ(HostTensor::make(*memory, DType::kI8, {60}).data(), first);
  // Blocks in the pool make room for a block of another size.
  EXPECT_NO_THROW((void)HostTensor::make(*memory, DType::kI8, {90}));
}

TEST(HostTensor, HasNoDataOfEightBitFloats) {
  const auto memory = HostMemory::make(100);
  EXPECT_THROW_MSG((void)HostTensor::make(*memory, DType::kF8E4M3, {4}), InputError,
                   "dtype f8e4m3 holds no data here; valid: f64 f32 f16 bf16 i64 i32 i16 i8 u8 b8, "
                   "or shapes only");
}

}  // namespace host_tensor_test
}  // namespace shardlab
