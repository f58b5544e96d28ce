"""Makes torch know the device: version check, extension, names, module and patches."""

import torch

_TORCH = "2.13"  # there is no C++ ABI promise between minor versions
if not torch.__version__.startswith(_TORCH + "."):
    raise ImportError(
        f"[torch_neuronx] built for another PyTorch: got {torch.__version__}, "
        f"expected {_TORCH}.*; install torch=={_TORCH}.0"
    )

from . import _patches, neuron  # noqa: E402  (the extension must not be loaded before)

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
