"""What every check needs: a tally, ztplan itself, and files it emits."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ZTPLAN = ROOT / "build/bin/ztplan"

# A plan that is not asked to differ: Llama 3 8B on one node.
USUAL = {"--model": "llama3-8b", "--gpus": "8", "--seq": "2048",
         "--global-batch": "64"}

passed = failed = 0


def check(name, test, *arguments):
    """Runs `test`; what it raises is the failure, what it returns is told."""
    global passed, failed
    try:
        told = test(*arguments)
        passed += 1
        print(f"ok    {name}{': ' + told if told else ''}", flush=True)
    except (Exception, SystemExit) as problem:  # argument parsers exit
        failed += 1
        lines = (str(problem) or repr(problem)).strip().splitlines()
        print(f"FAIL  {name}: {lines[0][:300]}", flush=True)


def close():
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


def expect(what, found, wanted):
    if found != wanted:
        raise AssertionError(f"{what} is {found!r}, not {wanted!r}")


def ztplan(*words):
    result = subprocess.run([ZTPLAN, *words], capture_output=True, text=True)
    if result.returncode not in (0, 3):  # 3: does not fit, and says so
        raise RuntimeError(" ".join((result.stderr + result.stdout).split()))
    return result.stdout


def folder():
    """A new one, inside that of this run."""
    return Path(tempfile.mkdtemp(dir=os.environ["ENGINES_SCRATCH"]))


def emit(target, engine, strategy, flags=None):
    """The folder of an emitted plan; `flags` replace those of USUAL."""
    made = folder()
    words = [word for pair in {**USUAL, **(flags or {})}.items()
             for word in pair]
    ztplan("emit", *words, "--engine", engine, "--strategy", strategy,
           "--target", target, "-o", str(made), "--force", "-q")
    return made


def is_read_back(target, engine, name, strategy):
    """`ztplan check` reads the emitted file of that name."""
    ztplan("check", str(emit(target, engine, strategy) / name), "--model",
           USUAL["--model"], "--gpus", USUAL["--gpus"], "--seq",
           USUAL["--seq"])


def parameters(model):
    """Of a model of ztplan's, by name or config.json."""
    shown = json.loads(ztplan("models", "show", str(model), "--json"))
    return shown["models"][0]["parameters"]


def name_of(strategy, flags=None):
    return " ".join([strategy, *(f"{flag[2:]}={value}"
                                 for flag, value in (flags or {}).items())])


def run_on_two(script, *arguments):
    """`script` of this folder on two CPU processes that talk through gloo."""
    result = subprocess.run(
        ["torchrun", "--standalone", "--nproc-per-node", "2",
         str(ROOT / "tests/engines" / script), *map(str, arguments)],
        capture_output=True, text=True, timeout=600)
    told = [line for line in result.stdout.splitlines()
            if line.startswith("told: ")]
    if result.returncode != 0 or not told:
        errors = [line for line in result.stderr.splitlines()
                  if "Error" in line]
        raise RuntimeError(errors[0] if errors else
                           f"exit code {result.returncode}, rank 0 told "
                           f"{len(told)} lines")
    return told[0].removeprefix("told: ")
