// The mock of CUDA's runtime: memory, streams with a thread each, events, and the kernels of
// device_code.h by name.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sim/counter_hash.h"
#include "tests/mock_gpu/mock.h"

namespace {

struct StreamState {
  int device = 0;
  double clock_us = 0.0;
  std::deque<shardlab::mock_gpu::Work> queue;
  bool is_busy = false;
  bool is_closed = false;
  std::mutex mutex;
  std::condition_variable changed;

  [[nodiscard]] bool is_idle() const { return queue.empty() && !is_busy; }
};

}  // namespace

struct CUstream_st {
  std::shared_ptr<StreamState> state;
};
struct CUevent_st {
  int device = 0;
  std::atomic<bool> is_reached = false;
  std::atomic<double> at_us = 0.0;
};
struct CUlib_st;
struct CUkern_st {
  std::string name;
  CUlib_st* library = nullptr;
};
struct CUlib_st {
  std::string code;
  std::vector<std::unique_ptr<CUkern_st>> kernels;
};

namespace shardlab::mock_gpu {
namespace {

// --- Memory -----------------------------------------------------------------------------------

struct Allocation {
  std::size_t size = 0;
  int device = 0;
  bool is_fresh = true;  // never written: it reads as zeros and takes no memory yet
};

struct Memory {
  std::mutex mutex;
  std::map<const std::byte*, Allocation> allocations;
};
Memory& memory() {
  static Memory it;
  return it;
}

Allocation* find_allocation(const void* begin, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(begin);
  auto next = memory().allocations.upper_bound(first);
  if (next == memory().allocations.begin()) return nullptr;
  --next;
  const auto offset = static_cast<std::size_t>(first - next->first);
  const bool fits = offset <= next->second.size && bytes <= next->second.size - offset;
  return fits ? &next->second : nullptr;
}

// After one bad access every call returns the error, as after a fault on a GPU.
std::atomic<bool> has_faulted = false;

thread_local int device_of_thread = 0;

cudaError_t state_of_gpu() { return has_faulted ? cudaErrorIllegalAddress : cudaSuccess; }

// --- Streams ----------------------------------------------------------------------------------

void work_off(const std::shared_ptr<StreamState>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return !state->queue.empty() || state->is_closed; });
    if (state->queue.empty()) return;
    const Work work = std::move(state->queue.front());
    state->queue.pop_front();
    state->is_busy = true;
    const double now = state->clock_us;
    lock.unlock();
    const double later = work(now);
    lock.lock();
    state->clock_us = later;
    state->is_busy = false;
    state->changed.notify_all();
  }
}

std::shared_ptr<StreamState> start_stream(int device) {
  auto state = std::make_shared<StreamState>();
  state->device = device;
  std::thread([state] { work_off(state); }).detach();
  return state;
}

// The legacy default stream of the current device; such streams are never closed.
std::shared_ptr<StreamState> default_stream() {
  static std::mutex mutex;
  static auto* streams = new std::map<int, std::shared_ptr<StreamState>>();
  const std::lock_guard lock(mutex);
  std::shared_ptr<StreamState>& state = (*streams)[device_of_thread];
  if (!state) state = start_stream(device_of_thread);
  return state;
}

std::shared_ptr<StreamState> state_of(cudaStream_t stream) {
  return stream == nullptr ? default_stream() : stream->state;
}

void push(const std::shared_ptr<StreamState>& state, Work work) {
  const std::lock_guard lock(state->mutex);
  state->queue.push_back(std::move(work));
  state->changed.notify_all();
}

void drain(const std::shared_ptr<StreamState>& state) {
  std::unique_lock lock(state->mutex);
  state->changed.wait(lock, [&] { return state->is_idle(); });
}

double after_memory_work(double now, double bytes) {
  return now + jittered(kModel.launch_us + bytes / kModel.memory_bytes_per_us);
}

// --- Kernels ----------------------------------------------------------------------------------

constexpr std::size_t kUnit = 16;  // bytes that one thread moves at a time
// Larger arrays are not computed. Only the time that they would take passes.
constexpr std::uint64_t kMostUnits = std::uint64_t{1} << 16U;

template <class T>
T argument(void** arguments, int index) {
  T value{};
  std::memcpy(&value, arguments[index], sizeof value);
  return value;
}

bool readable(const float* begin, std::uint64_t units) {
  return on_device(begin, units * kUnit, device_of_thread);
}
bool writable(float* begin, std::uint64_t units) {
  return may_write(begin, units * kUnit, device_of_thread);
}

// The work of the kernel of this name. Empty where its arguments point outside the device's memory.
Work work_of_kernel(const std::string& name, void** arguments) {
  if (name == "shardlab_launch") return [](double now) { return after_memory_work(now, 0.0); };
  if (name == "shardlab_add") {
    const auto* a = argument<const float*>(arguments, 0);
    const auto* b = argument<const float*>(arguments, 1);
    auto* sum = argument<float*>(arguments, 2);
    const auto units = argument<std::uint64_t>(arguments, 3);
    if (!readable(a, units) || !readable(b, units) || !writable(sum, units)) return nullptr;
    return [=](double now) {
      const std::uint64_t count = units <= kMostUnits ? units * 4 : 0;
      for (std::uint64_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
      return after_memory_work(now, 3.0 * static_cast<double>(units * kUnit));
    };
  }
  if (name == "shardlab_sum") {
    const auto* a = argument<const float*>(arguments, 0);
    auto* sum = argument<float*>(arguments, 1);
    const auto units = argument<std::uint64_t>(arguments, 2);
    if (!readable(a, units) || !may_write(sum, sizeof *sum, device_of_thread)) return nullptr;
    return [=](double now) {
      const std::uint64_t count = units <= kMostUnits ? units * 4 : 0;
      for (std::uint64_t i = 0; i < count; ++i) *sum += a[i];
      return after_memory_work(now, static_cast<double>(units * kUnit));
    };
  }
  if (name == "shardlab_reshuffle") {
    const auto* from = argument<const std::byte*>(arguments, 0);
    auto* to = argument<std::byte*>(arguments, 1);
    const auto columns = argument<std::uint32_t>(arguments, 2);
    const auto piece = argument<std::uint32_t>(arguments, 3);
    const auto block = argument<std::uint32_t>(arguments, 4);
    const auto units = argument<std::uint32_t>(arguments, 5);
    if (piece == 0 || block == 0 || !on_device(from, units * kUnit, device_of_thread) ||
        !may_write(to, units * kUnit, device_of_thread)) {
      return nullptr;
    }
    return [=](double now) {
      for (std::uint32_t i = 0; i < (units <= kMostUnits ? units : 0); ++i) {
        const std::size_t row = i % block / piece;
        const std::size_t column = std::size_t{i / block} * piece + i % piece;
        std::memcpy(to + i * kUnit, from + (row * columns + column) * kUnit, kUnit);
      }
      return after_memory_work(now, 2.0 * static_cast<double>(units * kUnit));
    };
  }
  return nullptr;
}

}  // namespace

std::string variable(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

bool has_to_fail(const char* function) {
  static std::mutex mutex;
  static auto* calls = new std::map<std::string, int>();
  const std::string plan = variable("MOCK_GPU_FAIL", "");
  const std::size_t equals = plan.find('=');
  if (equals == std::string::npos || plan.substr(0, equals) != function) return false;
  const std::lock_guard lock(mutex);
  return ++(*calls)[function] == std::stoi(plan.substr(equals + 1));
}

int gpu_count() {
  const std::string text = variable("MOCK_GPUS", "1");
  return text == "driver" ? -1 : std::stoi(text);
}

int current_device() { return device_of_thread; }

bool on_device(const void* begin, std::size_t bytes, int device) {
  const std::lock_guard lock(memory().mutex);
  const Allocation* found = find_allocation(begin, bytes);
  return found != nullptr && found->device == device;
}

bool may_write(void* begin, std::size_t bytes, int device) {
  const std::lock_guard lock(memory().mutex);
  Allocation* found = find_allocation(begin, bytes);
  if (found == nullptr || found->device != device) return false;
  found->is_fresh = false;
  return true;
}

double jittered(double us) {
  static std::atomic<std::uint64_t> count = 0;
  const std::uint64_t bits = counter_hash(1, count++, 0);
  return us * (1.0 + 0.01 * (static_cast<double>(bits >> 11U) * 0x1p-52 - 1.0));
}

void enqueue(cudaStream_t stream, Work work) { push(state_of(stream), std::move(work)); }
int device_of(cudaStream_t stream) { return state_of(stream)->device; }

}  // namespace shardlab::mock_gpu

// --- The runtime's functions --------------------------------------------------------------------

using namespace shardlab::mock_gpu;  // NOLINT(google-build-using-namespace): the API has none

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorSymbolNotFound:
      return "cudaErrorSymbolNotFound";
  }
  return "unknown";
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "as the mock decided";
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = std::max(gpu_count(), 0);
  if (gpu_count() < 0) return cudaErrorInsufficientDriver;
  return gpu_count() == 0 ? cudaErrorNoDevice : cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = device_of_thread;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= gpu_count()) return cudaErrorInvalidDevice;
  device_of_thread = device;
  return state_of_gpu();
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= gpu_count()) return cudaErrorInvalidDevice;
  *properties = {};
  std::strcpy(properties->name, "mock GPU");
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device < 0 || device >= gpu_count()) return cudaErrorInvalidDevice;
  *value = attribute == cudaDevAttrClockRate         ? 1980000
           : attribute == cudaDevAttrMemoryClockRate ? 2619000
                                                     : 132;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, std::size_t size) {
  if (has_to_fail("cudaMalloc")) return cudaErrorMemoryAllocation;
  if (size == 0) return cudaErrorInvalidValue;
  void* block = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED) return cudaErrorMemoryAllocation;
  const std::lock_guard lock(memory().mutex);
  memory().allocations[static_cast<std::byte*>(block)] = {.size = size, .device = device_of_thread};
  *pointer = block;
  return state_of_gpu();
}
cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  std::size_t size = 0;
  {
    const std::lock_guard lock(memory().mutex);
    const auto found = memory().allocations.find(static_cast<std::byte*>(pointer));
    if (found == memory().allocations.end()) return cudaErrorInvalidValue;
    size = found->second.size;
    memory().allocations.erase(found);
  }
  munmap(pointer, size);
  return state_of_gpu();
}

cudaError_t cudaMemset(void* pointer, int value, std::size_t count) {
  bool is_fresh = false;
  {
    const std::lock_guard lock(memory().mutex);
    const Allocation* found = find_allocation(pointer, count);
    if (found == nullptr) return cudaErrorInvalidValue;
    is_fresh = found->is_fresh && value == 0;
  }
  if (!is_fresh && !may_write(pointer, count, device_of_thread)) return cudaErrorInvalidValue;
  enqueue(nullptr, [=](double now) {
    if (!is_fresh) std::memset(pointer, value, count);
    return after_memory_work(now, static_cast<double>(count));
  });
  return state_of_gpu();
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t count, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const int device = device_of(stream);
  if (kind != cudaMemcpyHostToDevice && !on_device(from, count, device)) {
    return cudaErrorInvalidValue;
  }
  if (kind != cudaMemcpyDeviceToHost && !may_write(to, count, device)) return cudaErrorInvalidValue;
  // Bytes of the host are copied at once, as those of pageable memory are.
  const bool is_upload = kind == cudaMemcpyHostToDevice;
  const bool is_large = kind == cudaMemcpyDeviceToDevice && count > kMostUnits * kUnit;
  if (is_upload && count > 0) {
    auto kept = std::make_shared<std::vector<std::byte>>(count);
    std::memcpy(kept->data(), from, count);
    enqueue(stream, [=](double now) {
      std::memcpy(to, kept->data(), count);
      return after_memory_work(now, static_cast<double>(count));
    });
    return state_of_gpu();
  }
  enqueue(stream, [=](double now) {
    if (!is_large && count > 0) std::memcpy(to, from, count);
    return after_memory_work(now, 2.0 * static_cast<double>(count));
  });
  return state_of_gpu();
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t count, cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(to, from, count, kind, nullptr);
  if (error == cudaSuccess) drain(default_stream());
  return error;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  // A blocking stream would have to wait for the default one. shardlab has no blocking streams.
  if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
  *stream = new CUstream_st{start_stream(device_of_thread)};
  return state_of_gpu();
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    const std::lock_guard lock(stream->state->mutex);
    stream->state->is_closed = true;
    stream->state->changed.notify_all();
  }
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const std::shared_ptr<StreamState> state = state_of(stream);
  const std::lock_guard lock(state->mutex);
  if (has_faulted) return cudaErrorIllegalAddress;
  return state->is_idle() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  drain(state_of(stream));
  return state_of_gpu();
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st();
  (*event)->device = device_of_thread;
  return state_of_gpu();
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event->device != device_of(stream)) return cudaErrorInvalidResourceHandle;
  enqueue(stream, [event](double now) {
    event->at_us = now;
    event->is_reached = true;
    return now;
  });
  return state_of_gpu();
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  if (start->device != end->device) return cudaErrorInvalidResourceHandle;
  if (!start->is_reached || !end->is_reached) return cudaErrorNotReady;
  *ms = static_cast<float>((end->at_us - start->at_us) / 1e3);
  return state_of_gpu();
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                unsigned, cudaLibraryOption*, void**, unsigned) {
  *library = new CUlib_st{.code = static_cast<const char*>(code), .kernels = {}};
  return state_of_gpu();
}
cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  delete library;
  return cudaSuccess;
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  if (library->code.find(std::string(".entry ") + name + "(") == std::string::npos) {
    return cudaErrorSymbolNotFound;
  }
  library->kernels.push_back(std::make_unique<CUkern_st>(CUkern_st{name, library}));
  *kernel = library->kernels.back().get();
  return state_of_gpu();
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                             std::size_t, cudaStream_t stream) {
  if (has_to_fail("cudaLaunchKernel")) return cudaErrorInvalidValue;
  constexpr unsigned kMostThreads = 1024;
  const unsigned threads = block.x * block.y * block.z;
  if (grid.x == 0 || threads == 0 || threads > kMostThreads) return cudaErrorInvalidValue;
  if (device_of(stream) != device_of_thread) return cudaErrorInvalidResourceHandle;
  Work work = work_of_kernel(static_cast<const CUkern_st*>(kernel)->name, arguments);
  if (!work) {
    has_faulted = true;
    return cudaErrorIllegalAddress;
  }
  enqueue(stream, std::move(work));
  return state_of_gpu();
}
