#!/bin/sh
# System packages that some tests need and pip cannot install. Called by `make setup`.
# strace: watches that the C++ reader of MJCF files opens nothing outside its folder.
command -v strace >/dev/null 2>&1 && exit 0
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
  (apt-get install -y -qq strace || { apt-get update -qq && apt-get install -y -qq strace; }) >/dev/null 2>&1
fi
command -v strace >/dev/null 2>&1 && exit 0
echo "strace is not installed; the test that watches system calls will be skipped." \
     "Install it with your system's package manager." >&2
exit 0
