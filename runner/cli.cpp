#include "runner/cli.h"

#include <algorithm>
#include <iostream>
#include <thread>

namespace shardlab {

ConfigStore Session::store() const {
  std::vector<Override> overrides;
  for (const std::string& text : sets) overrides.push_back(Override::parse(text));
  return ConfigStore(configs_root(), std::move(overrides));
}

int Session::threads() const {
  if (jobs > 0) return jobs;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void Session::print(const nlohmann::json& document) const {
  std::cout << document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

void Session::print(const std::string& text) const { std::cout << text; }

void add_common_options(CLI::App& app, Session& session) {
  app.add_option("--format", session.format, "text for eyes, or json: exactly one document")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_option("--seed", session.seed, "seed of everything random")->capture_default_str();
  app.add_option("--jobs", session.jobs, "threads; 0: one per core. The result is the same for any number")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--set", session.sets,
                 "PATH=VALUE, once per change: devices_per_host=1 (topology), stack.transition_us=1, ...")
      ->take_all()
      ->allow_extra_args(false);
  app.add_flag("--quiet", session.quiet, "no progress on stderr");
  app.add_flag("--no-timing", session.no_timing, "leave clock readings out of the result");
}

void add_topology_option(CLI::App& app, Session& session) {
  app.add_option("--topology", session.topology, "shipped name or path")->capture_default_str();
}

}  // namespace shardlab
