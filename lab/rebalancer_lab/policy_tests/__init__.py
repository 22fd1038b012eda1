"""Tests of a policy: assertions about its plan, for a CI."""
