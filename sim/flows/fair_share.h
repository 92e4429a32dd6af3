// Max-min fair sharing of resources by flows that come and go.
//
//   FairShare share({100.0, 40.0});                        // two links, in GB/s
//   const std::vector<ResourceUse> uses = {{0, 50.0}, {1, 50.0}};
//   const int a = share.add(uses);                        // 50 GB/s of each link at speed 1
//   const int b = share.add(uses);
//   share.update();                                       // share.speed(a) is 0.4, as for b
//   share.remove(a);
//   share.update();                                       // share.speed(b) == 0.8
//
// A flow that runs at speed x takes x times the amounts that it uses of each resource, and x is at
// most the flow's cap. Speeds are max-min fair: no flow can run faster without slowing down one
// that is as slow or slower. Equivalently, each flow runs at its cap or has a bottleneck, which is
// a resource that is used up and on which no other flow is faster. Speeds have no unit; amounts and
// capacities of a resource share one. Source: progressive filling, Bertsekas and Gallager, Data
// Networks, 2nd edition, section 6.5.2; a speed multiplies all amounts of its flow.
//
// update() solves anew only what a change can reach: a resource that suffices for all its flows at
// their caps slows down nobody, so it joins no flows, and the others split the flows into connected
// components. A capacity may be exceeded by rounding, in relation to itself by at most kShareSlack.
// With n uses of resources in a component and k resources, an update costs O(n + (n + k) log k).
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <span>
#include <vector>

namespace shardlab {

// What a flow, or a task, uses of a resource while it runs at speed 1.
struct ResourceUse {
  int resource = 0;
  double amount = 0.0;
};

// Sums that differ by less than this, in relation to the capacity, are taken as equal.
inline constexpr double kShareSlack = 1e-12;

class FairShare {
 public:
  // Throws ContractError for a capacity that is not positive and finite.
  explicit FairShare(std::vector<double> capacities);

  // Adds a flow and returns its number, which is free again after remove(). A resource that is
  // named twice is used with the sum of both amounts. Throws ContractError for an unknown resource,
  // an amount that is negative or not finite, and a cap that is not positive and finite.
  [[nodiscard]] int add(std::span<const ResourceUse> uses, double cap = 1.0);
  // Throws ContractError if there is no such flow.
  void remove(int flow);
  // Brings the speeds up to date with all changes since the last update. Returns the flows whose
  // speeds differ from before, among them all that are new, each once; the list is valid until the
  // next change.
  std::span<const int> update();

  // The speed as of the last update.
  [[nodiscard]] double speed(int flow) const { return flows_[index_of(flow)].speed; }
  [[nodiscard]] int resources() const { return static_cast<int>(resources_.size()); }
  [[nodiscard]] std::int64_t flows() const { return live_; }
  // How many flows the last update solved anew.
  [[nodiscard]] std::int64_t solved() const { return static_cast<std::int64_t>(solved_.size()); }

 private:
  struct Use {
    int resource;
    int slot;  // position of the flow among those of the resource
    double amount;
  };
  struct Flow {
    boost::container::small_vector<Use, 4> uses;
    double cap = 1.0;
    double speed = 0.0;
    double former_speed = 0.0;
    std::uint64_t seen = 0;  // the update that last reached this flow
    bool live = false;
    bool fixed = false;  // during an update: whether the new speed is known
  };
  struct Member {
    int flow;
    int use;  // index among the uses of the flow
    double amount;
    double most;  // the amount at the flow's cap
  };
  struct Resource {
    double capacity = 0.0;
    std::vector<Member> members;
    bool scarce = false;     // whether the flows at their caps use more than there is
    std::uint64_t seen = 0;  // the update that last reached this resource
    // While an update raises the speeds of all flows that are not fixed yet:
    double left = 0.0;    // what the fixed flows leave
    double weight = 0.0;  // sum of the amounts of the others
    int open = 0;         // how many others there are
  };

  struct Level {
    double level;
    int resource;
  };

  [[nodiscard]] std::size_t index_of(int flow) const;
  void weigh(Resource& resource);
  void touch(int resource) { touched_.push_back(resource); }
  void reach(int resource);
  void solve();
  void fix(Flow& flow, double speed);

  std::vector<Resource> resources_;
  std::vector<Flow> flows_;
  std::vector<int> free_;
  std::int64_t live_ = 0;
  std::uint64_t update_ = 0;
  std::vector<int> touched_;  // resources whose flows have to be solved anew
  std::vector<int> added_;    // flows that are new
  std::vector<int> pending_;  // resources to be visited
  std::vector<int> solved_;   // flows of this update
  std::vector<int> scarce_;   // resources of this update that limit a flow
  std::vector<Level> levels_;
  std::vector<int> changed_;
};

}  // namespace shardlab
