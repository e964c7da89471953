"""Imported for what this project imports: its own modules are forgotten again, libraries stay."""

import importlib
import pkgutil
import sys

import anchorflow

for _found in pkgutil.walk_packages(anchorflow.__path__, f"{anchorflow.__name__}."):
    if not _found.name.endswith("__main__"):
        importlib.import_module(_found.name)
for _name in [name for name in sys.modules if name.partition(".")[0] == anchorflow.__name__]:
    del sys.modules[_name]
