#!/usr/bin/env bash
# Lay the cube of a study out, and submit an array of jobs that fill it:
#
#   submit.sh TASKS STUDY CUBE [OPTION ...]
#
# TASKS is their number, or 100%8: of 100 no more than 8 at a time. Options are those of calibdask run, such as --set
# NAME=VALUE. What sbatch should know comes by its own variables: SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_TIMELIMIT and
# so on. The same command goes on with what is left.
set -euo pipefail

if (($# < 3)) || ! [[ $1 =~ ^([1-9][0-9]*)(%[1-9][0-9]*)?$ ]]; then
    echo "usage: submit.sh TASKS STUDY CUBE [OPTION ...]" >&2
    exit 2
fi
last=$((BASH_REMATCH[1] - 1)) limit=${BASH_REMATCH[2]:-}
study=$2 store=$3
shift 3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

calibdask run "$study" --store "$store" --lay-out "$@"
# What is there is replaced once, and not by each task.
options=()
for word in "$@"; do
    [[ $word == --overwrite ]] || options+=("$word")
done
job=$(sbatch --parsable --array="0-$last$limit" "$here/array.sbatch" "$study" "$store" "${options[@]}")
job=${job%%;*}
cat <<TEXT
submitted job $job
how far it is:   calibdask status $store
its tasks:       squeue --jobs=$job
to end it:       scancel $job
TEXT
