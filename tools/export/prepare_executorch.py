#!/usr/bin/env python3
"""Complete an executorch wheel so that its MLX lowering can run: once per virtual environment.

The Linux wheel ships the generator of the delegate's serialization code and `flatc`, but not the generated files, nor
the two C++ templates that the generator reads.  This script puts two empty templates in place (the C++ that comes of
them is not used) and runs the wheel's own generator with the wheel's own `flatc`.
"""

import argparse
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    spec = find_spec("executorch")
    if spec is None:
        sys.exit("executorch is not installed in this Python: pip install -r requirements.txt")
    package = Path(next(iter(spec.submodule_search_locations)))
    serialization = package / "backends" / "mlx" / "serialization"
    generator, flatc = serialization / "generate.py", package / "data" / "bin" / "flatc"
    for path in (generator, flatc):
        if not path.exists():
            sys.exit(f"executorch {version('executorch')} has no {path.relative_to(package)}; 1.5.1 has")
    (package / "backends" / "mlx" / "runtime").mkdir(exist_ok=True)
    for name in ("MLXLoader.h.tmpl", "MLXLoader.cpp.tmpl"):
        template = serialization / name
        if not template.exists():
            template.write_text("", encoding="utf-8")
    done = subprocess.run([sys.executable, generator, "--flatc", flatc], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the generator failed:\n{done.stdout}{done.stderr}")
    import executorch.backends.mlx  # noqa: F401

    print(f"executorch {version('executorch')}: serialization code of the MLX delegate generated")


if __name__ == "__main__":
    main()
