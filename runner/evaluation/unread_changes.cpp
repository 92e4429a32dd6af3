#include "runner/evaluation/unread_changes.h"

#include <algorithm>

#include "costmodel/base/error.h"
#include "reports/summary.h"
#include "runner/config/configs.h"

namespace shardlab {
namespace {

bool cut_ranks_alike(const Topology& a, const Topology& b) {
  return a.devices_per_host() == b.devices_per_host() && a.domain_devices() == b.domain_devices();
}

}  // namespace

std::vector<TopologyChange> topology_changes(const Session& session) {
  const std::vector<Override> all = session.store().overrides();
  std::vector<TopologyChange> changes;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].target != "topology") continue;
    std::vector<Override> others = all;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    try {
      changes.push_back(
          {all[i].text, ConfigStore(configs_root(), others).topology(session.topology)});
    } catch (const ConfigError&) {  // the others need this change
    } catch (const InputError&) {
    }
  }
  return changes;
}

std::string unread_change_text(const TopologyChange& change, std::string_view what,
                               std::string_view users, std::string_view readers) {
  return "--set " + change.text + " changes " + std::string(what) + ": " + std::string(users) +
         " do not use it, or " + std::string(readers) + " do not read it";
}

UnreadChanges::UnreadChanges(const Session& session, const Topology& topology)
    : memory_gib_(topology.device().memory_gib) {
  for (TopologyChange& change : topology_changes(session)) {
    if (cut_ranks_alike(change.without, topology)) watched_.push_back({std::move(change), {}});
  }
}

void UnreadChanges::leave_out_memory() {
  std::erase_if(watched_, [&](const Watched& watched) {
    return watched.change.without.device().memory_gib != memory_gib_;
  });
}

void UnreadChanges::watch(Stack& stack) {
  if (stack.decisions) return;
  for (Watched& watched : watched_) {
    const auto known = std::ranges::find(watched.stacks, stack.name, &WatchedStack::name);
    const bool is_new = known == watched.stacks.end();
    stack.watches.push_back(is_new ? std::make_shared<PriceWatch>(watched.change.without)
                                   : known->watch);
    if (is_new) watched.stacks.push_back({stack.name, stack.watches.back()});
  }
}

std::vector<std::string> UnreadChanges::texts() {
  std::vector<std::string> texts;
  for (const Watched& watched : watched_) {
    std::vector<std::string> unread;
    for (const auto& [stack, watch] : watched.stacks) {
      watch->close();
      if (!watch->saw_difference()) unread.push_back(stack);
    }
    if (unread.empty()) continue;
    texts.push_back(unread_change_text(
        watched.change, "no price under " + reports::listed(unread), "the questions",
        unread.size() == 1 ? "its models" : "the models of these stacks"));
  }
  return texts;
}

}  // namespace shardlab
