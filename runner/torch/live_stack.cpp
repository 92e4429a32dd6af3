#include "runner/torch/live_stack.h"

#include <filesystem>

#include "costmodel/base/error.h"
#include "runner/base/env.h"
#include "runner/torch/stack_name.h"

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
std::string interpreter(const TorchStackName& name) {
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

// Our release of a PyTorch, whose patch version does not matter, or the newest one if we have none.
const ReleaseEntry& nearest_release(const TorchWorker& worker) {
  const auto minor = [](std::string_view version) {
    return version.substr(0, version.find('.', version.find('.') + 1));
  };
  const std::string torch = worker.hello().value("torch", "");
  for (const ReleaseEntry& entry : kReleases) {
    if (minor(entry.torch) == minor(torch)) return entry;
  }
  return kReleases.back();
}

// The functions that price, plan and choose, and that an overlay or a patch changes. Prices and
// choices are not PyTorch's here, so that such a change would be left out without a word.
std::string changed_machinery(const TorchWorker& worker, TorchLaunch launch) {
  launch.start["overlay"] = nullptr;
  launch.start["patches"] = nlohmann::json::array();
  const TorchWorker plain(std::move(launch));
  const nlohmann::json& before = plain.hello().at("fingerprints");
  std::string names;
  for (const auto& [name, hash] : worker.hello().at("fingerprints").items()) {
    const bool is_same = before.contains(name) && before[name] == hash;
    if (!is_same) names += (names.empty() ? "" : ", ") + name;
  }
  for (const auto& [name, hash] : before.items()) {
    const bool is_gone = !worker.hello().at("fingerprints").contains(name);
    if (is_gone) names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

}  // namespace

std::optional<Stack> LiveStacks::stack(const std::string& name, const ConfigStore& store) {
  const std::optional<TorchStackName> parsed = TorchStackName::parse(name);
  if (!parsed) return std::nullopt;
  if (parsed->cost) {
    throw InputError("stack \"" + name +
                     "\": +cost= is not supported yet; valid: +overlay=, +patch=, +rules=");
  }
  const std::lock_guard lock(lock_);
  std::shared_ptr<TorchRules>& rules = rules_[name];
  if (!rules) {
    TorchLaunch launch;
    launch.python = interpreter(*parsed);
    launch.script = worker_script();
    launch.name = name;
    launch.start = {{"overlay", absolute(parsed->overlay)},
                    {"patches", absolute(parsed->patches)},
                    {"cost", nullptr},
                    {"rules", absolute(parsed->rules)}};
    auto worker = std::make_shared<TorchWorker>(launch);
    if (parsed->overlay || !parsed->patches.empty()) {
      const std::string changed = changed_machinery(*worker, std::move(launch));
      if (!changed.empty()) {
        throw InputError("stack \"" + name + "\": found a change of " + changed +
                         "; valid: a change of sharding rules alone, since prices, plans and "
                         "choices are still those of " +
                         std::string(nearest_release(*worker).rule_set));
      }
    }
    const RuleSet nearest = nearest_release(*worker).release;
    rules = std::make_shared<TorchRules>(std::move(worker), nearest);
  }
  const ReleaseEntry& release = nearest_release(rules->worker());
  Stack stack = store.stack(std::string(release.rule_set));
  stack.name = name;
  stack.title = "the rules of a live " + rules->text();
  stack.source = rules->text();
  stack.rules = Rules(rules, RuleSet(release.release));
  return stack;
}

}  // namespace shardlab
