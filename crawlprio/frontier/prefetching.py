"""A hint to the processor that a row of an array will be read soon, for compiled code.

It knows arrays; nothing here knows what is in them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _prefetch(typing_context: Any, array: Any, row: Any) -> Any:
    """What numba makes of a call."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type = signature.args[0]
        rows = context.make_array(array_type)(context, builder, arguments[0])
        address = cgutils.get_item_pointer(  # type: ignore[no-untyped-call]
            context, builder, array_type, rows, [arguments[1]], wraparound=True
        )
        address = builder.bitcast(address, cgutils.voidptr_t)
        number = cgutils.int32_t
        called = builder.module.declare_intrinsic(
            "llvm.prefetch",
            [cgutils.voidptr_t],
            ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number]),
        )
        to_read, keep_in_all_caches, of_values = number(0), number(3), number(1)
        builder.call(called, [address, to_read, keep_in_all_caches, of_values])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


prefetch: Any = intrinsic(_prefetch)
"""Have a row of a one-dimensional array on its way into the cache; nothing waits for it.

A row below 0 counts from the end."""
