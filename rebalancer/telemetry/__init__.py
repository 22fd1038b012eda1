"""What the program does and how long it takes, as spans that anybody may listen to.

``span`` is called where the work is done and knows nobody who listens; metrics and traces are listeners.
"""

from rebalancer.telemetry.spans import Span, current_fields, listening, record, span

__all__ = ["Span", "current_fields", "listening", "record", "span"]
