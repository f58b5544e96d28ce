"""LSTM and GRU: whole layers and cells against CPU, their gradients and their errors."""

import copy

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.utils.rnn import pack_padded_sequence

from device_under_test import DUT, inp

pytestmark = pytest.mark.usefixtures("mode")

LAYERS = [nn.LSTM, nn.GRU]
OPTIONS = [
    {},
    {"bias": False},
    {"batch_first": True, "num_layers": 2},
    {"bidirectional": True},
    {"bidirectional": True, "num_layers": 3, "batch_first": True, "bias": False},
]


def states_of(result):
    """The tensors of a result: the sequence, then the state or states."""
    sequence, states = result
    return [sequence, *(states if isinstance(states, tuple) else (states,))]


def run(net, x, states, weights):
    """Results and gradients of input, states and parameters of a weighted sum."""
    x = x.detach().requires_grad_()
    states = [state.detach().requires_grad_() for state in states]
    given = tuple(states) if len(states) > 1 else states[0]
    results = states_of(net(x, given))
    sum((r * w).sum() for r, w in zip(results, weights, strict=True)).backward()
    leaves = [x, *states, *net.parameters()]
    return results + [leaf.grad for leaf in leaves]


def assert_same(got, want, **tolerance):
    """Both lists hold tensors that agree."""
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one.cpu(), other, **tolerance)


def case_of(layer, options, dtype=torch.float32, length=5):
    """A network on CPU, its input and states, and the weights of its results."""
    net = layer(4, 6, **options).to(dtype)
    sides = (2 if net.bidirectional else 1) * net.num_layers
    x = inp(3, length, 4, dtype=dtype)
    if not net.batch_first:
        x = x.transpose(0, 1)
    count = 2 if layer is nn.LSTM else 1
    states = [inp(sides, 3, 6, dtype=dtype) for _ in range(count)]
    results = states_of(net(x, tuple(states) if count > 1 else states[0]))
    return net, x, states, [inp(*r.shape, dtype=dtype) for r in results]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_layer_agrees_with_cpu(layer, options):
    net, x, states, weights = case_of(layer, options)
    moved = copy.deepcopy(net).to(DUT)
    on_device = [t.to(DUT) for t in (x, *states, *weights)]
    got = run(
        moved, on_device[0], on_device[1 : len(states) + 1], on_device[-len(weights) :]
    )
    assert_same(got, run(net, x, states, weights))


@pytest.mark.parametrize("layer", LAYERS)
def test_one_step_is_a_sequence_too(layer):
    net, x, states, weights = case_of(layer, {}, length=1)
    moved = copy.deepcopy(net).to(DUT)
    on_device = [t.to(DUT) for t in (x, *states, *weights)]
    got = run(
        moved, on_device[0], on_device[1 : len(states) + 1], on_device[-len(weights) :]
    )
    assert_same(got, run(net, x, states, weights))


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_layer_of_16_bit_numbers_is_near_its_float32(layer, dtype):
    net, x, states, _ = case_of(layer, {"num_layers": 2})
    rounded = copy.deepcopy(net).to(dtype)
    x, states = x.to(dtype), [state.to(dtype) for state in states]
    exact = copy.deepcopy(rounded).float()
    floats = [state.float() for state in states]
    want = states_of(exact(x.float(), tuple(floats) if len(floats) > 1 else floats[0]))
    moved = rounded.to(DUT)
    states = [state.to(DUT) for state in states]
    got = states_of(moved(x.to(DUT), tuple(states) if len(states) > 1 else states[0]))
    for one, other in zip(got, want, strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one.cpu().float(), other, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("which", ["sequence", "hn"])
def test_gradient_through_one_result_alone(layer, which):
    net, x, _, _ = case_of(layer, {"num_layers": 2})
    moved = copy.deepcopy(net).to(DUT)
    index = 0 if which == "sequence" else 1
    states_of(net(x))[index].square().sum().backward()
    states_of(moved(x.to(DUT)))[index].square().sum().backward()
    assert_same([p.grad for p in moved.parameters()], [p.grad for p in net.parameters()])


@pytest.mark.parametrize("layer", LAYERS)
def test_gradients_and_gradients_of_gradients_are_slopes(layer):
    net = layer(3, 4, bidirectional=True).double().to(DUT)
    x = inp(3, 2, 3, dtype=torch.float64).to(DUT).requires_grad_()
    assert gradcheck(lambda x: net(x)[0], x)
    assert gradgradcheck(lambda x: net(x)[0], x)


@pytest.mark.parametrize("layer", LAYERS)
def test_frozen_weights_get_no_gradient(layer):
    net, x, _, _ = case_of(layer, {})
    moved = copy.deepcopy(net).to(DUT)
    for one in (net, moved):
        one.weight_hh_l0.requires_grad_(False)
        one.bias_ih_l0.requires_grad_(False)
    net(x)[0].sum().backward()
    moved(x.to(DUT))[0].sum().backward()
    assert moved.weight_hh_l0.grad is None
    assert moved.bias_ih_l0.grad is None
    assert_same(
        [moved.weight_ih_l0.grad, moved.bias_hh_l0.grad],
        [net.weight_ih_l0.grad, net.bias_hh_l0.grad],
    )


@pytest.mark.parametrize("layer", LAYERS)
def test_a_changed_result_is_noticed(layer):
    net, x, _, _ = case_of(layer, {})
    sequence = net.to(DUT)(x.to(DUT))[0]
    sequence.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        sequence.sum().backward()


@pytest.mark.parametrize("layer", LAYERS)
def test_graph_can_be_kept_and_is_freed_otherwise(layer):
    net, x, _, _ = case_of(layer, {})
    net.to(DUT)
    total = net(x.to(DUT))[0].sum()
    total.backward(retain_graph=True)
    once = net.weight_hh_l0.grad.cpu()
    total.backward()
    torch.testing.assert_close(net.weight_hh_l0.grad.cpu(), once * 2)
    with pytest.raises(RuntimeError, match="second time"):
        total.backward()


@pytest.mark.parametrize("layer", LAYERS)
def test_no_grad_and_inference_mode_give_the_same_bits(layer):
    net, x, _, _ = case_of(layer, {"num_layers": 2, "bidirectional": True})
    net.to(DUT)
    x = x.to(DUT)
    want = [r.detach().cpu() for r in states_of(net(x))]
    for context in (torch.no_grad(), torch.inference_mode()):
        with context:
            got = states_of(net(x))
        assert all(torch.equal(a.cpu(), b) for a, b in zip(got, want, strict=True))
        assert all(r.grad_fn is None for r in got)


@pytest.mark.parametrize("layer", LAYERS)
def test_packed_sequences_agree_with_cpu(layer):
    net, x, _, _ = case_of(layer, {"bidirectional": True})
    lengths = torch.tensor([5, 3, 2])
    moved = copy.deepcopy(net).to(DUT)
    want = net(pack_padded_sequence(x, lengths))[0].data
    got = moved(pack_padded_sequence(x.to(DUT), lengths))[0].data
    assert_same([got], [want])


def test_projections_agree_with_cpu():
    net = nn.LSTM(4, 6, proj_size=2, num_layers=2)
    x = inp(5, 3, 4)
    want = states_of(net(x))
    assert_same(states_of(copy.deepcopy(net).to(DUT)(x.to(DUT))), want)


@pytest.mark.parametrize("layer", LAYERS)
def test_unbatched_input_agrees_with_cpu(layer):
    net = layer(4, 6)
    x = inp(5, 4)
    assert_same(states_of(copy.deepcopy(net).to(DUT)(x.to(DUT))), states_of(net(x)))


@pytest.mark.parametrize("layer", LAYERS)
def test_dropout_between_layers_drops_between_layers(layer):
    net = layer(4, 64, num_layers=2, dropout=0.5).to(DUT)
    x = inp(5, 3, 4).to(DUT)
    first, second = net(x)[0].cpu(), net(x)[0].cpu()
    assert not torch.equal(first, second)
    net.eval()
    assert torch.equal(net(x)[0].cpu(), net(x)[0].cpu())


@pytest.mark.parametrize("layer", LAYERS)
def test_empty_batch_gives_empty_results(layer):
    net = layer(4, 6).to(DUT)
    sequence, *states = states_of(net(torch.empty(5, 0, 4, device=DUT)))
    assert sequence.shape == (5, 0, 6)
    assert all(state.shape == (1, 0, 6) for state in states)


@pytest.mark.parametrize("layer", LAYERS)
def test_wrong_sizes_get_pytorchs_error(layer):
    net = layer(4, 6).to(DUT)
    with pytest.raises(RuntimeError, match="input.size"):
        net(torch.empty(5, 3, 7, device=DUT))


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell])
@pytest.mark.parametrize("bias", [True, False])
def test_cell_agrees_with_cpu(cell, bias):
    net = cell(4, 6, bias=bias)
    moved = copy.deepcopy(net).to(DUT)
    x = inp(3, 4)
    results = []
    for one, where in ((net, "cpu"), (moved, DUT)):
        state = None
        for _ in range(4):
            state = one(x.to(where), state)
        last = state[0] if isinstance(state, tuple) else state
        last.square().sum().backward()
        results.append([last, *(p.grad for p in one.parameters())])
    assert_same(results[1], results[0])


def test_cell_says_what_does_not_fit():
    gates = torch.zeros(3, 8, device=DUT)
    with pytest.raises(
        RuntimeError, match=r"hidden_gates has the wrong size: got \[3, 7\]"
    ):
        torch.ops.aten._thnn_fused_lstm_cell(
            gates, torch.zeros(3, 7, device=DUT), torch.zeros(3, 2, device=DUT)
        )
    with pytest.raises(RuntimeError, match="input_gates has another type than the state"):
        torch.ops.aten._thnn_fused_lstm_cell(
            gates.double(), gates, torch.zeros(3, 2, device=DUT)
        )


def test_cell_takes_gradients_that_are_not_contiguous():
    net = nn.GRUCell(4, 6)
    moved = copy.deepcopy(net).to(DUT)
    x, weight = inp(3, 4), inp(6, 3)
    (net(x).t() * weight).sum().backward()
    (moved(x.to(DUT)).t() * weight.to(DUT)).sum().backward()
    assert_same([p.grad for p in moved.parameters()], [p.grad for p in net.parameters()])
