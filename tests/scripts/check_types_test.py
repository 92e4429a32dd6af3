"""Runs scripts/check_types.py on small trees: which types of equal names it reports, and which it does not."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import check_types  # noqa: E402


def violations(files: dict[str, str]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        return check_types.check_tree(root)[1]


def within(namespace: str, text: str) -> str:
    return f"namespace {namespace} {{\n{text}\n}}\n"


class CheckTypes(unittest.TestCase):
    def test_one_name_in_two_files(self):
        for name, first, second in [
            ("Answer", "struct Answer {};", "struct Answer { int x; };"),
            ("Answer", "struct Answer {};", "template <class T>\nclass Answer final : public T {};"),
            ("Kind", "enum class Kind : int { kA };", "struct Kind {};"),
            ("Answer", "class [[nodiscard]] Answer {};", "struct Answer {};"),
            ("Outer::Part", "struct Outer::Part {};", "struct Outer::Part {};"),
        ]:
            with self.subTest(first=first, second=second):
                self.assertEqual(
                    violations({"runner/a.h": within("lab", first), "sim/b.cpp": within("lab", second)}),
                    [f"runner/a.h:2: lab::{name} is defined in sim/b.cpp too"],
                )

    def test_names_that_are_each_of_their_own(self):
        inner = within("lab", "namespace {\nstruct Answer {};\n}")
        for first, second in [
            (within("lab", "struct Answer {};"), inner),
            (inner, inner),
            (within("lab", "struct Answer {};"), within("lab::reports", "struct Answer {};")),
            (within("lab", "struct Answer {};"), within("lab", "struct Answer;\nclass Outer { struct Answer {}; };")),
            (within("lab", "struct Answer {};"), within("lab", "void f() { struct Answer {}; }")),
            (within("lab", "struct Answer {};"), within("lab", "// struct Answer {};\nconst char* s = \"struct Answer {\";")),
        ]:
            with self.subTest(first=first, second=second):
                self.assertEqual(violations({"sim/a.h": first, "sim/b.cpp": second}), [])

    def test_programs_of_tests_are_apart(self):
        type_text = within("lab", "struct Sample {};")
        apart = {"tests/cli/a_test.cpp": type_text, "tests/contract/b_test.cpp": type_text}
        self.assertEqual(violations(apart), [])
        self.assertEqual(
            violations({"tests/cli/a_test.cpp": type_text, "tests/cli/b_test.cpp": type_text}),
            ["tests/cli/b_test.cpp:2: lab::Sample is defined in tests/cli/a_test.cpp too"],
        )
        self.assertEqual(
            violations({"tests/support/a.h": type_text, "tests/cli/b_test.cpp": type_text}),
            ["tests/support/a.h:2: lab::Sample is defined in tests/cli/b_test.cpp too"],
        )

    def test_this_tree_has_none(self):
        count, found = check_types.check_tree(ROOT)
        self.assertEqual(found, [])
        self.assertGreater(count, 400)


if __name__ == "__main__":
    unittest.main()
