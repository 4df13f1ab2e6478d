"""The filter language of subscriptions: reading, writing and evaluating filters over attributes.

The language is defined in `docs/filters.md`. This package is pure: it knows nothing of subscriptions,
publications or the broker.
"""

from braid.filters.compiler import compile_filter
from braid.filters.equalities import EqualityKey, equality_key, required_equalities
from braid.filters.errors import FilterError
from braid.filters.evaluator import evaluate
from braid.filters.json_form import from_json, to_json
from braid.filters.literals import Value
from braid.filters.nodes import (
    And,
    Between,
    Comparison,
    Contains,
    Exists,
    Filter,
    In,
    Not,
    Operator,
    Or,
    Predicate,
    Prefix,
    Suffix,
)
from braid.filters.parser import MAX_DEPTH, MAX_PREDICATES, parse
from braid.filters.printer import print_filter

__all__ = [
    "MAX_DEPTH",
    "MAX_PREDICATES",
    "And",
    "Between",
    "Comparison",
    "Contains",
    "EqualityKey",
    "Exists",
    "Filter",
    "FilterError",
    "In",
    "Not",
    "Operator",
    "Or",
    "Predicate",
    "Prefix",
    "Suffix",
    "Value",
    "compile_filter",
    "equality_key",
    "evaluate",
    "from_json",
    "parse",
    "print_filter",
    "required_equalities",
    "to_json",
]
