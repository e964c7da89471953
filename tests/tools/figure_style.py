"""A style for figures in tests, small and quick to render."""

from typing import Any

STYLE: dict[str, Any] = {
    "panel_width": 1.5,
    "font_size": 7,
    "resolution": 60,
    "colors": ["#0072B2", "#D55E00", "#595959"],
}
