#include "sim/flows/fair_share.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

// A sum from which most was subtracted is added up anew, before the rounding of what was subtracted
// matters.
constexpr double kCancelled = 1e-3;

}  // namespace

FairShare::FairShare(std::vector<double> capacities) : resources_(capacities.size()) {
  for (std::size_t r = 0; r < capacities.size(); ++r) {
    SHARDLAB_CHECK(capacities[r] > 0.0 && std::isfinite(capacities[r]), "resource ", r,
                   " has the capacity ", capacities[r]);
    resources_[r].capacity = capacities[r];
  }
}

std::size_t FairShare::index_of(int flow) const {
  SHARDLAB_CHECK(flow >= 0 && to_index(flow) < flows_.size() && flows_[to_index(flow)].live,
                 "there is no flow ", flow);
  return to_index(flow);
}

int FairShare::add(std::span<const ResourceUse> uses, double cap) {
  SHARDLAB_CHECK(cap > 0.0 && std::isfinite(cap), "a flow has the cap ", cap);
  for (const ResourceUse& use : uses) {
    SHARDLAB_CHECK(use.resource >= 0 && use.resource < resources(), "there is no resource ",
                   use.resource);
    SHARDLAB_CHECK(use.amount >= 0.0 && std::isfinite(use.amount * cap), "a flow uses ", use.amount,
                   " of resource ", use.resource);
  }
  int number = static_cast<int>(flows_.size());
  if (free_.empty()) {
    flows_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
  }
  ++live_;
  Flow& flow = flows_[to_index(number)];
  flow.live = true;
  flow.cap = cap;
  flow.speed = cap;
  flow.seen = 0;
  flow.uses.clear();
  for (const ResourceUse& use : uses) {
    if (use.amount == 0.0) continue;
    std::vector<Member>& members = resources_[to_index(use.resource)].members;
    if (!members.empty() && members.back().flow == number) {
      Member& known = members.back();
      flow.uses[to_index(known.use)].amount += use.amount;
      known.amount += use.amount;
      known.most = known.amount * cap;
      continue;
    }
    const auto u = static_cast<int>(flow.uses.size());
    flow.uses.push_back({use.resource, static_cast<int>(members.size()), use.amount});
    members.push_back({number, u, use.amount, use.amount * cap});
  }
  for (const Use& use : flow.uses) {
    Resource& resource = resources_[to_index(use.resource)];
    weigh(resource);
    if (resource.scarce) touch(use.resource);
  }
  added_.push_back(number);
  return number;
}

void FairShare::remove(int number) {
  Flow& flow = flows_[index_of(number)];
  for (const Use& use : flow.uses) {
    Resource& resource = resources_[to_index(use.resource)];
    if (resource.scarce) touch(use.resource);
    Member& place = resource.members[to_index(use.slot)];
    place = resource.members.back();
    flows_[to_index(place.flow)].uses[to_index(place.use)].slot = use.slot;
    resource.members.pop_back();
    weigh(resource);
  }
  flow.live = false;
  free_.push_back(number);
  --live_;
}

// Says whether the resource suffices for all its flows at their caps.
void FairShare::weigh(Resource& resource) {
  double most = 0.0;
  for (const Member& member : resource.members) most += member.most;
  resource.scarce = most > resource.capacity * (1.0 + kShareSlack);
}

// Takes the flows of a resource into the update, and the scarce resources that they use.
void FairShare::reach(int number) {
  Resource& resource = resources_[to_index(number)];
  if (resource.scarce) scarce_.push_back(number);
  for (const Member& member : resource.members) {
    Flow& flow = flows_[to_index(member.flow)];
    if (flow.seen == update_) continue;
    flow.seen = update_;
    flow.former_speed = flow.speed;
    flow.fixed = false;
    solved_.push_back(member.flow);
    for (const Use& use : flow.uses) {
      Resource& other = resources_[to_index(use.resource)];
      if (other.seen == update_ || !other.scarce) continue;
      other.seen = update_;
      pending_.push_back(use.resource);
    }
  }
}

std::span<const int> FairShare::update() {
  ++update_;
  solved_.clear();
  scarce_.clear();
  changed_.clear();
  for (const int number : touched_) {
    Resource& resource = resources_[to_index(number)];
    if (resource.seen == update_) continue;
    resource.seen = update_;
    pending_.push_back(number);
    while (!pending_.empty()) {
      const int next = pending_.back();
      pending_.pop_back();
      reach(next);
    }
  }
  touched_.clear();
  solve();
  for (const int number : added_) {
    Flow& flow = flows_[to_index(number)];
    if (!flow.live) continue;
    if (flow.seen != update_) changed_.push_back(number);
    // A new flow is always listed, and a number that was added twice is listed once.
    flow.former_speed = std::numeric_limits<double>::quiet_NaN();
    flow.seen = update_;
  }
  added_.clear();
  for (const int number : solved_) {
    const Flow& flow = flows_[to_index(number)];
    if (flow.speed != flow.former_speed) changed_.push_back(number);
  }
  return changed_;
}

// Gives a flow its speed, and takes what it uses from its resources.
void FairShare::fix(Flow& flow, double speed) {
  flow.fixed = true;
  flow.speed = speed;
  for (const Use& use : flow.uses) {
    Resource& resource = resources_[to_index(use.resource)];
    if (!resource.scarce) continue;
    --resource.open;
    resource.left -= use.amount * speed;
    const double weight = resource.weight - use.amount;
    if (weight > kCancelled * resource.weight || resource.open == 0) {
      resource.weight = weight;
      continue;
    }
    resource.weight = 0.0;
    for (const Member& member : resource.members) {
      if (!flows_[to_index(member.flow)].fixed) resource.weight += member.amount;
    }
  }
}

// Progressive filling: the speeds of all flows rise together until a flow reaches its cap or a
// resource is used up; the flows that this concerns keep their speed, and the others go on.
void FairShare::solve() {
  for (const int number : scarce_) {
    Resource& resource = resources_[to_index(number)];
    resource.left = resource.capacity;
    resource.open = static_cast<int>(resource.members.size());
    resource.weight = 0.0;
    for (const Member& member : resource.members) resource.weight += member.amount;
  }
  const auto cap_of = [&](int flow) { return flows_[to_index(flow)].cap; };
  const auto lower_cap = [&](int a, int b) { return cap_of(a) < cap_of(b); };
  if (!std::is_sorted(solved_.begin(), solved_.end(), lower_cap)) {
    std::sort(solved_.begin(), solved_.end(), lower_cap);
  }
  // The scarce resources as a heap, with the level at which each is used up: the speed that its
  // open flows reach. Fixing a flow never lowers a level, so one that is out of date is too low,
  // and is renewed when it comes up.
  levels_.clear();
  for (const int number : scarce_) {
    const Resource& resource = resources_[to_index(number)];
    levels_.push_back({resource.left / resource.weight, number});
  }
  const auto later = [](const Level& a, const Level& b) { return a.level > b.level; };
  std::make_heap(levels_.begin(), levels_.end(), later);
  double reached = 0.0;  // the speed up to which all open flows have risen
  auto capped = solved_.begin();
  while (true) {
    double level = std::numeric_limits<double>::infinity();
    while (!levels_.empty()) {
      const Level first = levels_.front();
      const Resource& resource = resources_[to_index(first.resource)];
      level = resource.open > 0 ? resource.left / resource.weight
                                : std::numeric_limits<double>::infinity();
      if (resource.open > 0 && level <= first.level) break;
      std::pop_heap(levels_.begin(), levels_.end(), later);
      levels_.pop_back();
      if (resource.open == 0) continue;
      levels_.push_back({level, first.resource});
      std::push_heap(levels_.begin(), levels_.end(), later);
    }
    level = std::max(level, reached);  // rounding must not lead back
    // Flows that reach their caps before. They are fixed first, and may leave more to the others.
    bool fixed_some = false;
    for (; capped != solved_.end(); ++capped) {
      Flow& flow = flows_[to_index(*capped)];
      if (flow.fixed) continue;
      if (flow.cap > level * (1.0 + kShareSlack)) break;
      fix(flow, flow.cap);
      fixed_some = true;
    }
    if (capped == solved_.end()) return;
    if (fixed_some) continue;
    for (const Member& member : resources_[to_index(levels_.front().resource)].members) {
      Flow& flow = flows_[to_index(member.flow)];
      if (!flow.fixed) fix(flow, level);
    }
    reached = level;
  }
}

}  // namespace shardlab
