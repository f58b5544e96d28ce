"""Saving, copying, printing, and leaving torch for Python and numpy."""

import copy
import pickle

import numpy as np
import pytest
import torch
import torch.nn as nn

from device_under_test import DUT, ON_CPU, both_raise, check, inp, ref, roundtrip, same


@ref("pytorch/pytorch#123072", "pytorch/pytorch#165455")
def test_save_on_device_load_on_cpu_and_back():
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).to(DUT)
    opt = torch.optim.AdamW(net.parameters(), lr=0.1)
    net(inp(5, 4, seed=170).to(DUT)).sum().backward()
    opt.step()
    blob = {
        "net": net.state_dict(),
        "opt": opt.state_dict(),
        "t": torch.arange(5, device=DUT)[1:4],
    }
    there = roundtrip(blob)
    home = roundtrip(blob, map_location="cpu")
    assert (
        there["t"].device.type == torch.device(DUT).type
        and home["t"].device.type == "cpu"
    )
    assert home["t"].tolist() == there["t"].tolist() == [1, 2, 3]
    for k, v in blob["net"].items():
        assert home["net"][k].device.type == "cpu"
        assert torch.equal(home["net"][k], v.to("cpu"))
    net2 = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).to(DUT)
    net2.load_state_dict(home["net"])
    opt2 = torch.optim.AdamW(net2.parameters(), lr=0.1)
    opt2.load_state_dict(home["opt"])
    for n, o in ((net, opt), (net2, opt2)):
        o.zero_grad()
        n(inp(5, 4, seed=171).to(DUT)).pow(2).sum().backward()
        o.step()
    for a, b in zip(net.parameters(), net2.parameters()):
        torch.testing.assert_close(a, b)


@ref("pytorch/pytorch#86557")
def test_deepcopy_and_pickle_of_tensors():
    base = torch.arange(12.0, device=DUT).view(3, 4)
    view = base.t()[1:]
    for twin in (copy.deepcopy(view), pickle.loads(pickle.dumps(view))):
        same(twin, view, device=DUT, strides=True)
    pair = copy.deepcopy([base, base[0]])
    pair[1].fill_(7.0)
    assert pair[0][0].to("cpu").tolist() == [7.0] * 4, "sharing lost"
    assert base[0].to("cpu").tolist() == [0.0, 1.0, 2.0, 3.0]
    leaf = torch.ones(3, device=DUT, requires_grad=True)
    assert copy.deepcopy(leaf).requires_grad and copy.deepcopy(leaf).is_leaf
    par = nn.Parameter(leaf.detach() * 2)
    assert isinstance(copy.deepcopy(par), nn.Parameter)


@ref("pytorch/pytorch#116255")
def test_same_storage_saved_once():
    big = torch.arange(1000.0, device=DUT)
    parts = {"a": big[:10], "b": big[5:15]}
    back = roundtrip(parts)
    back["a"][7] = -1
    assert back["b"][2].item() == -1.0
    assert parts["b"][2].item() == 7.0


@ref("pytorch/pytorch#78001", "pytorch/pytorch#86410", "microsoft/DirectML#242")
def test_printing_matches_cpu_apart_from_the_device():
    def text(t):
        s = " ".join(repr(t).split())  # lines may wrap elsewhere
        for d in (
            f", device='{torch.device(DUT).type}:0'",
            f", device='{torch.device(DUT).type}'",
        ):
            s = s.replace(d, "")
        return s

    xs = [
        torch.ones(3, 3).nonzero(),
        torch.tensor([0, 0.5])[1],
        torch.arange(24.0).view(2, 3, 4).permute(2, 0, 1) / 7,
        torch.tensor([]),
        torch.zeros(0, 3),
        torch.tensor([1e-8, 1.0, 1e8]),
        torch.tensor([float("nan"), float("inf"), 1.0]),
        torch.tensor([True, False]),
        torch.arange(100000).view(100, 1000),
        torch.tensor([1 + 2j, -0.5j]),
        torch.tensor(3, dtype=torch.uint8),
        torch.tensor([0.1], dtype=torch.bfloat16),
        torch.ones(2, requires_grad=True),
    ]
    for x in xs:
        y = x.detach().to(DUT).requires_grad_(x.requires_grad)
        if not ON_CPU:
            assert torch.device(DUT).type in repr(y)
        assert text(y) == text(x)
    assert (
        f"{torch.tensor(2.5, device=DUT):.2f}" == "2.50"
        and f"{torch.tensor(7, device=DUT):04d}" == "0007"
    )


@ref("pytorch/pytorch#78001")
def test_printing_a_huge_tensor_is_cheap_and_summarised():
    x = torch.zeros(3000, 3000, device=DUT)
    x[0, 0] = 1.5
    s = repr(x)
    assert "..." in s and "1.5" in s and len(s) < 2000


@ref("pytorch/pytorch#94980")
def test_python_values():
    def f(dev):
        t = torch.tensor([[1, 2], [3, 4]], device=dev)
        h = torch.tensor([0.1, 2.0], dtype=torch.bfloat16, device=dev)
        return (
            t.tolist(),
            t.t()[1].tolist(),
            h.tolist(),
            t[1, 0].item(),
            torch.tensor(True, device=dev).item(),
            [int(v) for v in t.flatten()],
            len(t),
            list(t.shape),
            t.sum().item() == 10,
            float(h[1]),
            [0, 10, 20, 30, 40][t[0, 1]],
            range(5)[t[1, 1]],
            torch.tensor(1 + 2j, device=dev).item(),
            bool(t.sum() > 9),
        )

    check(f, on_device=False)
    both_raise(lambda dev: bool(torch.tensor([1, 2], device=dev)), RuntimeError)
    both_raise(
        lambda dev: torch.tensor([1, 2], device=dev).item(), (RuntimeError, ValueError)
    )


@ref("pytorch/pytorch#83015")
def test_numpy_bridge():
    t = torch.arange(6.0, device=DUT).view(2, 3).t()
    if ON_CPU:
        assert t.numpy().base is not None
    else:
        with pytest.raises(TypeError):
            t.numpy()
        with pytest.raises(TypeError):
            np.asarray(t)
    a = t.to("cpu").numpy()
    assert a.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    d = torch.tensor(np.linspace(0, 1, 5), device=DUT, dtype=torch.float32)
    assert d.to("cpu").tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert torch.as_tensor([np.float64(1.5), np.float64(2.5)], device=DUT).to(
        "cpu"
    ).tolist() == [1.5, 2.5]
    y = torch.tensor(2.0, device=DUT).to("cpu").numpy() * np.arange(3)
    assert y.tolist() == [0.0, 2.0, 4.0]


@ref("pytorch/pytorch#149222", "pytorch/pytorch#101566")
def test_equality_functions():
    def f(dev):
        a = torch.tensor([1.0, 2.0, float("nan")], device=dev)
        p = torch.tensor([[1], [2]], device=dev)
        return (
            torch.equal(a, a.clone()),
            torch.equal(p, p.clone()),
            torch.equal(p, p.t()),
            torch.allclose(a, a),
            torch.allclose(a, a, equal_nan=True),
            torch.isclose(a, a + 1e-9),
            p.eq(torch.tensor([1, 2], device=dev).view_as(p)).sum().item(),
            torch.isin(p, torch.tensor([2, 9], device=dev)),
            torch.eq(p, p.expand(2, 2)).all(),
        )

    check(f)


@ref("pytorch/pytorch#116255")
def test_modules_and_buffers_move_together():
    net = nn.ModuleDict({"a": nn.Linear(2, 2), "bn": nn.BatchNorm1d(2)})
    net.register_buffer("mask", torch.ones(2, 2).tril(), persistent=False)
    net.to(DUT)
    kinds = {t.device.type for t in list(net.parameters()) + list(net.buffers())}
    assert kinds == {torch.device(DUT).type}
    net.half().float()
    assert net["bn"].num_batches_tracked.dtype == torch.int64
    net.to("cpu")
    assert {t.device.type for t in net.parameters()} == {"cpu"}
    assert sorted(net.state_dict()) == [
        "a.bias",
        "a.weight",
        "bn.bias",
        "bn.num_batches_tracked",
        "bn.running_mean",
        "bn.running_var",
        "bn.weight",
    ]
