// Asks the questions of suites under the stacks of a comparison, and notes the answers in its
// record.
//
//   const std::vector<const Question*> questions =
//       ask_suites({.stacks = stacks, .reference = reference, .topology = topology,
//                   .suites = suites}, session, record);
//
// Ctrl-C ends it with what is known by then (runner/session/long_loop.h).
#pragma once

#include <span>
#include <vector>

#include "costmodel/topology.h"
#include "reports/records/record.h"
#include "runner/evaluation/program_steps.h"
#include "runner/session/session.h"
#include "strategies/select/stack.h"
#include "strategies/select/suite.h"

namespace shardlab {

struct SuitesToAsk {
  const std::vector<Stack>& stacks;  // the baseline first
  const Stack& reference;
  const Topology& topology;
  std::span<const Suite> suites;
  std::span<const ProgramCase> programs = {};  // those that ask some of the suites
  bool checks_replicas = false;                // whether answers say where replicas may differ
};

// Returns the questions that have an answer, in the order of record.questions, which it fills
// together with record.not_asked, record.configuration.suites and record.reference.doubtful. Throws
// ConfigError if none of the questions can be asked.
[[nodiscard]] std::vector<const Question*> ask_suites(const SuitesToAsk& to_ask, Session& session,
                                                      reports::ComparisonRecord& record);

}  // namespace shardlab
