"""Runs scripts/check_layers.py on small trees: what it accepts, what it rejects, and in which words."""

import contextlib
import pathlib
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_layers.py"
sys.path.insert(0, str(SCRIPT.parent))
import check_layers  # noqa: E402


@contextlib.contextmanager
def tree(files: dict[str, str]) -> Iterator[pathlib.Path]:
    """A folder that holds these files."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        yield root


def violations(files: dict[str, str]) -> list[str]:
    """What the checker says of a tree of these files, all of which it must have read."""
    with tree(files) as root:
        count, found = check_layers.check_tree(root)
        assert count == len(files), f"{count} of {len(files)} files read"
        return found


def run(files: dict[str, str]) -> tuple[int, str]:
    """The exit code and stdout of the command for a tree of these files."""
    with tree(files) as root:
        command = [sys.executable, "-B", SCRIPT, "--root", root]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


class Accepts(unittest.TestCase):
    def assert_accepted(self, path: str, text: str) -> None:
        with self.subTest(path=path, text=text):
            self.assertEqual(violations({path: text}), [])

    def test_each_level_sees_what_the_table_allows(self):
        for path, include in [
            ("costmodel/topology.cpp", '"costmodel/topology.h"'),
            ("costmodel/calibrate/calibration.cpp", "<Eigen/QR>"),
            ("costmodel/params.cpp", "<nlohmann/json.hpp>"),
            ("costmodel/models/dtensor.cpp", '"costmodel/registry.h"'),
            ("sim/mesh.cpp", '"costmodel/base/units.h"'),
            ("sim/planners/graph.cpp", "<boost/graph/adjacency_list.hpp>"),
            ("strategies/select/stack.cpp", '"sim/mesh.h"'),
            ("strategies/programs/program.cpp", "<nlohmann/json.hpp>"),
            ("strategies/programs/program.cpp", "<fstream>"),
            ("reports/records/record.cpp", '"costmodel/base/units.h"'),
            ("reports/records/record.cpp", '"costmodel/base/error.h"'),
            ("reports/sections/flips.cpp", '"reports/section.h"'),
            ("runner/main.cpp", '"reports/records/record.h"'),
            ("runner/main.cpp", "<CLI/CLI.hpp>"),
            ("runner/main.cpp", "<iostream>"),
            ("runner/base/terminal.cpp", "<unistd.h>"),
            ("runner/base/terminal.cpp", "<sys/ioctl.h>"),
            ("runner/base/version.cpp", '"shardlab_version.h"'),
            ("runner/nccl/backend_nccl.cpp", "<nccl.h>"),
            ("runner/nccl/backend_nccl.cpp", "<cuda_runtime.h>"),
            ("tests/unit/sim/mesh_test.cpp", '"tests/support/reference_mesh.h"'),
            ("tests/unit/sim/mesh_test.cpp", "<gtest/gtest.h>"),
        ]:
            self.assert_accepted(path, f"#include {include}\n")

    def test_comments_and_texts_are_not_code(self):
        for text in [
            '// #include "runner/log.h"\n',
            '/* printf("x");\n exit(1); */\n',
            'const char* kHelp = "call exit(1) or std::cout";\n',
            'const char* kHelp = R"x(\nstd::abort();\n#include "runner/log.h"\n)x";\n',
            "const int kBig = 1'000'000;  // it's getenv(\"X\")\n",
            "const char kQuote = '\"';\nint a;  // exit(1) \"\n",
        ]:
            self.assert_accepted("sim/mesh.cpp", text)

    def test_names_that_only_look_forbidden(self):
        for text in [
            "void f(Queue& q) { q.exit(); q->abort(); on_exit(1); }\n",
            'int n = std::snprintf(buffer, size, "%g", x);\n',
            "int exit_code = 1; auto printf_like = false;\n",
            "double system(3);\n",
        ]:
            self.assert_accepted("sim/mesh.cpp", text)

    def test_a_runner_may_print_and_exit(self):
        self.assert_accepted("runner/main.cpp", 'int main() { std::printf("x"); std::exit(2); }\n')


class Rejects(unittest.TestCase):
    def assert_rejected(self, path: str, text: str, violation: str) -> None:
        with self.subTest(path=path, text=text):
            self.assertEqual(violations({path: text}), [f"{path}:{violation}"])

    def test_an_include_of_a_room_above_or_beside(self):
        for room, header in [
            ("costmodel", "sim/mesh.h"),
            ("costmodel", "costmodel/models/dtensor.h"),
            ("costmodel/base", "costmodel/topology.h"),
            ("costmodel/measurements", "costmodel/calibrate/calibration.h"),
            ("sim", "strategies/select/stack.h"),
            ("sim", "costmodel/models/dtensor.h"),
            ("strategies/rules", "strategies/proof/op_kernel.h"),
            ("strategies/proof", "strategies/select/stack.h"),
            ("strategies/select", "strategies/programs/program.h"),
            ("strategies/select", "costmodel/models/dtensor.h"),
            ("strategies/solvers", "sim/mesh.h"),
            ("strategies/programs", "strategies/cases/case.h"),
            ("strategies/cases", "runner/log.h"),
            ("reports", "sim/mesh.h"),
            ("reports/records", "reports/report.h"),
            ("reports/sections", "reports/writers/html.h"),
            ("runner/base", "runner/session/cli.h"),
            ("runner/simulate", "runner/solve/solve_program.h"),
            ("runner/solve", "runner/commands/commands.h"),
            ("runner", "tests/support/reference_mesh.h"),
        ]:
            rooms = ", ".join(check_layers.ROOMS[room].may_include) or "no other room"
            self.assert_rejected(
                f"{room}/a.cpp",
                f'#include <vector>\n\n#include "{header}"\n',
                f'3: "{header}": {room} may include {rooms}',
            )

    def test_a_folder_inside_a_room_is_of_that_room(self):
        self.assert_rejected(
            "strategies/rules/families/matmul.cpp",
            '#include "strategies/select/stack.h"\n',
            '1: "strategies/select/stack.h": strategies/rules may include '
            "sim, costmodel, costmodel/base",
        )

    def test_a_file_outside_all_rooms(self):
        rooms = "rules, proof, select, solvers, programs, steps, training, cases".split(", ")
        self.assert_rejected(
            "strategies/a.cpp",
            "#include <vector>\n",
            "1: the file stands in no room of strategies; its rooms: "
            + ", ".join(f"strategies/{room}" for room in rooms),
        )

    def test_a_library_of_others_that_the_room_does_not_know(self):
        std = "may include the C++ standard library and"
        for room, header, allowed in [
            ("costmodel", "boost/graph/graph_traits.hpp", "Eigen, nlohmann"),
            ("sim", "nlohmann/json.hpp", "Eigen, boost"),
            ("reports", "Eigen/Dense", "nlohmann"),
            ("strategies/select", "CLI/CLI.hpp", "boost, nlohmann"),
            ("runner/commands", "CLI/CLI.hpp", "Eigen, boost, nlohmann"),
            ("sim", "unistd.h", "Eigen, boost"),
            ("runner/session", "gtest/gtest.h", "CLI, nlohmann"),
        ]:
            self.assert_rejected(
                f"{room}/a.cpp", f"#include <{header}>\n", f"1: <{header}>: {room} {std} {allowed}"
            )

    def test_gpu_headers_outside_their_folder(self):
        message = "only runner/nccl/ may include headers of CUDA and NCCL"
        for path in ["sim/a.cpp", "runner/commands/measure.cpp"]:
            self.assert_rejected(path, "#include <nccl.h>\n", f"1: <nccl.h>: {message}")
        self.assert_rejected(
            "runner/a.cpp", "#include <cuda_runtime.h>\n", f"1: <cuda_runtime.h>: {message}"
        )

    def test_the_version_outside_runner(self):
        self.assert_rejected(
            "reports/a.cpp",
            '#include "shardlab_version.h"\n',
            '1: "shardlab_version.h": only runner may include it',
        )

    def test_includes_that_are_not_named_from_the_root(self):
        message = 'quotes are for our files, named from the root: "sim/..."'
        for header in ["mesh.h", "../costmodel/base/units.h", "planners/graph.h"]:
            self.assert_rejected(
                "sim/a.cpp", f'#include "{header}"\n', f'1: "{header}": {message}'
            )
        self.assert_rejected(
            "sim/a.cpp",
            "#include <sim/mesh.h>\n",
            '1: <sim/mesh.h> is ours: write #include "sim/mesh.h"',
        )

    def test_what_a_library_never_does(self):
        prints = "a library returns data and never prints"
        ends = "a library throws; runner/main.cpp ends the process"
        for line, message in [
            ("#include <iostream>", f"<iostream>: {prints}"),
            ("void f() { std::cout << 1; }", f"cout: {prints}"),
            ("void f() { std::cerr << 1; }", f"cerr: {prints}"),
            ('void f() { printf("x"); }', f"printf: {prints}"),
            ('void f() { std::fprintf(stderr, "x"); }', f"fprintf: {prints}"),
            ('void f() { ::puts("x"); }', f"puts: {prints}"),
            ("void f() { exit(1); }", f"exit: {ends}"),
            ("void f() { std::exit (1); }", f"exit: {ends}"),
            ("void f() { std::abort(); }", f"abort: {ends}"),
            ('auto* v = std::getenv("X");', "getenv: runner/base/env.h reads the environment"),
            ('std::ofstream out("x");', "ofstream: a library never writes files"),
        ]:
            for folder in ["costmodel", "sim", "strategies/rules", "reports"]:
                self.assert_rejected(f"{folder}/a.cpp", f"\n{line}\n", f"2: {message}")

    def test_files_in_the_two_lowest_levels(self):
        reads = "the caller reads the file and passes its text"
        for folder in ["costmodel", "sim"]:
            for header in ["fstream", "filesystem"]:
                self.assert_rejected(
                    f"{folder}/a.cpp", f"#include <{header}>\n", f"1: <{header}>: {reads}"
                )

    def test_a_header_without_its_guard(self):
        self.assert_rejected("sim/a.h", "int f();\n", "1: the header has no #pragma once")


class Command(unittest.TestCase):
    def test_every_violation_is_printed_in_order_and_the_exit_code_is_1(self):
        code, text = run(
            {
                "sim/b.cpp": '#include "runner/log.h"\nvoid f() { exit(1); }\n',
                "sim/a.h": "#pragma once\n#include <iostream>\n",
                "costmodel/a.cpp": '#include "sim/a.h"\n',
            }
        )
        self.assertEqual(code, 1)
        self.assertEqual(
            [line.split(": ", 1)[0] for line in text.splitlines()],
            ["costmodel/a.cpp:1", "sim/a.h:2", "sim/b.cpp:1", "sim/b.cpp:2"],
        )

    def test_a_clean_tree_exits_0_in_silence(self):
        self.assertEqual(run({"sim/a.h": "#pragma once\n#include <vector>\n"}), (0, ""))

    def test_a_tree_without_code_is_a_wrong_root(self):
        self.assertEqual(run({"README.md": "nothing\n"}), (1, ""))


if __name__ == "__main__":
    unittest.main()
