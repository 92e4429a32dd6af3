// Stacks that Python code answers, in whole or in part, by name (runner/config/stack_name.h).
//
//   LiveStacks live(session);                                // one for a run of a command
//   std::optional<Stack> stack = live.stack("torch:./venv", store);
//   live.prepare(*stack, questions, topology);               // batches, and the check of a sample
//
// A live PyTorch is asked for as little as possible, since rows take it a millisecond and whole
// decisions up to a second. It is asked for
//   rows         if an op's strategy lists rows for one mesh dim; shardlab expands them, prices the
//                candidates and chooses
//   candidates   if an op's strategy is a function of the whole mesh; shardlab prices and chooses
//   prices       of single transitions, if the source of a function that prices them differs from
//                the release that the stack is based on
//   decisions    as a whole, if the source of a planner, a selection or a dispatcher differs, or if
//                PyTorch and shardlab disagreed on a question of the sample
// Stacks of one name share a Python process, which ends with the last of them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runner/config/configs.h"
#include "runner/config/stack_name.h"
#include "runner/session/session.h"
#include "runner/torch/machinery.h"
#include "runner/torch/sample_check.h"
#include "runner/torch/torch_rules.h"

namespace shardlab {

class LiveStacks final : public StackSource {
 public:
  // Reads session.quiet, seed and verify when they are needed.
  explicit LiveStacks(const Session& session) : session_(session) {}

  // The stack that Python code or a file of recorded choices answers; nothing if the name means
  // neither. Throws InputError for a name with a mistake and for a --set stack.* that nobody would
  // read, since Python decides or prices in its place, and EnvironmentError when Python can't be
  // asked.
  [[nodiscard]] std::optional<Stack> stack(const std::string& name,
                                           const ConfigStore& store) override;
  void prepare(const Stack& stack, std::span<const Question* const> questions,
               const Topology& topology) override;
  // The fingerprints of PyTorch's machinery, and the ops by what PyTorch is asked for.
  [[nodiscard]] nlohmann::json details(const Stack& stack) const override;
  // One object for a single stack, and a list of them where there are several.
  [[nodiscard]] nlohmann::json provenance() const override;

 private:
  struct Live {
    LiveStackName name;
    std::shared_ptr<TorchWorker> worker;
    std::shared_ptr<TorchRules> rules;  // null where PyTorch gives prices alone
    MachineryChanges changes;
    std::string base;                 // the stack of shardlab's own that it starts from
    std::optional<Stack> as_written;  // without what --set changes; empty where `rules` is null
    std::vector<Override> changed_by_set;  // the --set that the stack was last asked for with
    std::optional<SampleCheck> verified;
  };

  [[nodiscard]] std::unique_ptr<Live> start(const LiveStackName& name) const;
  [[nodiscard]] nlohmann::json describe(const Live& live) const;
  static void expect_sets_that_are_read(const Live& live);
  [[nodiscard]] static Stack made_of(const Live& live, const ConfigStore& store);
  void check_a_sample(Live& live, std::span<const Question* const> questions,
                      const Topology& topology) const;
  void ask_decisions(Live& live, std::span<const Question* const> questions,
                     const Topology& topology) const;

  const Session& session_;
  std::mutex lock_;
  std::map<std::string, std::unique_ptr<Live>> live_;  // by name
  std::mutex recorded_lock_;
  std::map<std::string, nlohmann::json> recorded_;  // provenance of files of choices, by name
};

}  // namespace shardlab
