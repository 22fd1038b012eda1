"""Coverage-guided fuzzing of everything that reads what others wrote: ``make fuzz``.

A target decodes bytes as the program does. A refusal is one of the program's own errors; any other exception,
and time or memory out of proportion to the input, is a finding.
"""
