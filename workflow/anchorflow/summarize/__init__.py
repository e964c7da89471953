"""Summaries of measurements over tasks and seeds, with intervals, and the claims."""
