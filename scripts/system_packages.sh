#!/bin/sh
# System packages that some tests need and pip cannot install. Called by `make setup`.
# strace: watches that the C++ reader of MJCF files opens nothing outside its folder.
# chromium: opens the HTML reports, and sees that they show something and ask for nothing.
# ffmpeg: encodes the videos of runs (40 seconds).
# clang, lld, qemu: compile and run exported code for other processors (26 MB, half a minute).
missing() {
  command -v clang-14 >/dev/null 2>&1 || echo clang-14
  command -v ld.lld-14 >/dev/null 2>&1 || echo lld-14
  command -v qemu-aarch64 >/dev/null 2>&1 || echo qemu-user
  command -v qemu-system-arm >/dev/null 2>&1 || echo qemu-system-arm
  command -v strace >/dev/null 2>&1 || echo strace
  command -v ffmpeg >/dev/null 2>&1 || echo ffmpeg
  command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || echo chromium
}
install() {
  apt-get install -y -qq --no-install-recommends "$1" ||
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$1"; }
}
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
  for package in $(missing); do install "$package" >/dev/null 2>&1; done
fi
for package in $(missing); do
  echo "$package is not installed; the tests that need it will be skipped." \
       "Install it with your system's package manager." >&2
done
exit 0
