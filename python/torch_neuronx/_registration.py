"""Makes torch know the device: version check, extension, names, module and patches."""

import torch

_TORCH = "2.13"  # there is no C++ ABI promise between minor versions
if not torch.__version__.startswith(_TORCH + "."):
    raise ImportError(
        f"[torch_neuronx] built for another PyTorch: got {torch.__version__}, "
        f"expected {_TORCH}.*; install torch=={_TORCH}.0"
    )

from . import (  # noqa: E402  (the extension must not be loaded before)
    _C,
    _bisect,
    _log,
    _patches,
    neuron,
)

_QUANTIZED = [torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4]


def register() -> None:
    """Registers device name, module, methods and patches; twice is as good as once.

    >>> register(); torch.get_device_module("neuron").__name__
    'torch_neuronx.neuron'
    """
    if getattr(torch, "neuron", None) is neuron:
        return
    torch.utils.rename_privateuse1_backend("neuron")
    torch._register_device_module("neuron", neuron)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_storage=True, unsupported_dtype=_QUANTIZED
    )
    _patches.apply()


def apply_knobs() -> list[str]:
    """Switches on what the environment asks of Python; returns what was wrong with it.

    >>> apply_knobs()
    []
    """
    values = {row[0]: row[2] for row in _C.knobs()}
    wrong = []
    for set_knob, value in (
        (_log.set_log, values["log"]),
        (_bisect.set_denied_ops, values["deny_ops"]),
    ):
        try:
            if value:
                set_knob(value)
        except ValueError as error:
            wrong.append(str(error).splitlines()[0])
    return wrong
