#!/usr/bin/env bash
# Installs what building and running lowtide needs and the machine lacks: a C linker, Rust, the Vulkan loader,
# and, where there is no Vulkan driver, Mesa's, which bring one that runs on the CPU.
# Debian and Ubuntu; elsewhere it says what is missing. Nothing that is there already is touched.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export PATH="$HOME/.cargo/bin:$PATH"

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

updated=
install() {
    command -v apt-get >/dev/null || fail "install by hand (there is no apt-get here): $*"
    say "installing $*"
    if [ -z "$updated" ]; then
        as_root apt-get update -qq
        updated=1
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

has_vulkan_loader() {
    # No pipe into `grep -q`: it ends early, and the writer's broken pipe would count as a failure.
    local libraries
    libraries=$(ldconfig -p 2>/dev/null || /sbin/ldconfig -p 2>/dev/null) || return 1
    [[ $libraries == *libvulkan.so.1* ]]
}

has_vulkan_driver() {
    local dir
    for dir in /usr/share/vulkan/icd.d /usr/local/share/vulkan/icd.d /etc/vulkan/icd.d; do
        compgen -G "$dir/*.json" >/dev/null && return 0
    done
    return 1
}

setup_vulkan() {
    # macOS runs on Metal, which is part of the system.
    [ "$(uname -s)" = Linux ] || return 0
    local missing=()
    has_vulkan_loader || missing+=(libvulkan1)
    has_vulkan_driver || missing+=(mesa-vulkan-drivers)
    if [ ${#missing[@]} -gt 0 ]; then install "${missing[@]}"; fi
}

rust_version() { sed -n '/^rust-version = "/{s/.*"\(.*\)"/\1/p;q}' "$root/Cargo.toml"; }

has_rust() {
    command -v cargo >/dev/null && command -v rustc >/dev/null || return 1
    local have
    have=$(cd "$root" && rustc --version 2>/dev/null | cut -d' ' -f2 | cut -d- -f1) || return 1
    [ -n "$have" ] && printf '%s\n%s\n' "$(rust_version)" "$have" | sort -V -C
}

setup_rust() {
    has_rust && return 0
    # Debian 13, Ubuntu 24.04 and later have rustup as a package.
    if ! command -v rustup >/dev/null && command -v apt-get >/dev/null; then
        as_root apt-get update -qq && updated=1
        case $(apt-cache policy rustup 2>/dev/null) in *"Candidate: "[0-9]*) install rustup ;; esac
    fi
    if command -v rustup >/dev/null; then
        say "installing the stable Rust toolchain with rustup"
        rustup toolchain install stable --profile minimal && rustup default stable
    fi
    has_rust || fail "Rust $(rust_version) or newer is needed: install it as https://rustup.rs says, then run this again"
}

command -v cc >/dev/null || install gcc libc6-dev
setup_vulkan
setup_rust
