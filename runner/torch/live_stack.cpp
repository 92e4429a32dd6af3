#include "runner/torch/live_stack.h"

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <iostream>

#include "costmodel/base/error.h"
#include "runner/base/env.h"
#include "runner/base/terminal.h"
#include "runner/choices/question_text.h"
#include "runner/choices/recorded_stack.h"
#include "runner/torch/live_notes.h"
#include "runner/torch/python_cost.h"
#include "strategies/select/questionnaire.h"

namespace shardlab {
namespace {

namespace fs = std::filesystem;

// The worker's script lies beside the configurations: in the source tree below python/, and in an
// installed package beside the folder configs.
std::string worker_script() {
  const fs::path above = configs_root().parent_path();
  for (const fs::path& path :
       {above / "python" / "torch_worker" / "worker.py", above / "torch_worker" / "worker.py"}) {
    std::error_code error;
    if (fs::exists(path, error)) return path.string();
  }
  throw EnvironmentError("torch_worker/worker.py was not found beside " + configs_root().string() +
                         "; stacks of a live PyTorch need it");
}

// The interpreter that a name means: a file, or the one in the folder of a virtual environment.
std::string interpreter(const LiveStackName& name) {
  if (name.python.empty()) {
    const std::string given = read_env("SHARDLAB_TORCH_PYTHON");
    return given.empty() ? "python3" : given;
  }
  std::error_code error;
  const fs::path path(name.python);
  if (fs::is_directory(path, error)) {
    if (fs::exists(path / "bin" / "python", error)) return (path / "bin" / "python").string();
    throw EnvironmentError("stack \"" + name.text + "\": found no bin/python in the folder " +
                           name.python + "; valid: an interpreter, or a virtual environment");
  }
  if (name.python.find('/') != std::string::npos && !fs::exists(path, error)) {
    throw EnvironmentError("stack \"" + name.text + "\": found no file " + name.python +
                           "; valid: an interpreter, or the folder of a virtual environment");
  }
  return name.python;
}

// The worker runs where we do, but an absolute path reads the same from everywhere.
nlohmann::json absolute(const std::optional<std::string>& path) {
  return path ? nlohmann::json(fs::absolute(*path).string()) : nlohmann::json(nullptr);
}

nlohmann::json absolute(const std::vector<std::string>& paths) {
  nlohmann::json list = nlohmann::json::array();
  for (const std::string& path : paths) list.push_back(fs::absolute(path).string());
  return list;
}

nlohmann::json or_null(const std::optional<std::string>& text) {
  return text ? nlohmann::json(*text) : nlohmann::json(nullptr);
}

// What the worker is told to hold. A cost function of a stack of our own needs no PyTorch.
TorchLaunch launch_of(const LiveStackName& name) {
  TorchLaunch launch;
  launch.python = interpreter(name);
  launch.script = worker_script();
  launch.name = name.text;
  launch.start = {{"torch", name.base.empty()},
                  {"overlay", absolute(name.overlay)},
                  {"patches", absolute(name.patches)},
                  {"cost", absolute(name.cost)},
                  {"rules", absolute(name.rules)}};
  return launch;
}

nlohmann::json to_json(const SampleCheck& verified) {
  return {{"asked", verified.asked}, {"equal", verified.equal}, {"different", verified.different}};
}

}  // namespace

std::unique_ptr<LiveStacks::Live> LiveStacks::start(const LiveStackName& name) const {
  auto live = std::make_unique<Live>();
  live->name = name;
  live->worker = std::make_shared<TorchWorker>(launch_of(name));
  const nlohmann::json& hello = live->worker->hello();
  live->base = name.base;
  if (!name.base.empty()) return live;
  const ReleaseEntry& nearest = nearest_release(hello.value("torch", ""));
  live->base = nearest.rule_set;
  live->changes = KnownMachinery::read(configs_root() / "torch" / "machinery.json")
                      .changes(nearest.torch, hello.at("fingerprints"));
  auto decisions = std::make_shared<TorchDecisions>(live->worker);
  for (const nlohmann::json& each : hello.at("rebound")) live->changes.add(each);
  for (const std::string& note : live_notes(hello, live->changes, live->base)) {
    std::cerr << "shardlab: " << name.text << ": " << printable(note) << "\n";
  }
  if (!live->changes.others.empty()) decisions->take_all();
  if (const std::vector<std::string> changed = live->changes.of_merging(); !changed.empty()) {
    decisions->note_changed_merging(changed.front());
  }
  live->rules = std::make_shared<TorchRules>(live->worker, nearest.release, std::move(decisions));
  live->rules->set_progress([this](std::string what, std::size_t total) {
    return std::make_unique<Progress>(std::move(what), total, session_.quiet);
  });
  return live;
}

namespace {

// What --set may still change where PyTorch decides as a whole: what names the stack, what merges
// the steps of PyTorch's plans, and what is priced of a training step beside its decisions.
constexpr std::array<std::string_view, 7> kReadBesideDecisions = {
    "name", "title", "source", "merge", "merge_rule", "merge_checks_all_gather", "step_terms"};

// The keys that the model of collectives and the place of its prices have.
bool is_of_prices(const std::string& key) {
  return key == "collective_model" || key == "transitions";
}

// The --set stack.* that holds for this key alone.
[[noreturn]] void refuse_set(const Override& change, const std::string& why,
                             const std::string& valid) {
  throw InputError("--set " + change.text + ": changes nothing, since " + why +
                   "; valid: " + valid);
}

}  // namespace

// Refuses changes of the stack that nobody would read: of prices where a function of Python's gives
// them, of the rules where a live PyTorch has its own, and of nearly everything where it decides as
// a whole.
void LiveStacks::expect_sets_that_are_read(const Live& live) {
  const bool is_pytorch = live.rules != nullptr;
  const bool decides_all = is_pytorch && live.rules->decisions().takes_all();
  const std::string whole_because =
      live.changes.others.empty() ? "some of its answers to a sample of questions differ from those"
                                  : "its " + live.changes.others.front() + " differs from that";
  for (const Override& change : live.changed_by_set) {
    if (change.target != "stack") continue;
    const std::string& key = change.keys.front();
    if (live.name.cost && key == "collective_model") {
      throw InputError("--set " + change.text + ": changes no price, since the function " +
                       *live.name.cost +
                       " prices the collectives; valid: other keys of the stack, or a constant in "
                       "the function");
    }
    if (is_pytorch && key == "rules") {
      refuse_set(change, live.name.text + " has the rules of its PyTorch",
                 "a stack of shardlab's own, such as " + live.base);
    }
    if (decides_all && std::ranges::find(kReadBesideDecisions, key) == kReadBesideDecisions.end()) {
      refuse_set(change,
                 "the PyTorch of " + live.name.text + " decides as a whole: " + whole_because +
                     " of " + live.base,
                 "the change in that PyTorch, by +patch=FILE.py");
    }
    if (is_pytorch && !live.changes.prices.empty() && is_of_prices(key)) {
      refuse_set(change,
                 "the PyTorch of " + live.name.text + " gives the prices: its " +
                     live.changes.prices.front() + " differs from that of " + live.base,
                 "other keys of the stack, or the change in that PyTorch, by +patch=FILE.py");
    }
  }
}

// The stack of a live PyTorch or of a cost function, with what --set changes of it.
Stack LiveStacks::made_of(const Live& live, const ConfigStore& store) {
  const LiveStackName& name = live.name;
  Stack stack = store.stack(live.base);
  stack.name = name.text;
  if (name.cost) stack.cost_function = *name.cost;
  const bool prices_collectives =
      live.rules == nullptr && live.worker->hello().value("cost_parameters", 0) == 3;
  if (prices_collectives) {
    stack.collective_model =
        choose_function(python_collectives(price_asker(live.worker), *name.cost));
  } else if (live.rules == nullptr || !live.changes.prices.empty()) {
    stack.redistribution.semantics =
        priced_by(stack.redistribution.semantics,
                  python_transitions(price_asker(live.worker), name.cost.value_or(name.text)));
  }
  if (live.rules == nullptr) {
    stack.title += ", with the prices of " + *name.cost;
    stack.source = "the function " + *name.cost + ", otherwise " + live.base;
    return stack;
  }
  stack.title = "a live " + live.rules->text();
  stack.source = live.rules->text();
  stack.rules = Rules(live.rules, nearest_release(live.worker->hello().value("torch", "")).release);
  stack.decisions = std::shared_ptr<DecisionSource>(live.rules, &live.rules->decisions());
  return stack;
}

std::optional<Stack> LiveStacks::stack(const std::string& name, const ConfigStore& store) {
  if (session_.callers_stacks != nullptr) {
    if (std::optional<Stack> stack = session_.callers_stacks->stack(name, store)) return stack;
  }
  const std::optional<LiveStackName> parsed = LiveStackName::parse(name);
  if (!parsed) {  // also the base of a live stack, which is read while `lock_` is held
    std::optional<RecordedStack> recorded = recorded_stack(name, store);
    if (!recorded) return std::nullopt;
    const std::lock_guard lock(recorded_lock_);
    recorded_[name] = std::move(recorded->provenance);
    return std::move(recorded->stack);
  }
  const std::lock_guard lock(lock_);
  std::unique_ptr<Live>& live = live_[name];
  if (!live) live = start(*parsed);
  live->changed_by_set = store.overrides();
  expect_sets_that_are_read(*live);
  if (live->rules != nullptr && !live->as_written) {
    live->as_written = made_of(*live, store.with_stacks_as_written());
  }
  return made_of(*live, store);
}

void LiveStacks::prepare(const Stack& stack, std::span<const Question* const> questions,
                         const Topology& topology) {
  const std::lock_guard lock(lock_);
  for (auto& [name, live] : live_) {
    if (live->rules == nullptr || live->rules.get() != stack.rules.source()) continue;
    if (!live->rules->decisions().takes_all()) prepare_rules(*live->rules, questions);
    if (!live->verified) check_a_sample(*live, questions, topology);
    ask_decisions(*live, questions, topology);
  }
}

// Checks the stack, without what --set changes of it, against whole decisions once in a run. Where
// one differs, something has changed that no fingerprint shows, so that any other answer may be
// wrong too: what differs is printed, and PyTorch decides everything from here on.
void LiveStacks::check_a_sample(Live& live, std::span<const Question* const> questions,
                                const Topology& topology) const {
  live.verified = check_sample(*live.as_written, *live.rules, questions, topology,
                               {.count = session_.verify, .seed = session_.seed});
  const std::vector<std::string>& different = live.verified->different;
  if (different.empty()) return;
  for (const std::string& each : different) {
    std::cerr << "shardlab: " << live.name.text
              << ": PyTorch's own decision differs: " << printable(each) << "\n";
  }
  std::cerr << "shardlab: " << live.name.text << ": " << different.size() << " of "
            << live.verified->asked << " decisions that were asked as a check differ, so PyTorch "
            << "decides everything from here on\n";
  live.rules->leave_all_to_decisions();
  expect_sets_that_are_read(live);
}

// Asks for all whole decisions that will be needed in one batch.
void LiveStacks::ask_decisions(Live& live, std::span<const Question* const> questions,
                               const Topology& topology) const {
  if (!live.rules->decisions().takes_all()) return;
  std::deque<OpCall> elements;  // the calls on single elements, for calls on lists of tensors
  std::vector<DecisionQuestion> wanted;
  for (const Question* question : questions) {
    if (question->kind == Question::Kind::kPlan) continue;
    const OpCall& call = question->call;
    if (!is_foreach(call.op)) {
      wanted.push_back({&call, &question->mesh});
      continue;
    }
    try {
      for (std::size_t i = 0; i < foreach_size(call); ++i) {
        elements.push_back(foreach_child(call, i));
        wanted.push_back({&elements.back(), &question->mesh});
      }
    } catch (const InputError&) {  // reported when the question is asked
    }
  }
  if (wanted.empty()) return;
  Progress progress("asking " + live.rules->text() + " for decisions:", wanted.size(),
                    session_.quiet);
  live.rules->decisions().prepare(wanted, topology, [&] { progress.advance(); });
}

nlohmann::json LiveStacks::describe(const Live& live) const {
  const nlohmann::json& hello = live.worker->hello();
  nlohmann::json json = {
      {"stack", live.name.text},
      {"version", hello.at("torch")},
      {"python", live.name.python.empty() ? interpreter(live.name) : live.name.python},
      {"python_version", hello.at("python")},
      {"base", live.base},
      {"overlay", or_null(live.name.overlay)},
      {"patches", live.name.patches},
      {"rules", live.name.rules},
      {"cost", or_null(live.name.cost)},
      {"changed",
       {{"prices", live.changes.prices},
        {"others", live.changes.others},
        {"dispatch", live.changes.dispatch}}}};
  if (live.rules == nullptr) return json;
  json["ignored_registrations"] = hello.at("ignored_registrations");
  const TorchRules::Levels levels = live.rules->levels();
  json["levels"] = {{"rows", levels.rows.size()},
                    {"candidates", levels.candidates.size()},
                    {"decisions", levels.decisions.size()},
                    {"recorded", 0}};
  json["verified"] = to_json(live.verified.value_or(SampleCheck{}));
  return json;
}

nlohmann::json LiveStacks::details(const Stack& stack) const {
  const auto found = live_.find(stack.name);
  if (found == live_.end() || found->second->rules == nullptr) return nullptr;
  const TorchRules::Levels levels = found->second->rules->levels();
  return {{"fingerprints", found->second->worker->hello().at("fingerprints")},
          {"levels",
           {{"rows", levels.rows},
            {"candidates", levels.candidates},
            {"decisions", levels.decisions},
            {"recorded", nlohmann::json::array()}}}};
}

nlohmann::json LiveStacks::provenance() const {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& [name, live] : live_) {
    if (live) all.push_back(describe(*live));
  }
  for (const auto& [name, provenance] : recorded_) all.push_back(provenance);
  if (all.empty()) return nullptr;
  return all.size() == 1 ? all.front() : all;
}

}  // namespace shardlab
