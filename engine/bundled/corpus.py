"""Reads the two public-domain texts and turns them into clean chapters, split into training and held-out text.

A folder holds both, made by Debian's packages r-cran-janeaustenr and bible-kjv:

    Rscript -e 'writeLines(as.character(janeaustenr::austen_books()$text), "austen.txt")'
    bible -f Gen1:1-Rev22:21 > bible.txt

A chapter is one document: long enough that most answers go on, short enough that the model sees a thousand beginnings
and learns that texts end. Chapter headings are dropped. Novels keep their paragraphs (a blank line between two), and
the Bible keeps one verse a line.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NOVELS: tuple[str, ...] = (
    "SENSE AND SENSIBILITY",
    "PRIDE AND PREJUDICE",
    "MANSFIELD PARK",
    "EMMA",
    "NORTHANGER ABBEY",
    "Persuasion",
)
CHAPTER_HEADING = re.compile(r"^\s*chapter\s+(\d+|[ivxl]+)\.?\s*$", re.IGNORECASE)
NOT_PROSE = re.compile(
    r"""^\s*( volume\s[ivx]+ | the\ end | finis | [*\ ]+ | \*vide\ .*
        | \[( at\ this\ point|end\ volume|to\ mrs ).*
        | ( printed\ by|printers\ to\ her|the\ edinburgh\ university ).* )\s*$""",
    re.IGNORECASE | re.VERBOSE,
)
EDITORS_NOTE = "A NOTE ON THE TEXT"
VERSE = re.compile(r"^(?P<book>\d?[A-Za-z]+)(?P<chapter>\d+):\d+ (?P<words>.*)$")
HELD_OUT_SHARE = 0.03
CHAPTER_BREAK = "\n\f\n"


@dataclass(frozen=True)
class Book:
    """One novel, or one book of the Bible, as its chapters in order."""

    title: str
    chapters: list[str]


def read_books(folder: Path) -> Iterator[Book]:
    """Yield every book in `folder`: the six novels, then the 66 books of the Bible."""
    yield from novels((folder / "austen.txt").read_text(encoding="utf-8").splitlines())
    yield from bible_books((folder / "bible.txt").read_text(encoding="utf-8").splitlines())


def split(books: Iterator[Book]) -> tuple[list[str], list[str]]:
    """Split into (training, held-out) documents. Held out is the *end* of each book, in one piece.

    Paragraphs drawn at random would leak: their neighbours, with the same names and scene, would be trained on.
    """
    training, held_out = [], []
    for book in books:
        text = CHAPTER_BREAK.join(book.chapters)
        cut = text.rfind("\n", 0, int(len(text) * (1 - HELD_OUT_SHARE)))
        training += _chapters_of(text[:cut])
        held_out += _chapters_of(text[cut:])
    return training, held_out


def _chapters_of(text: str) -> list[str]:
    return [chapter.strip() for chapter in text.split(CHAPTER_BREAK.strip("\n")) if chapter.strip()]


def novels(lines: list[str]) -> Iterator[Book]:
    """Yield the novels of Jane Austen, found by their title lines, without title pages and editors' notes."""
    starts = [lines.index(title) for title in NOVELS]
    for title, start, end in zip(NOVELS, starts, [*starts[1:], len(lines)], strict=True):
        body = lines[start:end]
        if EDITORS_NOTE in body:
            body = body[: body.index(EDITORS_NOTE)]
        headings = [i for i, line in enumerate(body) if CHAPTER_HEADING.match(line)]
        bounds = zip(headings, [*headings[1:], len(body)], strict=True)
        yield Book(title.title(), [unwrap(body[first + 1 : last]) for first, last in bounds])


def unwrap(lines: list[str]) -> str:
    """Join hard-wrapped lines into paragraphs: a blank line, or one that is not prose, ends a paragraph."""
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if not line.strip() or NOT_PROSE.match(line):
            paragraphs.append([])
        else:
            paragraphs[-1].append(line)
    return "\n\n".join(normalise(" ".join(paragraph)) for paragraph in paragraphs if paragraph)


def normalise(text: str) -> str:
    """Single spaces, real dashes, and neither underscores (italics in the source) nor asterisks (footnotes)."""
    text = re.sub(r"-{2,}", "\u2014", re.sub(r"[_*]", "", text))
    return re.sub(r"\s+", " ", text).strip()


def bible_books(lines: list[str]) -> Iterator[Book]:
    """Yield the books of the Bible. Each line of the source is `book chapter:verse words`; only the words are kept."""
    books: dict[str, dict[str, list[str]]] = {}
    for verse in filter(None, map(VERSE.match, lines)):
        chapters = books.setdefault(verse["book"], {})
        chapters.setdefault(verse["chapter"], []).append(normalise(verse["words"]))
    for title, chapters in books.items():
        yield Book(title, ["\n".join(verses) for verses in chapters.values()])
