"""The commands, a file each in ``commands``; the edge that turns errors into lines and exit codes.

``--help`` is fast: nothing here imports numpy, pandas, kubernetes, rich or pydantic before a command runs.
"""
