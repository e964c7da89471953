#!/usr/bin/env bash
# Runs in the new environment, in the working directory: the repository's folder, or any other one.
set -euo pipefail
if [ -f constraints.txt ] && [ -f workflow/Snakefile ]; then
  pip install -q "$(grep '^torch==' constraints.txt)"
  pip install -q -c constraints.txt -e '.[models]'
else
  pip install -q 'anchorflow[models]==0.1.0'  # the version of this workflow
fi
