"""Modules that move: parameters stay the same objects, and keep what is tied tied."""

import pytest
import torch
from torch import nn

from device_under_test import DUT, KIND, inp

pytestmark = pytest.mark.usefixtures("mode")


def test_parameters_are_the_same_objects_after_a_move():
    net = nn.Linear(3, 3)
    before = list(net.parameters())
    net.to(DUT)
    assert all(a is b for a, b in zip(before, net.parameters(), strict=True))
    assert {p.device.type for p in before} == {KIND}


def test_parameters_are_the_same_objects_after_coming_back():
    net = nn.Linear(3, 3).to(DUT)
    before = list(net.parameters())
    net.cpu()
    assert all(a is b for a, b in zip(before, net.parameters(), strict=True))
    assert {p.device.type for p in before} == {"cpu"}


def test_optimizer_made_before_the_move_trains_the_moved_module():
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    net.to(DUT)
    before = net.weight.detach().cpu().clone()
    net(inp(4, 3).to(DUT)).sum().backward()
    optimizer.step()
    assert not torch.equal(net.weight.detach().cpu(), before)


def test_tied_weights_stay_tied_after_a_move():
    a, b = nn.Linear(3, 3), nn.Linear(3, 3)
    b.weight = a.weight
    net = nn.ModuleList([a, b]).to(DUT)
    assert net[0].weight is net[1].weight


def test_gradient_moves_with_its_parameter():
    net = nn.Linear(3, 1)
    net(inp(4, 3)).sum().backward()
    want = net.weight.grad.clone()
    net.to(DUT)
    assert net.weight.grad.device.type == KIND
    assert torch.equal(net.weight.grad.cpu(), want)


def test_move_changes_no_value():
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    want = {key: value.clone() for key, value in net.state_dict().items()}
    net.to(DUT)
    for key, value in net.state_dict().items():
        assert value.device.type == KIND
        assert torch.equal(value.cpu(), want[key])


def test_type_and_device_change_together():
    net = nn.Linear(3, 3).to(DUT, torch.bfloat16)
    assert net.weight.dtype == torch.bfloat16 and net.weight.device.type == KIND


def test_move_after_a_forward_with_a_graph_alive():
    net = nn.Linear(3, 1)
    loss = net(inp(4, 3)).sum()
    net.to(DUT)
    net(inp(4, 3).to(DUT)).sum().backward()
    assert net.weight.grad.device.type == KIND and loss.requires_grad


def test_module_built_under_the_default_device():
    with torch.device(DUT):
        net = nn.Linear(3, 3)
    assert net.weight.device.type == KIND


def test_to_empty_and_load_with_assign():
    want = nn.Linear(3, 3)
    net = nn.Linear(3, 3, device="meta").to_empty(device=DUT)
    net.load_state_dict(want.state_dict())
    assert torch.equal(net.weight.detach().cpu(), want.weight.detach())


def test_weight_norm_and_spectral_norm_move():
    net = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)).to(DUT)
    other = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)).to(DUT)
    y = other(net(inp(2, 3).to(DUT)))
    y.sum().backward()
    assert y.device.type == KIND


def test_rnn_moves_with_its_flat_weights():
    net = nn.LSTM(3, 4, 2)
    want = net(inp(5, 2, 3))[0]
    got = net.to(DUT)(inp(5, 2, 3).to(DUT))[0]
    torch.testing.assert_close(got.cpu(), want)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("is_padded", [False, True])
def test_encoder_in_inference(norm_first, activation, is_padded):
    """PyTorch's fused path for whole layers, with a batch of unequal lengths too."""
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(
        32, 4, 64, batch_first=True, norm_first=norm_first, activation=activation
    )
    encoder = torch.nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(3, 7, 32)
    padding = torch.zeros(3, 7, dtype=torch.bool)
    padding[1, 5:] = is_padded
    mask = padding if is_padded else None
    with torch.inference_mode():
        wanted = encoder(x, src_key_padding_mask=mask)
        encoder.to("neuron")
        mask = padding.to("neuron") if is_padded else None
        ours = encoder(x.to("neuron"), src_key_padding_mask=mask).cpu()
    torch.testing.assert_close(ours[~padding], wanted[~padding])
