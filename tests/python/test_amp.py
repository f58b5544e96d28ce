"""Autocast on the device: cast lists, nesting, caching, and the gradient scaler."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from device_under_test import DUT, KIND, inp

pytestmark = pytest.mark.usefixtures("mode")

LOW = torch.bfloat16


def pair(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two float32 tensors on the device."""
    return inp(*shape, seed=1).to(DUT), inp(*shape, seed=2).to(DUT)


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: a @ b,
        lambda a, b: torch.mm(a, b),
        lambda a, b: torch.addmm(a, a, b),
        lambda a, b: torch.bmm(a[None], b[None]),
        lambda a, b: F.linear(a, b),
        lambda a, b: torch.einsum("ij,jk->ik", a, b),
        lambda a, b: F.conv1d(a[None], b[:, :, None]),
        lambda a, b: F.scaled_dot_product_attention(a[None], b[None], b[None]),
    ],
)
def test_products_run_in_the_lower_type(call):
    a, b = pair(8, 8)
    with torch.autocast(KIND, dtype=LOW):
        assert call(a, b).dtype == LOW


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.softmax(-1),
        lambda x: x.log_softmax(-1),
        lambda x: F.layer_norm(x, (8,)),
        lambda x: F.mse_loss(x, x),
        lambda x: F.cross_entropy(x, torch.arange(8, device=x.device)),
        lambda x: x.sum(),
        lambda x: x.cumsum(0),
        lambda x: x.exp(),
        lambda x: x.abs().log1p(),
        lambda x: x.norm(),
    ],
)
def test_sensitive_ops_run_in_float32_on_neuron(call):
    if KIND == "cpu":
        pytest.skip("for ever: CPU's cast lists are not the accelerators'")
    x = inp(8, 8).to(DUT).to(LOW)
    with torch.autocast(KIND, dtype=LOW):
        assert call(x).dtype == torch.float32


def test_pointwise_ops_keep_their_type():
    a, b = pair(4, 4)
    with torch.autocast(KIND, dtype=LOW):
        assert (a + b).dtype == torch.float32
        assert (a.to(LOW) + b.to(LOW)).dtype == LOW


def test_mixed_types_promote_to_the_widest():
    a, b = pair(4, 4)
    with torch.autocast(KIND, dtype=LOW):
        assert torch.cat([a.to(LOW), b]).dtype == torch.float32


def test_float64_is_left_alone():
    a, b = pair(4, 4)
    with torch.autocast(KIND, dtype=LOW):
        assert (a.double() @ b.double()).dtype == torch.float64


def test_float16_is_supported():
    a, b = pair(4, 4)
    with torch.autocast(KIND, dtype=torch.float16):
        assert (a @ b).dtype == torch.float16


def test_default_type_is_a_half_type():
    a, b = pair(4, 4)
    with torch.autocast(KIND):
        assert (a @ b).dtype in (torch.bfloat16, torch.float16)


def test_disabled_inside_enabled():
    a, b = pair(4, 4)
    with torch.autocast(KIND, dtype=LOW), torch.autocast(KIND, enabled=False):
        assert (a @ b).dtype == torch.float32


def test_state_is_restored_after_an_exception():
    with pytest.raises(ZeroDivisionError), torch.autocast(KIND, dtype=LOW):
        raise ZeroDivisionError
    assert not torch.is_autocast_enabled(KIND)


def test_binary_cross_entropy_is_refused():
    if KIND == "cpu":
        pytest.skip("for ever: CPU's cast lists are not the accelerators'")
    x = torch.full((4,), 0.5, device=DUT)
    with torch.autocast(KIND, dtype=LOW), pytest.raises(RuntimeError, match="unsafe"):
        F.binary_cross_entropy(x, x)


def test_gradients_have_the_type_of_their_parameters():
    net = nn.Linear(4, 4).to(DUT)
    with torch.autocast(KIND, dtype=LOW):
        loss = net(inp(2, 4).to(DUT)).float().sum()
    loss.backward()
    assert net.weight.grad.dtype == torch.float32


def test_weight_is_cast_once_for_two_uses():
    net = nn.Linear(4, 4).to(DUT)
    x = inp(2, 4).to(DUT)
    with torch.autocast(KIND, dtype=LOW):
        (net(x) + net(x)).float().sum().backward()
    whole = net.weight.grad.clone()
    net.weight.grad = None
    with torch.autocast(KIND, dtype=LOW, cache_enabled=False):
        (net(x) + net(x)).float().sum().backward()
    torch.testing.assert_close(whole, net.weight.grad, rtol=2e-2, atol=2e-2)


def test_forward_agrees_with_lower_type_by_hand():
    a, b = pair(8, 8)
    with torch.autocast(KIND, dtype=LOW):
        got = a @ b
    assert torch.equal(got.cpu(), (a.to(LOW) @ b.to(LOW)).cpu())


def test_custom_function_casts_its_inputs():
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type=KIND, cast_inputs=torch.float32)
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @torch.amp.custom_bwd(device_type=KIND)
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            return grad @ b.mT, a.mT @ grad

    a, b = pair(4, 4)
    a.requires_grad_()
    with torch.autocast(KIND, dtype=LOW):
        y = Product.apply(a, b)
    y.sum().backward()
    assert y.dtype == a.grad.dtype == torch.float32


def scaler(**how: float) -> torch.amp.GradScaler:
    """A scaler of the device."""
    return torch.amp.GradScaler(KIND, **how)


def test_scaler_scales_and_unscales():
    p = torch.ones(3, device=DUT, requires_grad=True)
    optimizer = torch.optim.SGD([p], 1.0)
    s = scaler(init_scale=8.0)
    s.scale(p.sum()).backward()
    assert p.grad.tolist() == [8.0] * 3
    s.unscale_(optimizer)
    assert p.grad.tolist() == [1.0] * 3


def test_scaler_skips_a_step_and_backs_off_on_infinity():
    p = torch.ones(3, device=DUT, requires_grad=True)
    optimizer = torch.optim.SGD([p], 1.0)
    s = scaler(init_scale=8.0)
    s.scale((p * float("inf")).sum()).backward()
    s.step(optimizer)
    s.update()
    assert p.tolist() == [1.0] * 3
    assert s.get_scale() == 4.0


def test_scaler_grows_after_good_steps():
    p = torch.ones(3, device=DUT, requires_grad=True)
    optimizer = torch.optim.SGD([p], 0.1)
    s = scaler(init_scale=2.0, growth_interval=2)
    for _ in range(2):
        optimizer.zero_grad()
        s.scale(p.sum()).backward()
        s.step(optimizer)
        s.update()
    assert s.get_scale() == 4.0


def test_scaler_state_roundtrip():
    s = scaler(init_scale=16.0)
    other = scaler(init_scale=2.0)
    other.load_state_dict(s.state_dict())
    assert other.get_scale() == 16.0


def test_unscale_twice_is_refused():
    p = torch.ones(3, device=DUT, requires_grad=True)
    optimizer = torch.optim.SGD([p], 0.1)
    s = scaler(init_scale=2.0)
    s.scale(p.sum()).backward()
    s.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="unscale_"):
        s.unscale_(optimizer)


def test_training_under_autocast_learns():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to(DUT)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    s = scaler(init_scale=256.0)
    x, y = inp(32, 8, seed=3).to(DUT), inp(32, 1, seed=4).to(DUT)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        with torch.autocast(KIND, dtype=LOW):
            loss = F.mse_loss(net(x), y.to(LOW))
        s.scale(loss).backward()
        s.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        s.step(optimizer)
        s.update()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
