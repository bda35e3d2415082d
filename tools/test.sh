#!/bin/bash
# Builds and tests the tree, from a clean clone. Goes on after a failure, ends
# with a summary, and fails if anything did.
#
#   tools/test.sh             build and every test
#   tools/test.sh all         what CI runs: that, the quick tests under the
#                             address and undefined-behaviour sanitizers, tests
#                             with threads under the thread sanitizer, fuzzers,
#                             format and clang-tidy
#   tools/test.sh dev format  these steps only: dev asan tsan fuzz format tidy
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
fuzz_seconds=${ASYRA_FUZZ_SECONDS:-45}
if command -v ccache >/dev/null; then
  export ASYRA_LAUNCHER=${ASYRA_LAUNCHER-ccache}
  # One cache for all clones, precompiled headers included.
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
fi
summary=()
failed=0

step() {  # NAME COMMAND...
  local name=$1 begin=$SECONDS result=passed
  shift
  echo "=== $name"
  "$@" </dev/null || { result=FAILED; failed=1; }
  summary+=("$(printf '%-8s %-7s %4d s' "$name" "$result" \
      $((SECONDS - begin)))")
}

# A folder that is not there yet compiles sources in batches, which takes half of
# the time, and has the fastest linker; one that is keeps its settings.
build() {  # PRESET [TARGET...]
  local preset=$1 settings=()
  shift
  if [ ! -e "build/$preset/CMakeCache.txt" ]; then
    settings=(-DASYRA_UNITY=ON)
    ! command -v ld.lld >/dev/null ||
      settings+=(-DCMAKE_{EXE,SHARED}_LINKER_FLAGS=-fuse-ld=lld)
  fi
  cmake --preset "$preset" "${settings[@]}" >/dev/null &&
    cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"} |
      tail -n 40
}

# Test cases that did not run, by the reason they give: those of GTest, those of
# Python's unittest, and those that Python tests print.
skipped() {  # PRESET
  local log=build/$1/Testing/Temporary/LastTest.log
  local cases
  cases=$(awk '/^\[  SKIPPED \] .*\([0-9]+ ms\)$/ || /^SKIP: / { ++cases }
               /^OK \(skipped=[0-9]+\)$/ { gsub(/[^0-9]/, ""); cases += $0 }
               /^[0-9]+ cases left out: / { cases += $1 }
               END { print cases + 0 }' "$log")
  echo "$cases test cases skipped"
  {
    grep -A1 -E ': Skipped$' "$log" | grep -vE ': Skipped$|^--$'
    sed -nE 's/^(SKIP|[0-9]+ cases left out): //p' "$log"
  } | sort | uniq -c | sort -rn | head -n 5
}

dev() {
  build dev || return 1
  # Attacks on ranks take long and are run by hand.
  ctest --preset dev -j "$jobs" -E '^rank_attacks$'
  local result=$?
  skipped dev
  return $result
}

# Slow tests are run without sanitizers only, and what only they need is not
# built; nor are cases of large models, long searches and plans run, whose code
# smaller ones reach too.
asan() {
  local large='Schedule.PrefillOfALongSequenceTakesLessMemory'
  large+=:Schedule.TilingHidesCommunicationOnALargeModel
  large+=:Schedule.MatmulsLeaveSmsWhereThatPays
  large+=:Schedule.FitsInTheCapacityWithLibrariesAndKernels
  large+=:TrainSchedule.WhatDoesNotFitIsTriedOnFewerStreams
  large+=:RecomputeSearch.WhatFitsByFewLayersFitsByAll
  large+=:PlanMemory.TheLastPercentIsLookedForWhereItIsNeeded
  large+=:SeparatePhasesTest.TheSearchTriesIt
  large+=:PlanSharding.ExpertsExchangeTokensOnceForEachWay
  large+=:PlanStep.ExchangesOverTheAxisOfExpertsLeaveModelAxes
  large+=:StepMemory.PartsAddUpToThePeakAndToTheDevice
  large+=:RankWeights.OneRankOf16ReadsAndHoldsASixteenth
  large+=:ScheduledJoins.AreNeverWorse:PlanStep.LogitsAreNotGathered
  large+=:PlanStep.ZeroCuts*:PlanStep.EveryLayerHasTheSamePlan
  large+=:PlanStep.TensorAndSequenceTogether:PlanSharding.EveryLayer*
  large+=:Fuse.MatmulsDoNotSpoilRows:'BuiltinModels/SameModel.OpByOp/llama3_70b'
  large+=:'RanksAndParts/*n8_*'
  large+=:CostTable.PlacesAreNotMeasured
  large+=:OnnxFunction.ThatGrowsWithoutBoundIsRefused
  large+=:CheckpointKill.*:FactorSequence.*OverTheParts:AttentionForms.*
  large+=:TrainProperty.GradientsAreTheSlopesOfTheLoss:TrainProperty.Searched*
  build asan asyra_quick_tests && GTEST_FILTER=-$large \
    ctest --preset asan -j "$jobs" -L cpu -LE slow
}

# What has threads, without tests that only interpret: trainers have none of
# their own. Without oneDNN and MPI, whose threads meet where the sanitizer does
# not see it.
tsan() {
  local interpreted=TrainProperty.GradientsAreTheSlopesOfTheLoss
  interpreted+=:TrainProperty.StepsAreTheSameOnEveryMesh
  interpreted+=:TrainProperty.WhatIsComputedAgainIsTheSame
  interpreted+=:TrainProperty.SearchedSchedules*
  build tsan executor_test executor_train_test schedules_test &&
    GTEST_FILTER=-$interpreted ctest --preset tsan -j "$jobs" \
      -R '^(executor|executor_train|schedules)_test$'
}

# What a fuzzer starts from: small files of the tree.
seeds_for() {
  case $1 in
    asyra_text_fuzz) find tests/fixtures tests/fuzz -name '*.asyra' -size -64k ;;
    asyra_onnx_fuzz) find models tests/fuzz -name '*.onnx' -size -64k ;;
  esac
}

fuzz_one() {  # PATH OF A FUZZER
  local name corpus log
  name=$(basename "$1")
  corpus=$(mktemp -d)
  log=build/asan/$name.log
  seeds_for "$name" | while read -r file; do
    cp "$file" "$corpus/$(echo "$file" | tr / _)"
  done
  local dict=tests/fuzz/${name#asyra_}
  dict=${dict%_fuzz}.dict
  local flags=(-max_total_time="$fuzz_seconds" -timeout=20 -rss_limit_mb=2048
               -max_len=65536 -artifact_prefix="build/asan/$name-")
  [ ! -e "$dict" ] || flags+=(-dict="$dict")
  if "$1" "${flags[@]}" "$corpus" >"$log" 2>&1; then
    echo "$name: $(tail -n 1 "$log")"
  else
    tail -n 40 "$log"
    echo "$name: FAILED, the input is kept in build/asan/$name-*"
    return 1
  fi
}

# The fuzzers are part of the build with sanitizers.
fuzz() {
  build asan asyra_fuzzers || return 1
  local pids=() result=0
  for fuzzer in build/asan/tests/fuzz/asyra_*_fuzz; do
    fuzz_one "$fuzzer" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || result=1; done
  return $result
}

# Debian's clang-tidy also looks through the headers of the system, which takes
# twice as long: it is for where there is no newer one.
newer_clang_tidy() {
  local folder=build/clang-tidy
  [ -d $folder ] ||
    python3 -m pip install -q --target $folder clang-tidy==23.1.4 ||
    { rm -rf $folder; return 0; }
  export PATH=$PWD/$folder/clang_tidy/data/bin:$PATH
}

# Sources of the libraries and tools; the tests are left to the compiler.
tidy() {
  newer_clang_tidy
  # Of what is generated, only the header that sources include.
  cmake --preset tidy >/dev/null &&
    cmake --build build/tidy --target frontends/proto/onnx/onnx.pb.h |
      tail -n 1 || return 1
  tools/tidy.py -j "$jobs" build/tidy
}

steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(dev)
[ "${steps[*]}" != all ] || steps=(dev asan tsan fuzz format tidy)
tools/install_deps.sh --checks || exit 1
for name in "${steps[@]}"; do
  case $name in
    dev|asan|tsan|fuzz|tidy) step "$name" "$name" ;;
    format) step format tools/format.sh --check ;;
    *) echo "unknown step $name" >&2; exit 2 ;;
  esac
done
echo "=== summary"
printf '%s\n' "${summary[@]}"
[ $failed = 0 ] && echo "all passed" || echo "FAILED"
exit $failed
