"""The diagrams of the documents are those of the tables."""

import pytest

from tests.diagrams import DOCS, diagrams, with_diagrams


@pytest.mark.parametrize("page", diagrams())
def test_the_diagrams_of_the_page_are_current(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert text == with_diagrams(text, diagrams()[page]), "a table has changed: python -m tests.diagrams --write"


@pytest.mark.parametrize("page", diagrams())
def test_every_table_has_its_diagram_once(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert text.count("```mermaid\n") == len(diagrams()[page])
    for diagram in diagrams()[page].values():
        assert text.count(diagram) == 1


def test_a_page_without_a_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="diagram: coordinator"):
        with_diagrams("nothing", diagrams()["repartitioning.md"])
