"""Saving, loading, pickling, copying, and exchange by DLPack."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from device_under_test import DUT, KIND, inp, only_neuron, roundtrip

pytestmark = pytest.mark.usefixtures("mode")


def pending() -> torch.Tensor:
    """A tensor on the device whose value nobody has asked for yet."""
    return torch.arange(12.0, device=DUT).view(3, 4) * 2 + 1


WANT = torch.arange(12.0).view(3, 4) * 2 + 1


def test_save_and_load_keep_the_device():
    back = roundtrip(pending())
    assert back.device.type == KIND
    assert torch.equal(back.cpu(), WANT)


@pytest.mark.parametrize(
    "location", ["cpu", torch.device("cpu"), {DUT: "cpu", f"{DUT}:0": "cpu"}]
)
def test_map_location_to_cpu(location):
    back = roundtrip(pending(), map_location=location)
    assert back.device.type == "cpu"
    assert torch.equal(back, WANT)


def test_map_location_by_function():
    back = roundtrip(pending(), map_location=lambda storage, location: storage)
    assert torch.equal(back.cpu(), WANT)


@pytest.mark.parametrize("location", [DUT, torch.device(DUT)])
def test_map_location_from_cpu_to_the_device(location):
    back = roundtrip(WANT, map_location=location)
    assert back.device.type == KIND
    assert torch.equal(back.cpu(), WANT)


@only_neuron
def test_load_to_a_device_that_is_not_there_is_refused():
    with pytest.raises(RuntimeError):
        roundtrip(pending(), map_location=f"{KIND}:99")


def test_weights_only_false_and_true_agree():
    for weights_only in (False, True):
        back = roundtrip({"a": pending()}, weights_only=weights_only)
        assert torch.equal(back["a"].cpu(), WANT)


def test_load_with_mmap(tmp_path):
    path = tmp_path / "tensor.pt"
    torch.save(pending(), path)
    back = torch.load(path, map_location="cpu", mmap=True)
    assert torch.equal(back, WANT)


def test_shared_storage_stays_shared_after_load():
    base = pending()
    pair = roundtrip([base, base[1:]])
    pair[0].zero_()
    assert pair[1].sum().item() == 0.0


def test_saved_value_is_of_the_time_of_saving():
    x = pending()
    buffer = io.BytesIO()
    torch.save(x, buffer)
    x.zero_()
    buffer.seek(0)
    assert torch.equal(torch.load(buffer).cpu(), WANT)


def test_pickle_keeps_device_strides_and_flags():
    x = pending().t().requires_grad_()
    back = pickle.loads(pickle.dumps(x))
    assert back.device.type == KIND
    assert back.stride() == x.stride()
    assert back.requires_grad
    assert torch.equal(back.detach().cpu(), WANT.t())


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bfloat16,
        torch.float16,
        torch.float64,
        torch.int8,
        torch.bool,
        torch.complex64,
        torch.float8_e4m3fn,
    ],
)
def test_every_kind_of_element_survives_saving(dtype):
    x = inp(5, 3, dtype=torch.float32).to(dtype)
    back = roundtrip(x.to(DUT)).cpu()
    assert back.dtype == dtype
    assert torch.equal(back.view(torch.uint8), x.view(torch.uint8))


def test_deepcopy_is_independent():
    x = pending()
    twin = copy.deepcopy(x)
    x.zero_()
    assert torch.equal(twin.cpu(), WANT)


def test_deepcopy_of_a_parameter_is_a_parameter():
    p = nn.Parameter(pending())
    twin = copy.deepcopy(p)
    assert isinstance(twin, nn.Parameter) and twin.device.type == KIND


def test_deepcopy_of_a_module_keeps_tied_weights_tied():
    a, b = nn.Linear(3, 3), nn.Linear(3, 3)
    b.weight = a.weight
    twin = copy.deepcopy(nn.ModuleList([a, b]).to(DUT))
    assert twin[0].weight is twin[1].weight


def test_state_dict_roundtrip_trains_on_alike():
    def train(net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        for _ in range(3):
            optimizer.zero_grad()
            net(inp(4, 3, seed=2).to(DUT)).square().mean().backward()
            optimizer.step()

    def make() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 3), nn.Tanh()).to(DUT)
        return net, torch.optim.Adam(net.parameters(), 1e-2)

    net, optimizer = make()
    train(net, optimizer)
    saved = roundtrip({"net": net.state_dict(), "optimizer": optimizer.state_dict()})
    train(net, optimizer)
    other, other_optimizer = make()
    other.load_state_dict(saved["net"])
    other_optimizer.load_state_dict(saved["optimizer"])
    train(other, other_optimizer)
    for one, two in zip(net.parameters(), other.parameters(), strict=True):
        assert torch.equal(one.cpu(), two.cpu())


def test_dlpack_shares_memory():
    x = pending()
    y = torch.from_dlpack(x)
    assert y.device == x.device
    assert y.data_ptr() == x.data_ptr()
    y.add_(1)
    assert torch.equal(x.cpu(), WANT + 1)
    x.mul_(2)
    assert torch.equal(y.cpu(), (WANT + 1) * 2)


def test_dlpack_capsule_goes_both_ways():
    x = pending()
    y = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    assert torch.equal(y.cpu(), WANT)


def test_dlpack_alias_outlives_its_source():
    x = pending()
    y = torch.from_dlpack(x)
    del x
    filler = [torch.full((3, 4), -1.0, device=DUT) for _ in range(8)]
    assert torch.equal(y.cpu(), WANT) and filler


def test_dlpack_of_a_strided_view():
    y = torch.from_dlpack(pending().t()[1:])
    assert torch.equal(y.cpu(), WANT.t()[1:])


@only_neuron
def test_dlpack_device_is_an_extension_device():
    kind, index = pending().__dlpack_device__()
    assert int(kind) == 12  # kDLExtDev
    assert index == 0


def test_dlpack_device_of_cpu_tensors_is_unchanged():
    assert torch.ones(2).__dlpack_device__() == (1, 0)


@only_neuron
def test_numpy_is_refused_with_advice():
    with pytest.raises(TypeError, match="cpu"):
        pending().numpy()
