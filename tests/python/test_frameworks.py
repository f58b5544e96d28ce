"""Frameworks recognise the device by themselves."""

import importlib
import pathlib

import pytest
import torch
from torch import nn

from device_under_test import KIND, only_neuron

pytestmark = only_neuron


def framework(name: str):
    """The framework, or a skip that says how to get it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        pytest.skip(f"for now: {name} is not installed (pip install {name})")


def test_accelerate_finds_neuron():
    framework("accelerate")
    utils = importlib.import_module("accelerate.utils")
    assert utils.is_neuron_available()


def test_accelerator_uses_the_device():
    accelerator = framework("accelerate").Accelerator()
    assert accelerator.device.type == KIND


def test_accelerator_trains():
    accelerator = framework("accelerate").Accelerator()
    torch.manual_seed(0)
    net = nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(net.parameters(), 0.1)
    data = torch.utils.data.TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    losses = []
    for _ in range(5):
        total = 0.0
        for x, y in loader:
            assert x.device.type == KIND
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        losses.append(total)
    assert losses[-1] < losses[0]


def test_accelerator_saves_and_loads_its_state(tmp_path: pathlib.Path):
    accelerator = framework("accelerate").Accelerator()
    net = accelerator.prepare(nn.Linear(4, 1))
    accelerator.save_state(str(tmp_path))
    want = torch.rand(5, device=accelerator.device).cpu()
    with torch.no_grad():
        net.weight.zero_()
    accelerator.load_state(str(tmp_path))
    assert net.weight.abs().sum().item() > 0
    assert torch.equal(torch.rand(5, device=accelerator.device).cpu(), want)


def test_transformers_finds_neuron():
    framework("transformers")
    utils = importlib.import_module("transformers.utils")
    assert utils.is_torch_neuron_available()


def test_transformers_finds_a_neuron_device():
    framework("transformers")
    utils = importlib.import_module("transformers.utils")
    assert utils.is_torch_neuron_available(check_device=True)


def test_training_arguments_use_the_device(tmp_path: pathlib.Path):
    framework("accelerate")
    arguments = framework("transformers").TrainingArguments(output_dir=str(tmp_path))
    assert arguments.device.type == KIND


def test_transformers_model_runs_on_the_device():
    transformers = framework("transformers")
    config = transformers.GPT2Config(
        vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2
    )
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config).eval()
    tokens = torch.arange(8)[None]
    with torch.no_grad():
        want = model(tokens).logits
        got = model.to(KIND)(tokens.to(KIND)).logits
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)


def test_transformers_model_generates_what_cpu_generates():
    transformers = framework("transformers")
    config = transformers.GPT2Config(
        vocab_size=50,
        n_positions=32,
        n_embd=16,
        n_layer=1,
        n_head=2,
        bos_token_id=0,
        eos_token_id=49,
    )
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config).eval()
    tokens = torch.arange(4)[None]
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 49}
    want = model.generate(tokens, **options)
    got = model.to(KIND).generate(tokens.to(KIND), **options)
    assert got.tolist() == want.tolist()
