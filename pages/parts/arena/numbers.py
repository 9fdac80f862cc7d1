"""How the Arena writes its numbers."""


def times(factor: float) -> str:
    """A ratio: ``1.66x``."""
    return f"{factor:.2f}x"


def roughly(factor: float) -> str:
    """A ratio in a heading or a slider: ``1.7x``."""
    return f"{factor:.1f}x"


def seconds(value: float) -> str:
    """Seconds with about three digits."""
    return f"{value:.1f}" if value >= 9.95 else f"{value:.2f}" if value >= 0.0995 else f"{value:.3f}"


def milliseconds(value: float | None) -> str:
    """Milliseconds with about three digits; a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def percent(share: float) -> str:
    """A share of 0 to 1 in whole percent, without the sign."""
    return f"{100 * share:.0f}"
