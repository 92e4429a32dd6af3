// A loop over independent items on several threads.
//
//   parallel_for(items.size(), jobs, [&] { return std::make_unique<Evaluator>(stack); },
//                [&](Evaluator& evaluator, std::size_t i) { out[i] = evaluator.ask(items[i]); });
//
// Each item writes its own result, so that results do not depend on the number of threads. A loop
// that is asked to stop has done the items from the first on, up to the number that it returns.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace shardlab {

// Calls make(), which returns a pointer to the state of one thread, once on each thread, and
// work(*state, i) for every i below `count`. If items throw, the first exception is rethrown, and
// the items that have not begun are skipped. Once `*stop` is set, no further item begins. Returns
// how many items are done.
template <class Make, class Work>
std::size_t parallel_for(std::size_t count, int threads, Make&& make, Work&& work,
                         const std::atomic<bool>* stop = nullptr) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto run = [&] {
    try {
      auto state = make();
      while (stop == nullptr || !*stop) {
        const std::size_t i = next++;
        if (i >= count) break;
        work(*state, i);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads && static_cast<std::size_t>(t) < count; ++t) pool.emplace_back(run);
  run();
  for (std::thread& thread : pool) thread.join();
  if (failure) std::rethrow_exception(failure);
  return std::min(next.load(), count);
}

}  // namespace shardlab
