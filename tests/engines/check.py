"""Checks of what ztplan reads and emits by the engines themselves.

usage: check.py [ENGINE..]: safetensors, transformers, deepspeed, megatron, fsdp,
colossalai; all

One line a check, then "N passed, N failed"; exit code 1 when any failed.
"""

import importlib
import os
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from checks import check, close, expect

ENGINES = ["safetensors", "transformers", "deepspeed", "megatron", "fsdp",
           "colossalai"]


def is_installed(package, version):
    expect(f"version of {package}", metadata.version(package), version)


def main():
    unknown = set(sys.argv[1:]) - set(ENGINES)
    if unknown:
        sys.exit(f"no engine {', '.join(sorted(unknown))}; "
                 f"there are {', '.join(ENGINES)}")
    for pins in sorted(Path(__file__).parent.glob("requirements*.txt")):
        for line in pins.read_text().splitlines():
            if not line.startswith("#"):
                check(f"package {line}", is_installed, *line.split("=="))
    with tempfile.TemporaryDirectory(prefix="ztplan-engines-") as scratch:
        os.environ["ENGINES_SCRATCH"] = scratch
        for engine in sys.argv[1:] or ENGINES:
            importlib.import_module(f"of_{engine}").check_all()
    close()


if __name__ == "__main__":
    main()
