"""Pages of the documentation that are made from the code or from a finished run."""

from anchorflow.config.places import REPOSITORY, WORKFLOW

DOCS = REPOSITORY / "docs"
SCHEMA_FILE = WORKFLOW / "schemas" / "config.schema.yaml"
