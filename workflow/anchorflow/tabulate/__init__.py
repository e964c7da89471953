"""Tables for readers from summaries: CSV, Markdown, and HTML."""
