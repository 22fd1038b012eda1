"""Installing with the tools that users have, from the package registry."""
