#!/usr/bin/env bash
# Holds ./bootstrap to its promises on a tiny project in a path with spaces.
set -euo pipefail

root=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
house="$work/a house"
failed=0

check() {  # check WHAT COMMAND...
  local what=$1
  shift
  if "$@"; then return; fi
  echo "bootstrap_check: failed: $what" >&2
  failed=1
}

mkdir -p "$house/src" "$house/cli" "$work/bin" "$work/no tools"
cp "$root/bootstrap" "$house/"
cat >"$house/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(tiny LANGUAGES CXX)
add_executable(ztplan cli/main.cc)
set_target_properties(ztplan PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                      ${CMAKE_BINARY_DIR}/bin)
add_executable(ztplan_tests cli/tests.cc)
END
write_main() {
  echo '#include <cstdio>
  int main(int n, char** words) {
    std::printf("'"$1"'");
    for (int i = 1; i < n; ++i) std::printf(" [%s]", words[i]);
    std::puts("");
    return n - 1;
  }' >"$house/cli/main.cc"
}
write_tests() {
  echo '#include <cstdio>
  int main() {
    std::puts("[doctest] test cases:  5 |  '"$1"' passed | '"$2"' failed | 0 skipped");
    return '"$2"';
  }' >"$house/cli/tests.cc"
}
write_main one
write_tests 5 0

cd "$work"
out=$("$house/bootstrap" a "b c" 2>"$work/errors") && code=0 || code=$?
check "it runs with the words given" test "$out" = "one [a] [b c]"
check "the exit code is the program's" test "$code" = 2

# From here on, tools that must not be called again.
for tool in cmake ninja apt-get sudo; do
  printf '#!/bin/sh\necho called %s >&2\nexit 9\n' $tool >"$work/no tools/$tool"
  chmod +x "$work/no tools/$tool"
done
ln -s "$house/bootstrap" "$work/bin/link"
out=$(PATH="$work/no tools:$PATH" "$work/bin/link" 2>"$work/errors")
check "a second call builds nothing, through a symlink" test "$out" = one
check "a second call says nothing" test ! -s "$work/errors"

write_main two
check "an edit is built" test "$("$house/bootstrap" 2>/dev/null)" = two

echo 'int main( {' >"$house/cli/main.cc"
"$house/bootstrap" >"$work/out" 2>"$work/errors" && code=0 || code=$?
check "a broken build fails" test "$code" != 0
check "its error is shown" grep -q 'error:' "$work/errors"
check "stdout stays clean" test ! -s "$work/out"
write_main three
check "and is mended" test "$("$house/bootstrap" 2>/dev/null)" = three

out=$("$house/bootstrap" test 2>/dev/null | tail -n 1)
check "test closes with its counts" test "$out" = "5 passed, 0 failed"
write_tests 3 2
"$house/bootstrap" test >"$work/out" 2>/dev/null && code=0 || code=$?
check "a failed test fails" test "$code" != 0
check "and is counted" test "$(tail -n 1 "$work/out")" = "3 passed, 2 failed"
echo 'int main() { __builtin_trap(); }' >"$house/cli/tests.cc"
"$house/bootstrap" test >"$work/out" 2>/dev/null && code=0 || code=$?
check "a crash of the tests fails" test "$code" != 0
check "and is counted" test "$(tail -n 1 "$work/out")" = "0 passed, 1 failed"

mv "$house" "$work/moved"
check "a moved tree builds again" \
  test "$("$work/moved/bootstrap" 2>/dev/null)" = three

exit "$failed"
