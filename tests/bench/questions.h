// What the benchmarks share: the questions of tests/bench/questions.json, which
// scripts/bench_pytorch.py also puts to PyTorch; medians over questions; and the rate of a plain
// copy as a yardstick of the machine.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "strategies/rules/op_call.h"
#include "tests/support/shipped.h"

namespace shardlab::bench {

struct Pair {
  Layout from;
  Layout to;
};

// The questions on one mesh.
struct MeshQuestions {
  DeviceMesh mesh;
  TensorMeta meta;
  std::vector<Pair> pairs;
  std::map<std::string, OpCall> calls;  // by op
};

inline const nlohmann::json& questions_json() {
  static const nlohmann::json json =
      read_json_file(SHARDLAB_SOURCE_DIR "/tests/bench/questions.json");
  return json;
}

// The questions on the mesh with this many dims.
inline MeshQuestions questions_on(std::int64_t mesh_dims) {
  const nlohmann::json& json =
      questions_json().at("meshes").at(static_cast<std::size_t>(mesh_dims) - 1);
  MeshQuestions questions{.mesh = DeviceMesh::parse(json.at("mesh").get<std::string>()),
                          .meta = TensorMeta::parse(json.at("tensor").get<std::string>()),
                          .pairs = {},
                          .calls = {}};
  const int ndim = questions.mesh.ndim();
  for (const nlohmann::json& pair : json.at("pairs")) {
    questions.pairs.push_back({parse_layout(pair[0].get<std::string>(), ndim, questions.meta),
                               parse_layout(pair[1].get<std::string>(), ndim, questions.meta)});
  }
  for (const auto& [op, inputs] : json.at("ops").items()) {
    OpCall& call = questions.calls[op];
    call.op = op;
    for (const nlohmann::json& input : inputs) {
      call.inputs.push_back(OpCall::parse_input(input.get<std::string>(), ndim));
    }
  }
  return questions;
}

// The topology that the questions are asked on.
inline Topology topology_of_questions() {
  return testing_support::h100(questions_json().at("devices_per_host").get<std::int64_t>());
}

// Times of several questions that are asked in turn, so that no answer is still in the processor's
// caches.
class QuestionTimes {
 public:
  explicit QuestionTimes(std::size_t questions) : times_(questions) {}

  template <class Ask>
  void time(std::size_t question, Ask&& ask) {
    const auto begin = std::chrono::steady_clock::now();
    ask();
    const std::chrono::duration<double, std::micro> spent =
        std::chrono::steady_clock::now() - begin;
    if (times_[question].size() < kMaxSamples) times_[question].push_back(spent.count());
  }

  // Sets two counters: the median and the mean, over the questions, of a question's median time in
  // microseconds.
  void report(benchmark::State& state) {
    std::vector<double> medians;
    for (std::vector<double>& times : times_) medians.push_back(median(times));
    state.counters["mean_us"] =
        std::accumulate(medians.begin(), medians.end(), 0.0) / static_cast<double>(medians.size());
    state.counters["median_us"] = median(medians);
  }

 private:
  static constexpr std::size_t kMaxSamples = 10'000;

  static double median(std::vector<double>& values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    if (values.size() % 2 == 1) return *middle;
    return (*middle + *std::max_element(values.begin(), middle)) / 2;
  }

  std::vector<std::vector<double>> times_;
};

// Copies a buffer that no cache holds, to see what the machine can do at the moment of the run.
inline void copy_memory(benchmark::State& state) {
  constexpr std::size_t kBytes = std::size_t{64} << 20U;
  const std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes, 2);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), kBytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBytes));
}

}  // namespace shardlab::bench
