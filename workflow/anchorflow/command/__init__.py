"""The command ``anchorflow``: writes a configuration, checks it, and runs the workflow with it."""
