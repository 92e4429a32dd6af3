"""The Python that has PyTorch, for tests of scripts that need it: SHARDLAB_ORACLE_PYTHON, or that of build/oracle."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ORACLE = os.environ.get("SHARDLAB_ORACLE_PYTHON") or str(ROOT / "build" / "oracle" / "bin" / "python")


def has_torch():
    check = [ORACLE, "-c", "import torch"]
    return os.access(ORACLE, os.X_OK) and subprocess.run(check, capture_output=True, check=False).returncode == 0
