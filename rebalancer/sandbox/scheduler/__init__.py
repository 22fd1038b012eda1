"""The embedded scheduler, which places Pending pods by the scheduling model or by chance."""
