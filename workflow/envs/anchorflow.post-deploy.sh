#!/usr/bin/env bash
# Runs in the new environment, in the working directory: the repository's folder.
set -euo pipefail
pip install -q "$(grep '^torch==' constraints.txt)"
pip install -q -c constraints.txt -e '.[models]'
