"""Verdicts and outcomes as chips: colour, glyph and word; and the style of the cards."""

from html import escape

from pages.parts.words import t

VERDICT_GLYPHS = {"OK": "✓", "CTX": "±", "VAGUE": "≈", "WRONG": "✗", "LEGACY": "↺", "LOST": "∅", "n/a": "–"}
OUTCOME_GLYPHS = {"holds": "✓", "fails": "✗", "partly": "±", "silent": "○"}

STYLE = """<style>
.ca { display: grid; gap: 0.45rem; font-size: 0.9rem; line-height: 1.42; min-width: 0; }
.ca-head { display: flex; flex-wrap: wrap; gap: 0.5rem; align-items: center; }
.ca-head a { font-family: ui-monospace, monospace; font-weight: 650; color: inherit; text-decoration: none; }
.ca-head a:hover, .ca-head a:focus-visible { text-decoration: underline; }
.ca-head a.ca-more { font-family: inherit; font-weight: 500; font-size: 0.8rem; text-decoration: underline; }
.ca-head .ca-dim { opacity: 0.72; font-size: 0.8rem; }
.ca-head .ca-chip { margin-left: auto; }
.ca-chip { border: 1.5px solid currentColor; border-radius: 999px; padding: 0 0.6rem; font-size: 0.78rem;
  font-weight: 650; white-space: nowrap; }
.ca-OK, .ca-holds { color: light-dark(#00694a, #3ccf9f); }
.ca-CTX, .ca-partly { color: light-dark(#005a96, #6cc0f5); }
.ca-VAGUE { color: light-dark(#7d5200, #f0b840); }
.ca-WRONG, .ca-fails { color: light-dark(#a83500, #ff9468); }
.ca-LEGACY { color: light-dark(#8a346d, #e9a3d2); }
.ca-LOST, .ca-na, .ca-silent { color: light-dark(#545e6d, #aab4c2); }
.ca-claim { font-size: 0.98rem; font-weight: 550; margin: 0; }
.ca-note { margin: 0; }
.ca-note b { font-weight: 650; }
.ca-found { border-left: 3px solid currentColor; padding-left: 0.7rem; display: grid; gap: 0.3rem; }
.ca-found p { margin: 0; color: light-dark(#1c2330, #e8ecf3); }
.ca-row { display: flex; flex-wrap: wrap; gap: 0.5rem; align-items: center; }
.ca details { font-size: 0.8rem; color: light-dark(#1c2330, #e8ecf3); }
.ca summary { cursor: pointer; opacity: 0.8; width: max-content; }
.ca table { border-collapse: collapse; margin: 0.3rem 0; }
.ca td { padding: 0.05rem 0.9rem 0.05rem 0; border: 0; font-variant-numeric: tabular-nums; }
.ca code { font-size: 0.78rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.ca-lacks { opacity: 0.78; margin: 0; }
.ca-tally { display: flex; flex-wrap: wrap; gap: 0.5rem 1.3rem; align-items: baseline; font-size: 0.86rem; }
.ca-tally b { font-size: 1.15rem; font-variant-numeric: tabular-nums; }
.ca-dot { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 5px; }
.ca-bar { display: flex; height: 12px; border: 1px solid color-mix(in srgb, currentColor 45%, transparent);
  border-radius: 6px; overflow: hidden; }
.ca-bar i { display: block; height: 100%; }
.ca-bar i + i { border-left: 1px solid light-dark(#fff, #11151c); }
</style>"""


def verdict_chip(verdict: str) -> str:
    """The verdict on a claim."""
    return _chip(verdict.replace("/", ""), VERDICT_GLYPHS[verdict], t(f"claims.verdict.{verdict}"))


def outcome_chip(outcome: str) -> str:
    """What the numbers say."""
    return _chip(outcome, OUTCOME_GLYPHS[outcome], t(f"claims.outcome.{outcome}"))


def _chip(name: str, glyph: str, words: str) -> str:
    return f'<span class="ca-chip ca-{name}"><span aria-hidden="true">{glyph}</span> {escape(words)}</span>'
