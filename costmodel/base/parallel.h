// A loop over independent items on several threads.
//
//   parallel_for(items.size(), jobs, [&] { return std::make_unique<Evaluator>(stack); },
//                [&](Evaluator& evaluator, std::size_t i) { out[i] = evaluator.ask(items[i]); });
//
// Each item writes its own result, so that results do not depend on the number of threads. A loop
// that is asked to stop has done the items from the first on, up to the number that it returns.
// Where the system refuses a thread (ulimit -u, ulimit -v), the threads that there are do all
// items.
//
// Items that wait for each other need a thread each:
//
//   run_together(ranks, [&](std::size_t rank) { meet_the_others(rank); });
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace shardlab {
namespace internal {

// Starts `count` threads that call run(), or fewer if the system refuses one.
template <class Run>
std::vector<std::thread> start_threads(std::size_t count, const Run& run) {
  std::vector<std::thread> threads;
  threads.reserve(count);
  try {
    while (threads.size() < count) threads.emplace_back(run);
  } catch (const std::system_error&) {  // too many threads
  } catch (const std::bad_alloc&) {     // no memory for one more
  }
  return threads;
}

}  // namespace internal

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
  const std::size_t useful = std::min(count, static_cast<std::size_t>(std::max(1, threads)));
  std::vector<std::thread> pool = internal::start_threads(useful == 0 ? 0 : useful - 1, run);
  run();
  for (std::thread& thread : pool) thread.join();
  if (failure) std::rethrow_exception(failure);
  return std::min(next.load(), count);
}

// Calls work(i) for every i below `count`, each on a thread of its own, and returns when all are
// done. If items throw, the exception of the first of them is rethrown. If the system refuses a
// thread, no item begins, and std::system_error says so.
template <class Work>
void run_together(std::size_t count, Work&& work) {
  std::promise<bool> all_started;
  const std::shared_future<bool> may_begin = all_started.get_future().share();
  std::vector<std::exception_ptr> failures(count);
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads = internal::start_threads(count, [&] {
    const std::size_t i = next++;
    if (!may_begin.get()) return;
    try {
      work(i);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  });
  all_started.set_value(threads.size() == count);
  for (std::thread& thread : threads) thread.join();
  if (threads.size() < count) {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace shardlab
