// Launches copies and the kernels of device_code.h on a GPU.
#include <algorithm>
#include <array>

#include "costmodel/base/index.h"
#include "runner/nccl/cuda.h"
#include "runner/nccl/device_code.h"
#include "sim/counter_hash.h"
#include "sim/tensor_kernels.h"

namespace shardlab {
namespace {

constexpr std::int64_t kUnit = 16;  // bytes that one thread moves at a time
constexpr unsigned kThreads = 256;
constexpr int kBlocksPerProcessor = 8;
constexpr int kMaxCopies = 64;
constexpr std::int64_t kPatternBytes = std::int64_t{16} << 20U;

// A kernel of device_code.h, and the library that contains it.
struct Kernel {
  std::shared_ptr<CUlib_st> library;
  cudaKernel_t handle = nullptr;
};

Kernel find_kernel(const char* name) {
  cudaLibrary_t library = nullptr;
  check(cudaLibraryLoadData(&library, kDeviceCode, nullptr, nullptr, 0, nullptr, nullptr, 0),
        "cudaLibraryLoadData");
  Kernel kernel;
  kernel.library = {library, [](cudaLibrary_t loaded) { (void)cudaLibraryUnload(loaded); }};
  check(cudaLibraryGetKernel(&kernel.handle, library, name), "cudaLibraryGetKernel");
  return kernel;
}

unsigned blocks_for(std::int64_t units) {
  int device = 0;
  int processors = 1;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  const std::int64_t needed = (units + kThreads - 1) / kThreads;
  const std::int64_t most = std::int64_t{processors} * kBlocksPerProcessor;
  return static_cast<unsigned>(std::clamp<std::int64_t>(needed, 1, most));
}

void launch_kernel(const Kernel& kernel, unsigned blocks, void** arguments, cudaStream_t stream) {
  check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel.handle), dim3{blocks, 1, 1},
                         dim3{kThreads, 1, 1}, arguments, 0, stream),
        "cudaLaunchKernel");
}

struct Arrays {
  DevicePointer block;
  std::int64_t bytes = 0;  // bytes of one array
  int per_launch = 2;
  int copies = 1;

  Arrays(std::int64_t array_bytes, int arrays)
      : bytes(array_bytes), per_launch(arrays), copies(cold_copies(array_bytes * arrays)) {
    block = device_memory(bytes * per_launch * copies);
  }
  [[nodiscard]] std::byte* at(int launch, int array) const {
    return block.get() + bytes * (std::int64_t{launch % copies} * per_launch + array);
  }
};

}  // namespace

int cold_copies(std::int64_t bytes_of_one) {
  const std::int64_t needed = kColdBytes / std::max<std::int64_t>(bytes_of_one, 1);
  return static_cast<int>(std::clamp<std::int64_t>(needed, 1, kMaxCopies));
}

void fill_with_numbers(std::byte* block, std::int64_t bytes, DType dtype) {
  std::vector<std::byte> pattern(static_cast<std::size_t>(std::min(bytes, kPatternBytes)));
  const std::int64_t count = std::ssize(pattern) / itemsize(dtype);
  if (holds_data(dtype)) {
    with_element(dtype, [&](auto element) {
      using T = typename decltype(element)::Type;
      if constexpr (!std::is_same_v<T, Bool8>) {
        T* out = reinterpret_cast<T*>(pattern.data());
        for (std::int64_t i = 0; i < count; ++i) {
          const std::uint64_t bits = counter_hash(0, static_cast<std::uint64_t>(i), 0);
          out[i] = static_cast<T>(static_cast<double>(bits >> 11U) * 0x1p-51 - 2.0);
        }
      }
    });
  } else {
    // 8-bit floats get a random sign, and an exponent near that of 1.
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint64_t bits = counter_hash(0, static_cast<std::uint64_t>(i), 0);
      pattern[to_index(i)] =
          static_cast<std::byte>((bits & 0x80U) | (0x28U + (bits >> 8U) % 0x18U));
    }
  }
  const auto size = std::ssize(pattern);
  for (std::int64_t done = 0; done < bytes; done += size) {
    check(
        cudaMemcpy(block + done, pattern.data(),
                   static_cast<std::size_t>(std::min(size, bytes - done)), cudaMemcpyHostToDevice),
        "cudaMemcpy");
  }
}

Launch make_memory_kernel(const KernelShape& shape, std::string& why_not) {
  if (shape.name == "launch") {
    const Kernel kernel = find_kernel("shardlab_launch");
    return [kernel](cudaStream_t stream, int) { launch_kernel(kernel, 1, nullptr, stream); };
  }
  const std::int64_t bytes = shape.rows * shape.columns * itemsize(shape.dtype);
  if (shape.name == "copy") {
    const Arrays arrays(bytes, 2);
    return [arrays, bytes](cudaStream_t stream, int launch) {
      check(cudaMemcpyAsync(arrays.at(launch, 1), arrays.at(launch, 0),
                            static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream),
            "cudaMemcpyAsync");
    };
  }
  const std::int64_t units = bytes / kUnit;
  const std::int64_t piece_bytes = shape.inner * itemsize(shape.dtype);
  if (bytes % kUnit != 0 || (shape.name == "reshuffle" && piece_bytes % kUnit != 0)) {
    why_not = "rows and pieces have to be whole multiples of 16 bytes";
    return nullptr;
  }
  const unsigned blocks = blocks_for(units);
  if (shape.name == "reshuffle") {
    const Kernel kernel = find_kernel("shardlab_reshuffle");
    const Arrays arrays(bytes, 2);
    const auto piece = static_cast<std::uint32_t>(piece_bytes / kUnit);
    const auto columns = static_cast<std::uint32_t>(shape.columns * itemsize(shape.dtype) / kUnit);
    const auto block = static_cast<std::uint32_t>(shape.rows) * piece;
    const auto count = static_cast<std::uint32_t>(units);
    return [=](cudaStream_t stream, int launch) {
      std::byte* from = arrays.at(launch, 0);
      std::byte* to = arrays.at(launch, 1);
      std::array<std::uint32_t, 4> sizes = {columns, piece, block, count};
      std::array<void*, 6> arguments = {&from, &to, &sizes[0], &sizes[1], &sizes[2], &sizes[3]};
      launch_kernel(kernel, blocks, arguments.data(), stream);
    };
  }
  if (shape.dtype != DType::kF32) {
    why_not = "shardlab's own kernels add f32 only";
    return nullptr;
  }
  if (shape.name == "elementwise") {
    const Kernel kernel = find_kernel("shardlab_add");
    const Arrays arrays(bytes, 3);
    return [=](cudaStream_t stream, int launch) {
      std::byte* a = arrays.at(launch, 0);
      std::byte* b = arrays.at(launch, 1);
      std::byte* sum = arrays.at(launch, 2);
      auto count = static_cast<std::uint64_t>(units);
      std::array<void*, 4> arguments = {&a, &b, &sum, &count};
      launch_kernel(kernel, blocks, arguments.data(), stream);
    };
  }
  const Kernel kernel = find_kernel("shardlab_sum");
  const Arrays arrays(bytes, 1);
  const DevicePointer result = device_memory(kUnit);
  return [=](cudaStream_t stream, int launch) {
    std::byte* a = arrays.at(launch, 0);
    std::byte* sum = result.get();
    auto count = static_cast<std::uint64_t>(units);
    std::array<void*, 3> arguments = {&a, &sum, &count};
    launch_kernel(kernel, blocks, arguments.data(), stream);
  };
}

}  // namespace shardlab
