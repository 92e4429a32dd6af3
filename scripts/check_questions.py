#!/usr/bin/env python3
"""Asks PyTorch whether it accepts every question of shardlab's suites, and every sample call of its proofs.

    build/oracle/bin/python scripts/check_questions.py                  # all shipped suites
    build/oracle/bin/python scripts/check_questions.py ops-small
    build/oracle/bin/python scripts/check_questions.py --samples        # the sample calls of all operators
    build/oracle/bin/python scripts/check_questions.py --record         # writes "checked" into the suites

An operator runs on meta tensors of the question's shapes and dtypes, with its arguments; a redistribution is planned
by DTensor, in a fake process group. Whatever raises is refused. Each refused question is printed with PyTorch's message,
and the exit code is then 1.

--record writes into each suite that was asked which PyTorch accepted it: {"torch", "questions", "digest"}, where
`digest_of` makes the digest. A test holds that digest against the questions that the suite has today.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("SHARDLAB_BINARY", ROOT / "build" / "release" / "bin" / "shardlab")


def shardlab(*words):
    """What a command of shardlab answers, as JSON."""
    done = subprocess.run([BINARY, *words, "--format", "json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"check_questions: {done.stderr.strip()}")
    return json.loads(done.stdout)


def questions_of(suite):
    return shardlab("describe", "suite", suite, "--questions")["questions"]


def samples_of(operator):
    """The sample calls of an operator, as questions on one mesh dim."""
    return [{"id": f"sample {i + 1} of {operator}", "kind": "select", "op": operator, "mesh": "1", **sample}
            for i, sample in enumerate(shardlab("describe", "op", operator)["samples"])]


def asked(question):
    """What PyTorch is asked: a question without its name and without how often it occurs."""
    return json.dumps({key: value for key, value in question.items() if key not in ("id", "count", "where")},
                      sort_keys=True)


def digest_of(questions):
    text = "\n".join(asked(question) for question in questions)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class PyTorch:
    """Asks the PyTorch of this interpreter."""

    def __init__(self):
        sys.path.insert(0, str(ROOT / "python" / "torch_worker"))
        warnings.simplefilter("ignore")
        from shardlab_worker import plans, session, texts

        own = session.Session()
        own.start({})
        self.torch, self.operators, self.texts = own.torch, own.operators, texts
        self.plans, self.answers = plans.Plans(own), {}

    def refusal(self, question):
        """Nothing if PyTorch accepts the question, or else the first line of its message."""
        key = asked(question)
        if key not in self.answers:
            try:
                (self.redistribute if question["kind"] == "plan" else self.call)(question)
                self.answers[key] = None
            except Exception as error:  # Whatever PyTorch raises is its answer.
                lines = str(error).splitlines() or [""]
                self.answers[key] = f"{type(error).__name__}: {lines[0]}"
        return self.answers[key]

    def tensor(self, text):
        """An input on the meta device: one tensor, a list of them, or None."""
        if text.strip() == "none":
            return None
        parts = self.texts.parts_of_list(text)
        if parts is not None:
            return [self.tensor(part) for part in parts]
        shape, dtype = self.texts.tensor_of(self.torch, text.partition("]")[0] + "]")
        return self.torch.empty(shape, dtype=dtype, device="meta")

    def call(self, question):
        overload = self.operators.named(question["op"])
        inputs = [self.tensor(text) for text in question["inputs"]]
        parameters = self.operators.parameters_of(overload)
        for i, parameter in enumerate([each for each in parameters if each.is_tensor][:len(inputs)]):
            if parameter.is_list and inputs[i] is None and not parameter.may_be_none:
                inputs[i] = []
            elif parameter.is_list and inputs[i] is not None and not isinstance(inputs[i], list):
                inputs[i] = [inputs[i]]  # An op on lists is asked about one element of each.
        positional, keywords = self.operators.bind(overload, inputs, question.get("args", []))
        with self.torch.no_grad():
            overload(*positional, **keywords)

    def redistribute(self, question):
        answer = self.plans.answer(question, {})
        if "error" in answer:
            raise ValueError(answer["error"])


def record(suite, checked):
    """Writes "checked" behind the suite's source, and leaves every other line as it is."""
    path = ROOT / "configs" / "suites" / f"{suite}.json"
    text = re.sub(r',\s*"checked": \{[^}]*\}', "", path.read_text())
    place = re.search(r'"source": "(?:[^"\\]|\\.)*"', text)
    separator = ",\n  " if text.startswith("{\n") else ", "
    path.write_text(text[:place.end()] + f'{separator}"checked": {json.dumps(checked)}' + text[place.end():])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", help="names or paths; without any, all shipped suites")
    parser.add_argument("--samples", action="store_true", help="ask the sample calls of all operators instead")
    parser.add_argument("--record", action="store_true", help='write "checked" into the suites that were accepted whole')
    arguments = parser.parse_args()
    pytorch = PyTorch()
    release = pytorch.torch.__version__.partition("+")[0]
    if arguments.samples:
        lists = {"samples": [one for operator in shardlab("list", "ops")["ops"] for one in samples_of(operator)]}
    else:
        lists = {suite: questions_of(suite) for suite in arguments.suites or shardlab("list", "suites")["suites"]}
    refused = 0
    for name, questions in lists.items():
        # Questions about one mesh follow each other, since to enter another one takes time.
        answers = {question["id"]: pytorch.refusal(question) for question in sorted(questions, key=lambda q: q["mesh"])}
        bad = [(question, answers[question["id"]]) for question in questions if answers[question["id"]]]
        print(f"{name}: PyTorch {release} accepts {len(questions) - len(bad)} of {len(questions)}")
        for question, message in bad:
            print(f"  {question['id']} {question.get('inputs', question.get('tensor'))} {question.get('args', '')}: {message}")
        refused += len(bad)
        if arguments.record and not arguments.samples and not bad:
            record(name, {"torch": release, "questions": len(questions), "digest": digest_of(questions)})
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
