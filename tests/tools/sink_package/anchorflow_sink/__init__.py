"""An analysis and a method of compression, as another package adds them to anchorflow."""
