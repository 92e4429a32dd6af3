#include "runner/base/version.h"

#include "shardlab_version.h"

namespace shardlab {

std::string_view version() { return kVersion; }
std::string_view git_commit() { return kGitCommit; }
std::string_view compiler() { return kCompiler; }
std::string_view build_type() { return kBuildType; }

}  // namespace shardlab
