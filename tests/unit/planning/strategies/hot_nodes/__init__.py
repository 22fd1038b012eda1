"""Hot nodes."""
