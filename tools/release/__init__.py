"""Makes a release: versions set from one number, everything built from one commit, and verified."""
