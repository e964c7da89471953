"""The analyses: a folder per analysis, whose name rules, paths and settings have, too."""
