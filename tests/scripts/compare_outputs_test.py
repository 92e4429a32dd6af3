"""scripts/compare_outputs.py with programs that are scripts: what it finds, what it overlooks on purpose."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "compare_outputs.py"
LINES = """# A comment.
@file question.json '{"tensor": "f32[8]"}'
@patch changed.json {root}/base.json '{"name": "changed", "title": null}'
show question.json
show changed.json
where question.json
write out.txt && show out.txt
fail
print > kept.txt && show kept.txt
"""
# Stands in for the program: COMMIT and WORD differ between two builds.
PROGRAM = """#!{python}
import json, os, pathlib, sys
command, *names = sys.argv[1:]
if command == "show":
    print(pathlib.Path(names[0]).read_text())
elif command == "where":
    print(os.path.abspath(names[0]), "{configs}/stacks", os.environ["NO_COLOR"])
elif command == "write":
    pathlib.Path(names[0]).write_text(json.dumps({{"commit": "{commit}", "said": "{word}"}}))
elif command == "print":
    print("| commit | {commit} |\\nfrom shardlab at commit `{commit}`, seed 0")
else:
    sys.exit("{word}: not done")
"""


class Outputs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        (self.folder / "base.json").write_text('{"name": "base", "title": "a title"}')
        self.list = self.folder / "list.txt"
        self.list.write_text(LINES.replace("{root}", str(self.folder)))

    def program(self, name, commit="0123abcd", word="this"):
        """A program in a checkout of its own."""
        root = self.folder / name
        (root / "configs" / "stacks").mkdir(parents=True)
        path = root / "program"
        path.write_text(PROGRAM.format(
            python=sys.executable, configs=root / "configs", commit=commit, word=word))
        path.chmod(0o755)
        return path

    def run_script(self, *words):
        """Exit code, stdout and stderr of the script."""
        done = subprocess.run([sys.executable, "-B", SCRIPT, *map(str, words), "--list", self.list],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def record(self, program):
        out = self.folder / f"recording-of-{program.parent.name}"
        code, printed, errors = self.run_script("record", program, "--out", out)
        self.assertEqual((code, errors), (0, ""))
        self.assertIn("6 command lines recorded", printed)
        return out

    def recorded(self, folder, line):
        outputs = map(json.loads, (folder / "outputs.jsonl").read_text().splitlines())
        return next(output for output in outputs if output["line"] == line)

    def test_a_program_is_equal_to_itself(self):
        program = self.program("a")
        recording = self.record(program)
        for jobs in ("1", "3"):
            self.assertEqual(self.run_script("compare", recording, program, "--jobs", jobs),
                             (0, "6 command lines, 0 differ\n", ""))

    def test_another_commit_in_another_folder_is_no_difference(self):
        recording = self.record(self.program("a"))
        other = self.program("another-checkout", commit="fedcba98765")
        self.assertEqual(self.run_script("compare", recording, other), (0, "6 command lines, 0 differ\n", ""))
        self.assertEqual(self.run_script("compare", recording, self.record(other))[0], 0)
        where = self.recorded(recording, "where question.json")["steps"][0]["stdout"]
        self.assertEqual(where, "{scratch}/question.json {configs}/stacks 1\n")
        kept = self.recorded(recording, "print > kept.txt && show kept.txt")
        self.assertEqual(kept["steps"][0]["stdout"],
                         "| commit | {commit} |\nfrom shardlab at commit `{commit}`, seed 0\n")

    def test_differences_are_shown_and_counted(self):
        recording = self.record(self.program("a"))
        code, printed, _ = self.run_script("compare", recording, self.program("b", word="that"))
        self.assertEqual(code, 1)
        self.assertIn("== shardlab fail\nstderr:\n@@ line 1 @@\n-this: not done\n+that: not done\n", printed)
        self.assertIn("file out.txt:", printed)
        self.assertIn("stdout of step 2:", printed)
        self.assertTrue(printed.endswith("6 command lines, 2 differ\n"), printed)
        self.assertEqual(self.run_script("compare", recording, self.folder / "b" / "program", "--only", "^show"),
                         (0, "2 command lines, 0 differ\n", ""))

    def test_fixtures_are_written_where_a_line_names_them(self):
        recording = self.record(self.program("a"))
        self.assertEqual(self.recorded(recording, "show question.json"), {
            "line": "show question.json",
            "steps": [{"exit code": 0, "stdout": '{"tensor": "f32[8]"}\n', "stderr": ""}], "files": {}})
        self.assertEqual(self.recorded(recording, "show changed.json")["steps"][0]["stdout"], '{"name": "changed"}\n')
        self.assertEqual(self.recorded(recording, "fail")["steps"][0]["exit code"], 1)

    def test_lines_that_only_one_side_has_are_mentioned(self):
        program = self.program("a")
        recording = self.record(program)
        self.list.write_text("fail\nfail again\n")
        code, printed, _ = self.run_script("compare", recording, program)
        self.assertEqual(code, 0)
        self.assertEqual(printed.splitlines(), [
            "note: 5 command lines stand in the first recording alone and are not compared",
            "note: 1 command lines are not in the first recording and are not compared",
            "1 command lines, 0 differ"])

    def test_what_is_missing_is_named(self):
        program = self.program("a")
        for words, message in [
                (("compare", self.folder / "none", program), "holds no recording"),
                (("record", self.folder / "none", "--out", self.folder / "out"), "found no program there"),
                (("record", program, "--out", self.folder / "out", "--only", "("), "--only: ")]:
            code, printed, errors = self.run_script(*words)
            self.assertEqual((code, printed), (2, ""))
            self.assertIn(message, errors)
        self.list.write_text("@file only-a-name\n")
        self.assertEqual(self.run_script("record", program, "--out", self.folder / "out")[0], 2)

    def test_the_list_is_large_and_well_formed(self):
        sys.path.insert(0, str(SCRIPT.parent))
        import compare_outputs
        fixtures, lines = compare_outputs.read_list(compare_outputs.LIST)
        self.assertGreaterEqual(len(lines), 320)
        for name in fixtures:
            self.assertTrue(any(name in text for text in [*lines, *(" ".join(f[2:]) for f in fixtures.values())]), name)


if __name__ == "__main__":
    unittest.main()
