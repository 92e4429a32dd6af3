#include "runner/base/version.h"

#include "shardlab_version.h"

namespace shardlab {

std::string_view version() { return kVersion; }
std::string_view git_commit() { return kGitCommit; }
std::string_view commit_date() { return kCommitDate; }
std::string_view compiler() { return kCompiler; }
std::string_view build_type() { return kBuildType; }

std::string version_text() {
  std::string text = "shardlab ";
  text.append(kVersion).append(" (commit ").append(kGitCommit).append(", ");
  text.append(kBuildType).append(" build by ").append(kCompiler);
  if (*kSanitizers != '\0') text.append(", sanitizers: ").append(kSanitizers);
  return text + ")";
}

}  // namespace shardlab
