#include "runner/evaluation/explained_flips.h"

#include <map>
#include <memory>
#include <set>
#include <string>

#include "costmodel/base/parallel.h"
#include "reports/comparison.h"
#include "runner/session/long_loop.h"
#include "strategies/select/explanation.h"

namespace shardlab {
namespace {

// What one thread explains with: an explainer for each stack, and the reference that judges them.
struct Explainers {
  explicit Explainers(const FlipExplanations& what) : reference(what.reference, what.topology) {
    for (const Stack& stack : what.stacks) {
      of_stack.push_back(std::make_unique<Explainer>(stack, what.topology, reference));
    }
  }

  StackEvaluator reference;
  std::vector<std::unique_ptr<Explainer>> of_stack;
};

// The flips of one question, and the baseline's answer to it.
struct Job {
  std::size_t question = 0;
  std::set<std::size_t> stacks;
  bool looks_for_flip = false;
};

std::vector<Job> jobs_of(const reports::ComparisonRecord& record) {
  const reports::Comparison comparison = reports::compare(record);
  std::vector<Job> jobs;
  std::map<std::size_t, std::size_t> job_of;  // index of the job for each question
  std::size_t taken = 0;
  for (const reports::Flip& flip : comparison.flips) {
    if (taken == kMostExplained) break;
    const auto [known, is_new] = job_of.try_emplace(flip.question, jobs.size());
    if (is_new) jobs.push_back({.question = flip.question, .stacks = {0}, .looks_for_flip = false});
    Job& job = jobs[known->second];
    job.stacks.insert(flip.stack);
    job.looks_for_flip = job.looks_for_flip || taken < kMostFlippedFirst;
    ++taken;
  }
  return jobs;
}

}  // namespace

void explain_flips(const FlipExplanations& what, Session& session,
                   reports::ComparisonRecord& record) {
  const std::vector<Job> jobs = jobs_of(record);
  LongLoop loop(session, "explanations", jobs.size());
  parallel_for(
      jobs.size(), session.threads(), [&] { return std::make_unique<Explainers>(what); },
      [&](Explainers& explainers, std::size_t i) {
        const Job& job = jobs[i];
        reports::RecordQuestion& asked = record.questions[job.question];
        std::vector<std::string> choices;
        for (const std::size_t stack : job.stacks) choices.push_back(asked.answers[stack].choice);
        for (const std::size_t stack : job.stacks) {
          asked.answers[stack].detail = explainers.of_stack[stack]->explain(
              *what.questions[job.question], choices, job.looks_for_flip);
        }
        loop.advance();
      },
      loop.stop());
}

}  // namespace shardlab
