// Which changes of the topology by --set leave what a command answers as it is: those that its
// questions do not use, and those that the models do not read.
//
// A command that answers one question answers it again without each change:
//
//   for (const TopologyChange& change : topology_changes(session)) {
//     if (predict(change.without) == predicted) ... unread_change_text(change, ...)
//   }
//
// A command that asks many questions watches the prices while it asks them:
//
//   UnreadChanges unread(session, topology);
//   unread.watch(stack);      // before anything is asked under this stack
//   unread.texts();           // after everything was asked
//
// What cannot be known is not said. Throws what ConfigStore does (runner/config/configs.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/price_watch.h"
#include "costmodel/topology.h"
#include "runner/session/session.h"
#include "strategies/select/stack.h"

namespace shardlab {

// One --set that changes the topology, and the topology with all others but this one.
struct TopologyChange {
  std::string text;  // as it was typed
  Topology without;
};

// The changes of the session's topology. Those that the others need are left out: without them, the
// topology would be refused.
[[nodiscard]] std::vector<TopologyChange> topology_changes(const Session& session);

// "--set device.launch_us=9 changes nothing of this step: its ranks do not use it, or the models of
// the stack steps do not read it". `what` is "nothing of this step", `users` "its ranks", and
// `readers` "the models of the stack steps".
[[nodiscard]] std::string unread_change_text(const TopologyChange& change, std::string_view what,
                                             std::string_view users, std::string_view readers);

// Changes under which no price of a stack moves, whatever is asked. Nothing is known of a change
// that moves ranks to other hosts or domains, and of a stack for which somebody else decides, such
// as a live PyTorch.
class UnreadChanges {
 public:
  UnreadChanges() = default;  // of a topology that nothing changes
  UnreadChanges(const Session& session, const Topology& topology);

  // Leaves out changes of a device's memory, for commands that say what fits into it.
  void leave_out_memory();
  // The stack's prices are watched from here on. Stacks of one name are watched as one.
  void watch(Stack& stack);
  // Ends all watches. Returns a sentence for each change that has left all prices of some stacks as
  // they are. Assumes that everything was asked.
  [[nodiscard]] std::vector<std::string> texts();

 private:
  struct WatchedStack {
    std::string name;
    std::shared_ptr<PriceWatch> watch;
  };
  struct Watched {
    TopologyChange change;
    std::vector<WatchedStack> stacks;
  };
  double memory_gib_ = 0.0;
  std::vector<Watched> watched_;
};

}  // namespace shardlab
