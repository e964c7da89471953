#!/bin/sh
# status.sh NUMBER: print running, success or failed.
if ! state=$(squeue --noheader --states=all --jobs="$1" --format=%T 2>&1); then
    case $state in
    *"Invalid job id"*) echo failed ;; # ended so long ago that SLURM has forgotten it
    *) echo running ;;                 # the controller did not answer; asked again later
    esac
    exit
fi
case $state in
COMPLETED) echo success ;;
PENDING | CONFIGURING | RUNNING | COMPLETING | SUSPENDED | REQUEUED | RESIZING | STAGE_OUT) echo running ;;
*) echo failed ;;
esac
