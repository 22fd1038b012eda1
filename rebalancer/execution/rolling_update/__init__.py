"""Moving the only pod of a Deployment by its own rolling update: the request, and how it went."""
