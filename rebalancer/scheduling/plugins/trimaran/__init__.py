"""The load-aware plugins of scheduler-plugins' Trimaran, and the figures they read."""
