"""Interprets the kernels of runner/nccl/device_code.h, and checks what they write and that they stay within
their arrays. The driver that compiles them exists only on machines with a GPU.

The interpreter knows the instructions that these kernels use and no others; an unknown one fails the test.
"""

import operator
import pathlib
import re
import struct
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "runner" / "nccl" / "device_code.h"
WARP = 32
MASKS = {"32": 0xFFFFFFFF, "64": 0xFFFFFFFFFFFFFFFF}


class Memory:
    """Global memory: arrays with a gap after each of them, so that a write past the end is noticed."""

    GAP = 4096

    def __init__(self):
        self.arrays = {}
        self.end = self.GAP

    def add(self, values):
        begin = self.end
        self.arrays[begin] = list(values)
        self.end = begin + 4 * len(self.arrays[begin]) + self.GAP
        return begin

    def place(self, address):
        """The array that holds the four bytes, and their index in it."""
        for begin, values in self.arrays.items():
            if begin <= address and address + 4 <= begin + 4 * len(values):
                assert address % 4 == 0, f"address {address} is not aligned"
                return values, (address - begin) // 4
        raise AssertionError(f"address {address} is in no array")


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def bits_of(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def float_of(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def kernels():
    """The kernels of the PTX in the header: name -> (parameters, instructions, labels)."""
    text = re.search(r'R"ptx\((.*?)\)ptx"', SOURCE.read_text(), re.DOTALL).group(1)
    found = {}
    for match in re.finditer(r"\.entry (\w+)\((.*?)\)\s*\{(.*?)\n\}", text, re.DOTALL):
        name, parameters, body = match.groups()
        labels, lines = {}, []
        for line in re.sub(r"\.reg [^;]*;", "", body).split("\n"):
            line = line.strip()
            if line.endswith(":"):
                labels[line[:-1]] = len(lines)
            elif line:
                lines.append(line.rstrip(";"))
        found[name] = (re.findall(r"\.param \.\w+ (\w+)", parameters), lines, labels)
    return found


class Thread:
    """One thread: its registers, and a generator that runs it, stopping at every shuffle."""

    ARITHMETIC = {
        "add": operator.add,
        "div": operator.floordiv,
        "rem": operator.mod,
        "shl": operator.lshift,
        "and": operator.and_,
        "mul.lo": operator.mul,
    }
    COMPARISONS = {"ge": operator.ge, "ne": operator.ne}

    def __init__(self, kernel, arguments, memory, special):
        names, self.lines, self.labels = kernel
        self.arguments = dict(zip(names, arguments, strict=True))
        self.memory = memory
        self.registers = dict(special)

    def value(self, word):
        if word.startswith("%"):
            return self.registers[word]
        if word.startswith("0f"):
            return float_of(int(word[2:], 16))
        return int(word)

    def run(self):
        at = 0
        while True:
            line = self.lines[at]
            at += 1
            guard = re.match(r"@(%\w+) ", line)
            if guard:
                if not self.registers[guard.group(1)]:
                    continue
                line = line[guard.end() :]
            op, _, rest = line.partition(" ")
            words = re.findall(r"[%\w.\-]+", rest)
            if op == "ret":
                return
            if op == "bra":
                at = self.labels[words[0]]
            elif op == "shfl.sync.down.b32":
                assert self.value(words[3]) == WARP - 1 and words[4] == "-1", line
                self.registers[words[0]] = yield self.value(words[1]), self.value(words[2])
            else:
                self.execute(op, words, line)

    def execute(self, op, words, line):
        put = self.registers
        width = op[-2:]
        if op.startswith("ld.param."):
            put[words[0]] = self.arguments[words[1]] & MASKS[width]
        elif op == "ld.global.v4.f32":
            for i in range(4):
                values, index = self.memory.place(put[words[4]] + 4 * i)
                put[words[i]] = values[index]
        elif op == "st.global.v4.f32":
            for i in range(4):
                values, index = self.memory.place(put[words[0]] + 4 * i)
                values[index] = put[words[1 + i]]
        elif op == "red.global.add.f32":
            values, index = self.memory.place(put[words[0]])
            values[index] = f32(values[index] + put[words[1]])
        elif op in ("cvta.to.global.u64", "cvt.u64.u32", "mov.u32", "mov.f32"):
            put[words[0]] = self.value(words[1])
        elif op == "mov.b32":
            to_bits = words[0].startswith("%r")
            put[words[0]] = bits_of(put[words[1]]) if to_bits else float_of(put[words[1]])
        elif op == "add.f32":
            put[words[0]] = f32(put[words[1]] + put[words[2]])
        elif op == "mul.wide.u32":
            put[words[0]] = self.value(words[1]) * self.value(words[2])
        elif op == "mad.lo.u32":
            put[words[0]] = (put[words[1]] * put[words[2]] + put[words[3]]) & MASKS["32"]
        elif op.startswith("setp."):
            compare = self.COMPARISONS[op.split(".")[1]]
            put[words[0]] = compare(self.value(words[1]), self.value(words[2]))
        elif op.rpartition(".")[0] in self.ARITHMETIC:
            compute = self.ARITHMETIC[op.rpartition(".")[0]]
            put[words[0]] = compute(self.value(words[1]), self.value(words[2])) & MASKS[width]
        else:
            raise AssertionError(f"unknown instruction: {line}")


def run_warp(threads):
    """All threads of a warp, which meet at every shuffle."""
    running = [thread.run() for thread in threads]
    asked = [next(thread, None) for thread in running]
    while any(asked):
        assert all(asked), "some threads of a warp shuffle and others have ended"
        received = [
            asked[lane + delta][0] if lane + delta < WARP else value
            for lane, (value, delta) in enumerate(asked)
        ]
        asked = []
        for thread, value in zip(running, received, strict=True):
            try:
                asked.append(thread.send(value))
            except StopIteration:
                asked.append(None)


def launch(name, arguments, memory, blocks, threads):
    kernel = kernels()[name]
    for block in range(blocks):
        for first in range(0, threads, WARP):
            run_warp([
                Thread(kernel, arguments, memory, {
                    "%ctaid.x": block, "%nctaid.x": blocks,
                    "%tid.x": first + lane, "%ntid.x": threads,
                })
                for lane in range(WARP)
            ])


class DeviceCodeTest(unittest.TestCase):
    GRIDS = ((1, 32), (2, 64), (3, 96))

    def test_the_header_has_the_kernels_it_names(self):
        named = set(re.findall(r"^//   (shardlab_\w+)\(", SOURCE.read_text(), re.MULTILINE))
        self.assertEqual(named, set(kernels()))
        self.assertEqual(len(named), 4)

    def test_launch_does_nothing(self):
        launch("shardlab_launch", [], Memory(), 1, 32)

    def test_add_adds_every_element(self):
        for blocks, threads in self.GRIDS:
            for units in (0, 1, 31, 257):
                memory = Memory()
                a = memory.add(range(4 * units))
                b = memory.add([0.5 * i for i in range(4 * units)])
                total = memory.add([-1.0] * (4 * units))
                launch("shardlab_add", [a, b, total, units], memory, blocks, threads)
                self.assertEqual(memory.arrays[total], [1.5 * i for i in range(4 * units)])

    def test_sum_sums_every_element_once(self):
        for blocks, threads in self.GRIDS:
            for units in (0, 1, 33, 300):
                memory = Memory()
                a = memory.add([i % 7 - 2.0 for i in range(4 * units)])
                total = memory.add([10.0])
                launch("shardlab_sum", [a, total, units], memory, blocks, threads)
                self.assertEqual(memory.arrays[total], [10.0 + sum(memory.arrays[a])])

    def test_reshuffle_puts_pieces_of_columns_one_after_the_other(self):
        for blocks, threads in self.GRIDS:
            for rows, pieces, piece in ((1, 1, 1), (5, 2, 3), (16, 8, 2)):
                columns = pieces * piece
                units = rows * columns
                memory = Memory()
                source = memory.add(range(4 * units))
                target = memory.add([-1.0] * (4 * units))
                launch(
                    "shardlab_reshuffle",
                    [source, target, columns, piece, rows * piece, units],
                    memory,
                    blocks,
                    threads,
                )
                expected = [
                    4 * (row * columns + column) + i
                    for first in range(0, columns, piece)
                    for row in range(rows)
                    for column in range(first, first + piece)
                    for i in range(4)
                ]
                self.assertEqual(memory.arrays[target], expected)


if __name__ == "__main__":
    unittest.main()
