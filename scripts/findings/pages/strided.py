"""Where whole programs are cheaper with strided shards."""

from dataclasses import dataclass
from typing import Any

from findings import text
from findings.page import Finding
from findings.program import Shardlab

TITLE = "Where do strided shards win?"
QUESTION = "If views may turn shards into strided shards and products may keep them, on which programs and meshes is the best plan cheaper?"
THREAD = "https://github.com/meta-pytorch/autoparallel/pull/429"
SLOW = True


@dataclass(frozen=True)
class Program:
    name: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Setup:
    mesh: str
    topology: str
    stack: str


CASES = ("R91", "R92", "R93", "R94")
SMALL = "R96"  # a program of six nodes in which strided shards win
MATRICES = "activations as matrices"
PROGRAMS = tuple(
    [Program(f"LLaMA3-8B, {form}, batch {batch}", ("llama3-8b", "--seqlen", "8192", "--batch", str(batch), "--matmul", matmul))
     for form, matmul in ((MATRICES, "native"), ("activations as [batch, rows, width]", "einsum")) for batch in (2, 4, 8)]
    + [Program("GPT-2 XL, batch 8", ("gpt2-xl", "--batch", "8")),
       Program("mixture of experts 1.3B, batch 8", ("moe-1.3b-64e", "--batch", "8"))])
SETUPS = (Setup("8x8", "h100", "ap-nccl"), Setup("8x8", "h100", "calibrated-h100"), Setup("2x4", "h100", "calibrated-h100"),
          Setup("8x8", "gb200", "calibrated-gb200"))


@dataclass(frozen=True)
class Solved:
    """The best plan: its objective and what its steps cost as they run, in microseconds; None where nothing was proved."""

    objective_us: float
    executed_us: float | None
    strided: int  # nodes whose output is a strided shard


@dataclass(frozen=True)
class Pair:
    program: Program
    setup: Setup
    plain: Solved | None
    strided: Solved | None

    @property
    def saved(self) -> float | None:
        """The share of the objective that strided shards save."""
        return 1 - self.strided.objective_us / self.plain.objective_us if self.plain and self.strided else None


def find(program: Shardlab) -> Finding:
    pairs = []
    for each in PROGRAMS:
        file = program.file("program.json", program.run("program", *each.words, "--layers", 1))
        for setup in SETUPS:
            words = ["solve", file, "--mesh", setup.mesh, "--topology", setup.topology, "--stack", setup.stack, "--no-fit", "--jobs", 1]
            pairs.append(Pair(each, setup, solved(program.run(*words)), solved(program.run(*words, "--strided"))))
    return Finding(answer(pairs), body(pairs, program.run("regress", *CASES)["cases"], made_small(program)))


def made_small(program: Shardlab) -> str:
    """What the small case says: the best plan of its first program without strided shards and with them, then those of its block."""
    case = program.run("regress", SMALL)["cases"][0]
    plain, strided, block, strided_block = (check["got"] for check in case["checks"] if check["what"].endswith(": objective_us"))
    return (f"[{SMALL}](../../configs/regressions/{SMALL}.json) is the clearest win made small: four sequences on eight ranks, as rows of one product. The rows are gathered without strided "
            f"shards ({text.figure(plain)} us) and stay where they are with them ({text.figure(strided)} us). A small block of LLaMA takes {text.figure(block, 4)} us and {text.figure(strided_block, 4)} us there.")


def solved(found: Any) -> Solved | None:
    if found["objective_us"] is None or not found["optimal"]:
        return None
    strided = sum("_S(" in str(node["layout_out"]) for node in found["assignment"])
    return Solved(found["objective_us"], found["executed_us"], strided)


def wins(pairs: list[Pair], measured: bool) -> list[Pair]:
    """Pairs of one kind of stack in which strided shards save more than rounding."""
    return [pair for pair in pairs if (pair.setup.stack != "ap-nccl") == measured and pair.saved is not None and pair.saved > 1e-4]


def shorter(pairs: list[Pair]) -> str:
    """How many of AutoParallel's winning plans have cheaper steps, which its own prices do not count."""
    both = [(pair.plain.executed_us, pair.strided.executed_us) for pair in wins(pairs, False) if pair.plain and pair.strided]
    known = [(before, after) for before, after in both if before is not None and after is not None]
    return (f"{sum(after < before for before, after in known)} of these plans have cheaper steps too and {sum(after > before for before, after in known)} dearer ones; "
            f"{len(both) - len(known)} cannot run")


def answer(pairs: list[Pair]) -> str:
    autoparallel, measured = wins(pairs, False), wins(pairs, True)
    asked = {kind: sum((pair.setup.stack != "ap-nccl") == kind and pair.saved is not None for pair in pairs) for kind in (False, True)}
    best = max(autoparallel, key=lambda pair: pair.saved or 0)
    words = (f"Most where ranks outnumber the sequences of a batch and a program flattens batch and sequence into the rows of a matrix: by AutoParallel's prices "
             f"up to {100 * (best.saved or 0):.0f} % of a block of {best.program.name} on {best.setup.mesh}, and something in {len(autoparallel)} of {asked[False]} programs. "
             f"As they run, {shorter(pairs)}. ")
    if not measured:
        return words + f"Beside shard orders, which the calibrated stacks list, too, they save nothing in any of {asked[True]}."
    most = max(measured, key=lambda pair: pair.saved or 0)
    return words + (f"Beside shard orders, which the calibrated stacks list, too, they save something in {len(measured)} of {asked[True]}, at most "
                    f"{100 * (most.saved or 0):.1f} % ({most.program.name} on {most.setup.mesh}).")


def body(pairs: list[Pair], cases: list[Any], small: str) -> str:
    sections = []
    case_rows = [[f"[{case['id']}](../../configs/regressions/{case['id']}.json)", case["title"], case["status"]] for case in cases]
    same = [setup for setup in SETUPS if all(abs(pair.saved or 0) <= 1e-4 for pair in pairs if pair.setup == setup)]
    for setup in SETUPS:
        if setup in same:
            continue
        rows = []
        for pair in pairs:
            if pair.setup == setup:
                rows.append([pair.program.name, *cells(pair.plain), *cells(pair.strided),
                             f"{100 * pair.saved:+.1f} %" if pair.saved is not None else "-", pair.strided.strided if pair.strided else "-"])
        heads = ["program, one block", "best plan, us:", "as it runs, us:", "strided, us:", "as it runs, us:", "saved:", "strided outputs:"]
        sections.append(f"## `{setup.stack}` on {setup.mesh}, {setup.topology}\n\n{text.table(heads, rows)}")
    tables = "\n\n".join(sections)
    nothing = "".join(f"Under `{setup.stack}` on {setup.mesh} ({setup.topology}) the optima of all {len(PROGRAMS)} programs are equal. " for setup in same)
    return f"""
{tables}

{nothing}Each row is two proved optima of one training step. `--strided` lists strided shards beside the shard orders (`S(0)[1]S(0)[0]`) that `solve` lists under a
stack which plans moves as a whole, so that the best plan is never dearer. Strided shards that say the same as a shard order are printed, and counted, as that order. As it runs: the same
plan with the steps that its moves take; AutoParallel prices each mesh dim of a move on its own, so that there the two differ.

{small}

## What goes wrong where code asks is_shard()

PyTorch's `is_shard()` is false for strided shards, so that code which asks it takes them for no shards. The pull request names these places; each case
computes what the fault does and what must hold instead.

{text.table(["case", "what", "checks"], case_rows)}

## What to do

- List strided shards for views that flatten a sharded sequence into rows, and let products keep them; it matters where the batch is too short for the ranks.
- Where the form with three dims is kept, there is less to flatten, and strided shards save less.
- List shard orders, too: they say the same as some strided shards, and where a stack prices whole moves they leave strided shards little to save.
- Ask for either kind of shard wherever local shapes, FLOPs or the validity of a rule depend on it.

## By hand

{text.commands("shardlab program llama3-8b --layers 1 --seqlen 8192 --batch 2 --matmul native --out llama.json",
               "shardlab solve llama.json --mesh 8x8 --topology h100 --stack ap-nccl --no-fit",
               "shardlab solve llama.json --mesh 8x8 --topology h100 --stack ap-nccl --no-fit --strided", f"shardlab regress {SMALL}", "scripts/generate_findings.sh strided")}

## What this rests on

Built-in programs of one block with embedding and output, forward and backward. `ap-nccl` prices and lists strategies as AutoParallel does, with PR 429 for `--strided`; the calibrated
stacks price by fits to public logs ([scoreboard](../scoreboard.md)), kernels by the datasheet. Memory is not bounded. Nothing was run on GPUs.
"""


def cells(found: Solved | None) -> list[str]:
    if found is None:
        return ["no proved plan", "-"]
    return [text.figure(found.objective_us, 4), "-" if found.executed_us is None else text.figure(found.executed_us, 4)]
