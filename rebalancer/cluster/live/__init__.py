"""The live API server: connection, paging and reading ahead."""
