"""Estimates with intervals over seeds, texts and tasks."""
