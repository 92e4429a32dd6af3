// The session that all commands share.
#include "runner/session/session.h"

#include <gtest/gtest.h>

#include "runner/config/configs.h"
#include "sim/mesh.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace session_test {

TEST(Session, TheDefaultsAreTextAndH100) {
  const Session session;
  EXPECT_FALSE(session.json());
  EXPECT_EQ(session.topology, "h100");
  EXPECT_EQ(session.exit_code, kDone);
  EXPECT_GE(session.threads(), 1);
}

TEST(Session, JobsAreThreads) {
  Session session;
  session.jobs = 3;
  EXPECT_EQ(session.threads(), 3);
}

TEST(Session, ItsStoreHasTheSets) {
  Session session;
  session.sets = {"devices_per_host=2", "stack.planner=graph"};
  const ConfigStore store = session.store();
  ASSERT_EQ(store.overrides().size(), 2U);
  EXPECT_EQ(store.topology("h100").devices_per_host(), 2);
}

TEST(Session, ASetOfAnExperimentIsRefusedWhereThereIsNone) {
  Session session;
  session.sets = {"experiment.seed=3"};
  EXPECT_THROW_MSG(session.store(), InputError,
                   "--set experiment.seed=3: this command reads no experiment; valid: a path of "
                   "the topology or of the stack");
}

TEST(ParseOption, PutsTheOptionsNameInFront) {
  EXPECT_THROW_MSG(parse_option("--mesh", [] { return DeviceMesh::parse("8y8"); }), InputError,
                   "--mesh: mesh \"8y8\": at position 1: expected \"x\" and another size, or the "
                   "end (8x8, dp=8,tp=8)");
  EXPECT_EQ(parse_option("--mesh", [] { return DeviceMesh::parse("8x8"); }).text(), "8x8");
}

}  // namespace session_test
}  // namespace shardlab
