// The Python process behind a live stack. Small scripts take the worker's place, so that every way
// in which a process can fail is tried without PyTorch.
#include "runner/torch/worker.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "costmodel/base/error.h"
#include "tests/support/process.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace worker_test {

using testing_support::TemporaryFolder;

// What every script begins with: reading requests, and answering them.
constexpr const char* kHead = R"py(
import json, os, signal, sys, time
def requests():
    for line in sys.stdin:
        yield json.loads(line)
def say(**answer):
    print(json.dumps(answer), flush=True)
)py";
// Answers the first request as the worker does.
constexpr const char* kStart = R"py(
first = next(requests())
say(id=first["id"], ok={"torch": "2.99.0", "ops": {}, "pid": os.getpid()})
)py";

class Worker : public testing::Test {
 protected:
  TorchLaunch launch(const std::string& script) {
    folder_.write("worker.py", kHead + script);
    TorchLaunch launch;
    launch.script = (folder_.path() / "worker.py").string();
    launch.start_s = 20.0;
    launch.answer_s = 1.0;
    return launch;
  }
  // What the error of asking two items says.
  std::string error_of(const std::string& script) {
    try {
      TorchWorker worker(launch(script));
      worker.ask({{"do", "rows"}}, 2, [](std::size_t, const nlohmann::json&) {});
    } catch (const EnvironmentError& error) {
      return error.what();
    }
    return "no error";
  }

  TemporaryFolder folder_;
};

TEST_F(Worker, AnswersTheItemsOfARequestOneByOne) {
  TorchWorker worker(launch(std::string(kStart) + R"py(
for request in requests():
    for index, item in enumerate(request["items"]):
        say(id=request["id"], index=index, ok=2 * item)
)py"));
  EXPECT_EQ(worker.hello()["torch"], "2.99.0");
  std::vector<int> answers;
  worker.ask({{"do", "double"}, {"items", {1, 2, 3}}}, 3,
             [&](std::size_t, const nlohmann::json& answer) { answers.push_back(answer["ok"]); });
  EXPECT_EQ(answers, (std::vector<int>{2, 4, 6}));
}

TEST_F(Worker, IsGoneWhenItsOwnerIs) {
  pid_t pid = 0;
  {
    TorchWorker worker(launch(std::string(kStart) + "signal.pause()\n"));
    pid = worker.hello()["pid"];
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_NE(kill(pid, 0), 0);
}

// What PyTorch's worker does so that it does not outlive its parent: Linux kills it when the thread
// that started it ends.
constexpr const char* kDieWithTheStartingThread = R"py(
import ctypes
ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)
)py";

TEST_F(Worker, OutlivesTheThreadThatMadeIt) {
  std::unique_ptr<TorchWorker> worker;
  const TorchLaunch described = launch(std::string(kDieWithTheStartingThread) + kStart + R"py(
os.close(2)
for request in requests():
    say(id=request["id"], ok={})
)py");
  std::thread([&] { worker = std::make_unique<TorchWorker>(described); }).join();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  int answers = 0;
  worker->ask({{"do", "rows"}}, 1, [&](std::size_t, const nlohmann::json&) { ++answers; });
  EXPECT_EQ(answers, 1);
}

TEST_F(Worker, ThatEndsIsNamedWithItsLastLines) {
  const std::string error = error_of(std::string(kStart) + R"py(
print("the disk is full", file=sys.stderr, flush=True)
next(requests())
os._exit(3)
)py");
  EXPECT_NE(error.find("torch: the Python process ended without an answer"), std::string::npos)
      << error;
  EXPECT_NE(error.find("the disk is full"), std::string::npos) << error;
}

TEST_F(Worker, ThatIsKilledIsNamed) {
  const std::string error = error_of(std::string(kStart) + R"py(
next(requests())
os.kill(os.getpid(), signal.SIGKILL)
)py");
  EXPECT_NE(error.find("ended without an answer"), std::string::npos) << error;
}

TEST_F(Worker, ThatHangsIsEndedAfterTheTimeLimit) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string error = error_of(std::string(kStart) + "while True: pass\n");
  EXPECT_NE(error.find("gave no answer within the time limit"), std::string::npos) << error;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(Worker, ThatWritesGarbageIsNamedWithIt) {
  const std::string error = error_of(std::string(kStart) + R"py(
next(requests())
print("hello, world", flush=True)
)py");
  EXPECT_NE(error.find("wrote what is not an answer: hello, world"), std::string::npos) << error;
}

TEST_F(Worker, ThatAnswersAnotherRequestIsNamed) {
  const std::string error = error_of(std::string(kStart) + R"py(
next(requests())
say(id=999, ok={})
)py");
  EXPECT_NE(error.find("wrote what is not an answer"), std::string::npos) << error;
}

TEST_F(Worker, WhoseStartFailsShowsTheErrorAndItsPlace) {
  const auto failing = [](const char* of_user) {
    return std::string(R"py(
first = next(requests())
say(id=first["id"], error={"type": "SyntaxError", "message": "invalid\nsyntax", "file": "patch.py",
                           "line": 7, "traceback": ["  return \x1b[31mreturn\nFORGED"],
                           "of_user": )py") +
           of_user + "})\n";
  };
  const std::string message =
      "torch: SyntaxError: invalid\\x0asyntax (patch.py, line 7)\n"
      "    return \\x1b[31mreturn\\x0aFORGED";
  EXPECT_THROW_MSG(TorchWorker(launch(failing("False"))), EnvironmentError, message);
  EXPECT_THROW_MSG(TorchWorker(launch(failing("True"))), ConfigError, message);
}

TEST_F(Worker, ThatCannotBeStartedIsNamed) {
  TorchLaunch start = launch("");
  start.python = "/no/such/python";
  try {
    TorchWorker worker(start);
    FAIL();
  } catch (const EnvironmentError& error) {
    EXPECT_NE(std::string(error.what()).find("the interpreter /no/such/python can't be started"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace worker_test
}  // namespace shardlab
