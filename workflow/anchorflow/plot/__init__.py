"""Figures and pages from summaries."""
