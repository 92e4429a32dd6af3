"""Finds the module where the build puts it. CTest sets PYTHONPATH; without it, build/release/python is taken."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
try:
    import shardlab  # noqa: F401
except ImportError:
    sys.path.insert(0, str(ROOT / "build" / "release" / "python"))
