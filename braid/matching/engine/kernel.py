"""How the compiled part of the engine is written: plain functions over flat memory, compiled by numba.

An `entry` is called from Python and kept on disk, so that a machine compiles it once; a `kernel` is part of entries.
numba notices a change of the file an entry stands in, but not of the files it calls. So the compiled code is kept in
a directory named after the sources of this package.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from braid.matching.compiled import cache_directory

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS = {"boundscheck": False, "error_model": "numpy", "nogil": True}
_PART = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # never called from Python, which halves compiling


numba.config.CACHE_DIR = str(cache_directory())


def entry(function: Function) -> Function:
    """Called from Python; integers and arrays of one kind of argument each, so that it is compiled once."""
    compiled: Function = numba.njit(cache=True, **_OPTIONS)(function)
    return compiled


def entry_on_objects(function: Function) -> Function:
    """The same for what touches objects of Python, which nobody else may do meanwhile."""
    compiled: Function = numba.njit(cache=True, **{**_OPTIONS, "nogil": False})(function)
    return compiled


def kernel(function: Function) -> Function:
    compiled: Function = _widened(numba.njit(**_PART, **_OPTIONS)(function))
    return compiled


def small_kernel(function: Function) -> Function:
    """Inlined wherever it is used: for what is done per byte or per candidate."""
    compiled: Function = _widened(numba.njit(forceinline=True, **_PART, **_OPTIONS)(function))
    return compiled


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that generates its instructions itself; it is called without the context."""
    compiled: Callable[..., Any] = extending.intrinsic(function)
    return compiled


def lowering(*shape: Any) -> Callable[[Function], Function]:
    """Generates the instructions of an operator for arguments of this shape."""
    register: Callable[[Function], Function] = extending.lower_builtin(*shape)
    return register


def _widened(compiled: Any) -> Any:
    """Without this, numba compiles a kernel anew for every constant and every width of integer it is called with."""

    def widen(argument: Any) -> Any:
        plain = types.unliteral(argument)
        return types.int64 if isinstance(plain, types.Integer) and plain is not types.uint64 else plain

    def get_call_template(arguments: Any, keywords: Any) -> Any:
        return original(tuple(map(widen, arguments)), keywords)

    original = compiled.get_call_template
    compiled.get_call_template = get_call_template
    return compiled


@intrinsic
def pointer_to(_context: Any, address: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@intrinsic
def load_word(_context: Any, address: Any) -> Any:
    """The eight bytes at any address, aligned or not."""

    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.load(place, align=1)

    return types.uint64(types.int64), generate


@intrinsic
def swap_octets(_context: Any, word: Any) -> Any:
    """The word whose bytes stand in the opposite order."""

    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), generate


@intrinsic
def octet_at(_context: Any, address: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        return builder.zext(builder.load(place), ir.IntType(64))

    return types.int64(types.int64), generate


@intrinsic
def put_octet(_context: Any, address: Any, octet: Any) -> Any:
    def generate(target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        builder.store(builder.trunc(arguments[1], ir.IntType(8)), place)
        return target.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def prefetch(_context: Any, address: Any) -> Any:
    """Asks the processor to fetch what will be needed soon; while it does, other work goes on."""

    def generate(target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte_pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [byte_pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
        place = builder.inttoptr(arguments[0], byte_pointer)
        builder.call(function, [place, number(0), number(3), number(1)])
        return target.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def trailing_zeros(_context: Any, word: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), generate


# The C library reads a number to the nearest float, as Python does.
read_float = types.ExternalFunction("strtod", types.float64(types.voidptr, types.voidptr))
