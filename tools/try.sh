#!/usr/bin/env bash
# Sets the machine up, builds lowtide, and writes a few verses with the model that ships with the repository.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
export PATH="$HOME/.cargo/bin:$PATH"
# Some Vulkan drivers complain when this is not set, although nothing is drawn.
export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-$(mktemp -d)}"

cargo build --workspace
lowtide="${CARGO_TARGET_DIR:-target}/debug/lowtide"
"$lowtide" devices >&2
"$lowtide" generate tests/models/kjv-3m/model.pte --prompt "${*:-In the beginning}" --echo \
    --max-new-tokens 100 --temperature 0.8 --seed 5
