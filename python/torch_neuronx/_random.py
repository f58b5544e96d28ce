"""Random number generators: one per device, with a state of 16 bytes (seed, offset)."""

from collections.abc import Iterable

import torch

from . import _C
from ._device import _DeviceLike, _get_device_index


def _generator(device: _DeviceLike) -> torch.Generator:
    return _C.default_generator(_get_device_index(device, optional=True))


def get_rng_state(device: _DeviceLike = "neuron") -> torch.Tensor:
    """State of a device's generator: 16 bytes on the CPU.

    >>> torch.neuron.get_rng_state().shape
    torch.Size([16])
    """
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: _DeviceLike = "neuron") -> None:
    """Sets the state of a device's generator.

    >>> torch.neuron.set_rng_state(torch.neuron.get_rng_state())
    """
    _generator(device).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """States of all devices' generators.

    >>> len(torch.neuron.get_rng_state_all()) == torch.neuron.device_count()
    True
    """
    return [get_rng_state(i) for i in range(_C.device_count())]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Sets the states of all devices' generators.

    >>> torch.neuron.set_rng_state_all(torch.neuron.get_rng_state_all())
    """
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator.

    >>> torch.neuron.manual_seed(3); torch.neuron.initial_seed()
    3
    """
    _generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds all devices' generators; `torch.manual_seed` calls it.

    >>> torch.neuron.manual_seed_all(3)
    """
    for index in range(_C.device_count()):
        _C.default_generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seeds the current device's generator with a random number.

    >>> torch.neuron.seed()
    """
    _generator(None).seed()


def seed_all() -> None:
    """Seeds all devices' generators with one random number.

    >>> torch.neuron.seed_all()
    """
    manual_seed_all(_generator(0).seed())


def initial_seed() -> int:
    """The seed of the current device's generator.

    >>> torch.manual_seed(5) and torch.neuron.initial_seed()
    5
    """
    return _generator(None).initial_seed()
