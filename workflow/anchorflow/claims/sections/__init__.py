"""The claims, by sections of the papers."""
