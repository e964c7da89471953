"""What the rules import: the configuration and its checks, stages, cell names, code digests.

Standard library, PyYAML and jsonschema only, so that planning a run needs nothing else.
"""
