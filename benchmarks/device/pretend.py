"""A device in Python, `pretend`: tensors elsewhere, which refuse to meet tensors that are here.

Tensors of this device hold theirs on the CPU, so everything is really computed, and say
that they are elsewhere. What a GPU would refuse is refused: an operation on tensors of both
places, and a look at the memory of one that was not copied back. One process can be given this
device once, and libraries may take it for an accelerator: it is for processes of their own.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _setup_privateuseone_for_python_backend,
)

DEVICE = "pretend:0"
_aten = torch.ops.aten
#: What takes tensors of both places on a GPU too: copies, and indices that are on the CPU.
_COPIES = (_aten.copy_.default, _aten._to_copy.default)
_INDEXING = (_aten.index.Tensor, _aten.index_put_.default, _aten._index_put_impl_.default)


class Elsewhere(torch.Tensor):
    """A tensor of the second device."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held):
        elsewhere = torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device(DEVICE),
        )
        elsewhere.held = held
        return elsewhere

    def __repr__(self, *, tensor_contents=None):
        return f"Elsewhere({self.held!r})"

    def tolist(self):
        return self.held.tolist()  # a copy back, as on a GPU

    def numpy(self, *, force=False):
        raise TypeError("can't convert a tensor that is elsewhere to numpy; copy it first")

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # a class method, as torch wants it
        cls, function, types, args=(), kwargs=None
    ):
        return computed(function, args, kwargs or {})


def is_elsewhere(device):
    return torch.device(device).type == torch.device(DEVICE).type


def here(value):
    """Return what stands for a value on the CPU."""
    if isinstance(value, Elsewhere):
        return value.held
    return torch.device("cpu") if isinstance(value, torch.device) and is_elsewhere(value) else value


def computed(function, args, kwargs):
    """Carry out one operation, unless it mixes places."""
    tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
    there = [one for one in tensors if isinstance(one, Elsewhere)]
    others = [one for one in tensors if not isinstance(one, Elsewhere) and one.ndim]
    indexing = function in _INDEXING and isinstance(args[0], Elsewhere)
    if there and others and function not in _COPIES and not indexing:
        raise RuntimeError(f"{function} was given tensors of two devices")
    known = {id(one.held): one for one in there}
    result = function(*tree_map(here, args), **tree_map(here, kwargs))
    if kwargs.get("device") is not None:
        away = is_elsewhere(kwargs["device"])
    else:
        away = isinstance(args[0], Elsewhere) if function in _COPIES else bool(there)

    def placed(value):
        if not (away and isinstance(value, torch.Tensor)):
            return value
        return known[id(value)] if id(value) in known else Elsewhere(value)

    return tree_map(placed, result)


class SecondDevice(TorchDispatchMode):
    """While it lasts, tensors can be made on the second device."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return computed(function, args, kwargs or {})

    def __enter__(self):
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device=) is seen here
        return super().__enter__()

    def __exit__(self, *raised):
        torch._C._set_only_lift_cpu_tensors(False)
        return super().__exit__(*raised)


class _Module(_DummyBackendModule):
    """What torch asks of a device; checkpointing asks what autocast could use."""

    def get_amp_supported_dtype(self):
        return [torch.bfloat16]


def register():
    """Give this process the device."""
    _setup_privateuseone_for_python_backend("pretend", _Module())
