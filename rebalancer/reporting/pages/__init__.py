"""Pages of docs/ that are generated from the tables of the program, so that they cannot go out of date."""
