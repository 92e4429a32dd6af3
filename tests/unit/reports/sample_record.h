// Records for the tests of reports/: a small one whose every figure is worked out below, and large
// ones.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "reports/records/record.h"

namespace shardlab::reports {

inline StackAnswer answer(std::string choice, double price_us, double reference_us) {
  StackAnswer answer;
  answer.choice = std::move(choice);
  answer.price_us = price_us;
  answer.reference_us = reference_us;
  return answer;
}

inline StackAnswer impossible_answer(const std::string& reason) {
  StackAnswer answer;
  answer.impossible = reason;
  answer.reference_impossible = reason;
  answer.ties = 0;
  return answer;
}

inline RecordQuestion question(std::string id, std::string op, double bytes, double best_us,
                               std::vector<StackAnswer> answers) {
  RecordQuestion question;
  question.id = std::move(id);
  question.suite = "small";
  question.op = std::move(op);
  question.mesh = "2x4";
  question.mesh_dims = 2;
  question.bytes = bytes;
  question.candidates = 5;
  question.best = {"RR", best_us, ""};
  question.answers = std::move(answers);
  return question;
}

// Seven decisions of "old" and "new", judged by "ref".
//
//   question  asked  best us  old us  new us  flip        gain           regret of old  of new
//   q1 mm     1      8        10      8       better      2 of 10: 20 %  2/8 = 0.25     0
//   q2 add    3      5        5       5       none                       0              0
//   q3 plan   1      4        4       5       worse       -1 of 4: -25 % 0              1/4 = 0.25
//   q4 relu   1      0        0       2       worse       -2 us of 0     0              2 us more
//   q5 sum    1      3        3       none    undecided                  0              unpriced
//   q6 cat    1      4        6       6       equal       0              2/4 = 0.5      2/4 = 0.5
//   q7 mm     1      7        none    7       undecided                  impossible     0
//
// Flips: 6 of 7 = 85.7 %: 1 better, 2 worse, 1 equal, 2 undecided.
// Old: 0.25 + 0.5 over 6 judged = 12.5 %; by weight over 8 = 9.375 %; sorted 0 0 0 0 .25 .5: p50 at
//   place 2.5 is 0, p99 at place 4.95 is .25 + .95 x .25 = 48.75 %, max 50 %.
//   tau (1 + .5) / 2 = 0.75; by weight (1 + 3 x .5) / 4 = 0.625.
// New: 0.25 + 0.5 over 5 judged = 15 %; by weight over 7 = 10.71 %; sorted 0 0 0 .25 .5: p50 0, p99
//   at place 3.96 is .25 + .96 x .25 = 49 %, max 50 %. tau 0.8.
inline ComparisonRecord small_record() {
  ComparisonRecord record;
  record.context = {
      "0.1.0", "abc1234", "GNU 12.2.0", "Release", {"shardlab", "compare", "--set", "a b=1"}, 42};
  record.stacks = {"old", "new"};
  record.reference = {"ref", "datasheet, not measured"};
  record.configuration.topology = {{"name", "h100"}, {"devices_per_host", 8}};
  record.configuration.stacks = {
      {{"name", "old"}, {"model", {{"latency_us", 6.6}}}, {"rules", "a"}},
      {{"name", "new"}, {"model", {{"latency_us", 3.0}}}, {"rules", "a"}},
      {{"name", "ref"}, {"model", {{"latency_us", 5.0}}}, {"rules", "a"}}};
  record.configuration.suites = {{"small", 7, "by hand"}};
  record.configuration.overrides = {"stack.model.latency_us=3"};

  RecordQuestion q1 = question("q1", "aten.mm.default", 4096, 8,
                               {answer("P(sum)|S(0)R,RR", 9, 10), answer("RR", 7.5, 8)});
  q1.inputs = {"f32[32,32] S(0)R", "f32[32,32] RR"};
  q1.answers[0].path = {"S(0)R->RR"};
  q1.answers[0].margin_us = 0.05;  // below 1 % of 9 us: a near tie
  q1.answers[0].kendall_tau = 1.0;
  q1.answers[1].kendall_tau = 0.8;

  RecordQuestion q2 =
      question("q2", "aten.add.Tensor", 1e6, 5, {answer("RR", 5, 5), answer("RR", 5, 5)});
  q2.count = 3;
  q2.answers[0].ties = 2;
  q2.answers[0].flips_with_order = true;
  q2.answers[0].kendall_tau = 0.5;

  RecordQuestion q3 = question("q3", "redistribute", 64e6, 4,
                               {answer("S(0)R->RR", 4, 4), answer("S(0)R->RS(1)->RR", 4.5, 5)});
  q3.kind = QuestionKind::kPlan;

  RecordQuestion q4 =
      question("q4", "aten.relu.default", 512, 0, {answer("S(0)R", 0, 0), answer("RR", 2, 2)});
  q4.mesh = "8";
  q4.mesh_dims = 1;

  RecordQuestion q5 =
      question("q5", "aten.sum.default", 512, 3, {answer("P(sum)R", 3, 3), answer("RR", 3, 3)});
  q5.answers[1].reference_us.reset();
  q5.answers[1].reference_impossible = "no table for it";

  RecordQuestion q6 =
      question("q6", "aten.cat.default", 512, 4, {answer("S(0)R", 6, 6), answer("RR", 6, 6)});

  RecordQuestion q7 = question("q7", "aten.mm.default", 512, 7,
                               {impossible_answer("no finite candidate"), answer("RR", 7, 7)});

  record.questions = {q1, q2, q3, q4, q5, q6, q7};
  record.invariants = {
      {"old", "triangle", 100, 2, InvariantWitness{"S(0)R to RS(1) by way of RR", 1.5, 20.0}},
      {"old", "zero_same_layout", 10, 1, InvariantWitness{"one rank", 6.6, std::nullopt}},
      {"new", "triangle", 100, 0, std::nullopt},
      {"new", "zero_same_layout", 10, 0, std::nullopt}};
  record.curves = {
      {"old", "all_gather", "8", "8 ranks", {1e3, 1e6, 1e9}, {{6.6}, {10.0}, {2500.0}}},
      {"new", "all_gather", "8", "8 ranks", {1e3, 1e6, 1e9}, {{3.0}, {6.5}, {std::nullopt}}}};
  return record;
}

// Questions drawn at random, for sizes and bounds; the same for the same arguments. Candidates flip
// at `flip_rate`.
inline ComparisonRecord large_record(std::size_t questions, std::size_t candidates,
                                     double flip_rate, std::uint32_t seed = 7) {
  ComparisonRecord record = small_record();
  record.questions.clear();
  record.invariants.clear();
  record.stacks = {"old"};
  for (std::size_t i = 0; i < candidates; ++i) {
    record.stacks.push_back("candidate-" + std::to_string(i + 1));
  }
  std::mt19937 rng(seed);
  // Not std::uniform_real_distribution, whose values the standard leaves open.
  const auto draw = [&rng] { return static_cast<double>(rng()) / 4294967296.0; };
  const auto pick = [&](std::size_t size) {
    return static_cast<std::size_t>(draw() * static_cast<double>(size));
  };
  const std::vector<std::string> layouts = {"S(0)R", "RS(1)", "RR", "P(sum)R",
                                            "S(1)S(0)[1]S(0)[0]"};
  for (std::size_t i = 0; i < questions; ++i) {
    const double bytes = std::exp2(2.0 + 31.0 * draw());
    const double best_us = 7.0 + bytes / 1e5;
    const std::size_t base = pick(layouts.size());
    std::vector<StackAnswer> answers;
    for (std::size_t stack = 0; stack <= candidates; ++stack) {
      const bool is_flip = stack > 0 && draw() < flip_rate;
      const std::size_t choice =
          is_flip ? (base + 1 + pick(layouts.size() - 1)) % layouts.size() : base;
      answers.push_back(answer(layouts[choice] + ", " + layouts[(choice + 1) % layouts.size()] +
                                   " -> " + layouts[(choice + 2) % layouts.size()],
                               best_us * (0.8 + draw()), best_us * (1.0 + 0.5 * draw())));
      answers.back().path = {layouts[base] + "->" + layouts[choice], "RR->" + layouts[choice]};
      answers.back().margin_us = draw();
      answers.back().kendall_tau = draw();
    }
    record.questions.push_back(question(
        "ops-full/aten.op_" + std::to_string(i % 40) + ".default/2x4/" + std::to_string(i),
        "aten.op_" + std::to_string(i % 40) + ".default", bytes, best_us, std::move(answers)));
    record.questions.back().inputs = {"bf16[" + std::to_string(i) + ",4096] S(0)R",
                                      "bf16[4096,4096] RR"};
  }
  record.configuration.stacks.resize(1);
  record.curves.resize(1);
  return record;
}

}  // namespace shardlab::reports
