"""Regions of memory as kernels see them: an address, and the words behind it.

numba's own arrays carry shape, strides and an owner, which the engine does not need and which take most of the time
of compiling; these are one machine word.
"""

import operator
from typing import Any, Protocol

from llvmlite import ir
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import models, register_model

from braid.matching.engine.kernel import intrinsic, lowering, small_kernel


class Integers(Protocol):
    """What a region of integers looks like to a reader of a kernel."""

    def __getitem__(self, index: Any, /) -> int: ...
    def __setitem__(self, index: Any, value: Any, /) -> None: ...


class Floats(Protocol):
    def __getitem__(self, index: Any, /) -> float: ...
    def __setitem__(self, index: Any, value: Any, /) -> None: ...


class Region(types.Type):  # type: ignore[misc]  # numba has no type information
    def __init__(self, element: Any) -> None:
        self.element = element
        super().__init__(name=f"Region({element})")


_INTEGERS, _FLOATS = Region(types.int64), Region(types.float64)


@register_model(Region)
class _RegionModel(models.PrimitiveModel):  # type: ignore[misc]  # as above
    def __init__(self, manager: Any, region: Any) -> None:
        super().__init__(manager, region, ir.IntType(64))


@intrinsic
def _integers_at(_context: Any, address: Any) -> Any:
    return _INTEGERS(types.int64), lambda _target, _builder, _signature, arguments: arguments[0]


@intrinsic
def _floats_at(_context: Any, address: Any) -> Any:
    return _FLOATS(types.int64), lambda _target, _builder, _signature, arguments: arguments[0]


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):  # type: ignore[misc]  # as above
    def generic(self, arguments: Any, keywords: Any) -> Any:
        if len(arguments) == 2 and isinstance(arguments[0], Region) and isinstance(arguments[1], types.Integer):
            return signature(arguments[0].element, arguments[0], arguments[1])
        return None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):  # type: ignore[misc]  # as above
    def generic(self, arguments: Any, keywords: Any) -> Any:
        if len(arguments) == 3 and isinstance(arguments[0], Region) and isinstance(arguments[1], types.Integer):
            return signature(types.none, arguments[0], arguments[1], arguments[0].element)
        return None


def _place(target: Any, builder: Any, region: Any, kind: Any, index: Any, index_type: Any) -> Any:
    index = target.cast(builder, index, index_type, types.int64)
    base = builder.inttoptr(region, target.get_value_type(kind.element).as_pointer())
    return builder.gep(base, [index])


@lowering(operator.getitem, Region, types.Integer)
def _get_item(target: Any, builder: Any, shape: Any, arguments: Any) -> Any:
    return builder.load(_place(target, builder, arguments[0], shape.args[0], arguments[1], shape.args[1]))


@lowering(operator.setitem, Region, types.Integer, types.Any)
def _set_item(target: Any, builder: Any, shape: Any, arguments: Any) -> Any:
    place = _place(target, builder, arguments[0], shape.args[0], arguments[1], shape.args[1])
    value = target.cast(builder, arguments[2], shape.args[2], shape.args[0].element)
    builder.store(value, place)
    return target.get_dummy_value()


@small_kernel
def integers_at(address: int) -> Integers:
    region: Integers = _integers_at(address)
    return region


@small_kernel
def floats_at(address: int) -> Floats:
    region: Floats = _floats_at(address)
    return region
