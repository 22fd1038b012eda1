"""Days whose curve was published: what people ask of a service, hour by hour.

The curves are the taxi passengers of New York on four days of July 2014, counts of the city's Taxi and
Limousine Commission as the Numenta Anomaly Benchmark publishes them (`realKnownCause/nyc_taxi.csv`): a
Monday, a Tuesday, a Saturday and a Sunday, by the hour and as shares of their mean. They have what a sine
lacks: two peaks on working days, a trough of a tenth of the peak, other days at the weekend.

Of the workloads of a cluster a half follows that demand, above a level that is always there; a quarter is
steady, and a quarter works at night. Each has days of its own that are up to a fifth fuller or emptier.
"""

from __future__ import annotations

import hashlib

import numpy as np

_MONDAY = (
    *(0.68, 0.40, 0.25, 0.15, 0.18, 0.20, 0.50, 0.99, 1.29, 1.39, 1.10, 1.11),
    *(1.19, 1.20, 1.29, 1.31, 1.23, 1.37, 1.67, 1.74, 1.47, 1.54, 1.39, 1.17),
)
_TUESDAY = (
    *(0.73, 0.57, 0.27, 0.17, 0.16, 0.19, 0.51, 1.06, 1.43, 1.53, 1.29, 1.26),
    *(1.41, 1.40, 1.48, 1.46, 1.25, 1.36, 1.86, 1.99, 1.71, 1.72, 1.97, 1.43),
)
_SATURDAY = (
    *(1.37, 1.13, 0.86, 0.63, 0.50, 0.24, 0.20, 0.29, 0.37, 0.58, 0.80, 0.91),
    *(0.99, 1.04, 1.08, 1.09, 1.03, 1.09, 1.14, 1.42, 1.10, 1.19, 1.25, 1.28),
)
_SUNDAY = (
    *(1.20, 1.02, 0.87, 0.67, 0.56, 0.24, 0.20, 0.25, 0.32, 0.50, 0.73, 0.91),
    *(1.07, 1.12, 1.21, 1.14, 1.07, 1.20, 1.32, 1.33, 1.13, 1.26, 1.10, 1.03),
)
WEEK = np.array([_MONDAY, _TUESDAY, _MONDAY, _TUESDAY, _TUESDAY, _SATURDAY, _SUNDAY])  # (days, hours)
_ALWAYS = 0.4  # share of its load that a service has without demand


def demand(hours: float) -> float:
    """At an hour of the week, which begins on a Monday; between two hours as on the line between them."""
    week = WEEK.ravel()
    return float(np.interp(hours % len(week), np.arange(len(week) + 1), np.append(week, week[0])))


def factor(workload: str, hours: float) -> float:
    """What a workload uses at an hour, as a share of its habit."""
    draw = hashlib.sha256(workload.encode()).digest()
    day = hashlib.sha256(f"{workload} {hours // 24:.0f}".encode()).digest()
    own = 0.8 + 0.4 * day[0] / 255.0
    if draw[0] < 128:
        return own * (_ALWAYS + (1.0 - _ALWAYS) * demand(hours - draw[1] / 255.0))
    if draw[0] < 192:
        return own
    return own * (1.9 if hours % 24.0 < 6.0 else 0.7)
