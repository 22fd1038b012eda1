"""What a checkout needs and an installation does not: generators of pages."""
