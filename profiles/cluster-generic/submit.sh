#!/bin/sh
# submit.sh CORES MB MINUTES GPUS SCRIPT: submit a job and print its number, and nothing else.
set -eu
mkdir -p logs/cluster # SLURM does not make the folder of its logs
if [ "$4" -gt 0 ]; then gpus="--gpus=$4"; else gpus=""; fi
exec sbatch --parsable --ntasks=1 --cpus-per-task="$1" --mem="$2" --time="$3" $gpus \
    --output=logs/cluster/%j.log "$5"
