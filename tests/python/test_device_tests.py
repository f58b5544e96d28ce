"""PyTorch's own databases of modules, optimizers and foreach ops, on the device.

Each test runs in plain and in adaptive eager, compares both bit for bit, and with CPU to
a tolerance.
"""

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.testing._internal.common_device_type import (
    instantiate_device_type_tests,
    ops,
)
from torch.testing._internal.common_methods_invocations import (
    foreach_binary_op_db,
    foreach_other_op_db,
    foreach_pointwise_op_db,
    foreach_reduce_op_db,
    foreach_unary_op_db,
)
from torch.testing._internal.common_modules import module_db, modules
from torch.testing._internal.common_optimizers import (
    _get_optim_inputs_including_global_cliquey_kwargs,
    optim_db,
    optims,
)
from torch.utils._pytree import tree_leaves

from comparison import Comparison, moved
from device_under_test import KIND

#: Steps of an optimizer: more than the warm-ups and periods of all of them.
OPTIMIZER_STEPS = 6

#: Inputs looked at of a module: most have fewer, LinearCrossEntropyLoss has hundreds.
MODULE_INPUTS = 24

#: Samples looked at of a foreach op; each takes lists of some twenty tensors.
FOREACH_SAMPLES = 6

FOREACH_DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.complex64)

FOREACH_DB = [
    *foreach_unary_op_db,
    *foreach_binary_op_db,
    *foreach_pointwise_op_db,
    *foreach_reduce_op_db,
    *foreach_other_op_db,
]


def run_module(net: torch.nn.Module, given: Any, device: str) -> Any:
    """Output, gradients of inputs and parameters, and state afterwards."""
    twin = copy.deepcopy(net).to(device)
    args, kwargs = moved((given.args, given.kwargs), device)
    output = twin(*args, **kwargs)
    wanting = [
        t for t in tree_leaves(output) if isinstance(t, torch.Tensor) and t.requires_grad
    ]
    if wanting:
        sum((t * t).sum() for t in wanting).backward()
    leaves = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    gradients = [t.grad for t in leaves if t.is_leaf]
    gradients += [p.grad for p in twin.parameters()]
    return output, gradients, list(twin.buffers())


class TestModules(Comparison):
    """Every module of torch.nn: forward, backward, and buffers after it."""

    @modules(module_db, allowed_dtypes=(torch.float32, torch.bfloat16))
    def test_module(self, device, dtype, module_info, training):
        inputs = module_info.module_inputs_func(
            module_info, device="cpu", dtype=dtype, requires_grad=True, training=training
        )
        for module_input in inputs[:: max(1, len(inputs) // MODULE_INPUTS)]:
            if module_input.forward_input is None:
                continue
            made = module_input.constructor_input
            torch.manual_seed(1)
            net = module_info.module_cls(*made.args, **made.kwargs).to(dtype)
            net.train(training)
            given = module_input.forward_input
            try:
                net(*moved(given.args, "cpu"), **moved(given.kwargs, "cpu"))
            except (RuntimeError, NotImplementedError) as error:
                if "not implemented for" in str(error):
                    self.skipTest(f"for ever: CPU has no {dtype} kernel here: {error}")
                raise
            self.compare(lambda d: run_module(net, given, d), device)  # noqa: B023


def run_optimizer(optim_info: Any, kwargs: dict, dtype: torch.dtype, device: str):
    """Parameters and optimizer state after some steps."""
    generator = torch.Generator().manual_seed(3)
    parameters = [
        torch.randn(shape, generator=generator, dtype=dtype).to(device).requires_grad_()
        for shape in ((4, 3), (5,), (2, 2))
    ]
    if optim_info.optim_cls.__name__ == "Muon":
        parameters = [p for p in parameters if p.dim() == 2]
    optimizer = optim_info.optim_cls(parameters, **copy.deepcopy(kwargs))

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = sum((p.tanh() ** 2).sum() + p.sum() * 0.1 for p in parameters)
        loss.backward()
        return loss

    losses = []
    for _ in range(OPTIMIZER_STEPS):
        if optim_info.step_requires_closure:
            losses.append(optimizer.step(closure))
        else:
            losses.append(closure())
            optimizer.step()
    state = optimizer.state_dict()["state"]
    tensors = [t for t in tree_leaves(state) if isinstance(t, torch.Tensor)]
    return parameters, losses, tensors


class TestOptimizers(Comparison):
    """Every optimizer in every configuration, foreach and fused ones included."""

    @optims(optim_db, dtypes=[torch.float32])
    def test_optimizer(self, device, dtype, optim_info):
        if optim_info.only_supports_sparse_grads:
            self.skipTest("for ever: wants sparse gradients, the device has none")
        configurations = _get_optim_inputs_including_global_cliquey_kwargs(
            "cpu", dtype, optim_info, skip=("differentiable",)
        )
        chosen = [(c.desc, c.kwargs) for c in configurations]
        if "foreach" in optim_info.supported_impls:
            chosen += [
                (f"{desc} & foreach", {**kwargs, "foreach": True})
                for desc, kwargs in chosen
                if "fused" not in kwargs
            ]
        if optim_info.optim_cls.__name__ == "LBFGS":
            # It divides by differences of gradients: the rounding of float32 decides
            # where it goes, on the CPU as well.
            dtype = torch.float64
        for desc, kwargs in chosen:
            with self.subTest(desc):
                self.compare(
                    lambda d, k=kwargs: run_optimizer(optim_info, k, dtype, d),
                    device,
                )


class TestForeach(Comparison):
    """Every foreach op, out of place and in place."""

    @ops(FOREACH_DB, allowed_dtypes=FOREACH_DTYPES)
    def test_foreach(self, device, dtype, op):
        checked = 0
        for inplace in (False, True):
            function = op.inplace_variant if inplace else op.method_variant
            if function is None:
                continue
            for noncontiguous in (False, True):
                torch.manual_seed(2)
                samples = list(
                    op.sample_inputs(
                        "cpu",
                        dtype,
                        noncontiguous=noncontiguous,
                        allow_higher_dtype_scalars=True,
                    )
                )
                step = max(1, len(samples) // FOREACH_SAMPLES)
                for sample in samples[::step]:
                    checked += self.check_sample(function, sample, device, inplace)
        if not checked:
            self.skipTest(f"for ever: CPU has no {dtype} kernel here")

    def check_sample(
        self, function: Callable, sample: Any, device: str, inplace: bool
    ) -> bool:
        """Compares one sample; whether CPU has an answer for it."""

        def case(where: str) -> Any:
            lists = moved(sample.input, where)
            kwargs = moved(dict(sample.kwargs), where)
            kwargs.pop("disable_fastpath", None)
            result = function(lists, *moved(sample.args, where), **kwargs)
            return lists if inplace else result

        with contextlib.suppress(RuntimeError, NotImplementedError, TypeError):
            case("cpu")
            self.compare(case, device)
            return True
        return False


for _class in (TestModules, TestOptimizers, TestForeach):
    instantiate_device_type_tests(_class, globals(), only_for=(KIND,))
