"""The diagrams of the documents are those of the tables."""

import pytest

from tests.diagrams import PAGE, diagrams, with_diagrams


def test_the_diagrams_of_the_page_are_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_diagrams(page), "a table has changed: python -m tests.diagrams --write"


def test_every_table_has_its_diagram_once() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.count("```mermaid\n") == len(diagrams())
    for diagram in diagrams().values():
        assert page.count(diagram) == 1


def test_a_page_without_a_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="diagram: coordinator"):
        with_diagrams("nothing")
