"""Tests of the strategies, and of what is written once for all of them."""
