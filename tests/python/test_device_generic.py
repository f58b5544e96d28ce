"""Device-generic tests in PyTorch's own style: creation, views, types, indexing."""

import torch
from torch.testing import make_tensor
from torch.testing._internal.common_device_type import (
    dtypes,
    instantiate_device_type_tests,
    onlyNativeDeviceTypes,
)

from comparison import Comparison
from device_under_test import KIND

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class TestCreation(Comparison):
    """Factories put what was asked for where it was asked for."""

    @dtypes(*FLOATS, *INTS, torch.bool, torch.complex64)
    def test_factories(self, device, dtype):
        for make in (torch.zeros, torch.ones, torch.empty):
            tensor = make(2, 3, dtype=dtype, device=device)
            self.assertEqual(tensor.device.type, torch.device(device).type)
            self.assertEqual(tensor.dtype, dtype)
            self.assertEqual(tensor.shape, (2, 3))

    @dtypes(*FLOATS, *INTS)
    def test_ranges(self, device, dtype):
        def case(where):
            return (
                torch.arange(1, 9, 2, dtype=dtype, device=where),
                torch.linspace(0, 12, 5, device=where).to(dtype),
                torch.full((3,), 7, dtype=dtype, device=where),
                torch.eye(3, 4, dtype=dtype, device=where),
                torch.tril_indices(3, 3, device=where),
            )

        self.compare(case, device)

    def test_like_factories_follow_their_tensor(self, device):
        x = torch.empty(2, 3, device=device, dtype=torch.float64).t()
        for make in (torch.zeros_like, torch.ones_like, torch.rand_like):
            y = make(x)
            self.assertEqual(y.device, x.device)
            self.assertEqual(y.stride(), x.stride())
        self.assertEqual(x.new_zeros(3).device, x.device)
        self.assertEqual(x.new_tensor([1]).dtype, torch.float64)

    def test_default_device(self, device):
        with torch.device(device):
            x = torch.ones(2) + torch.tensor([1.0, 2.0])
        self.assertEqual(x.device.type, torch.device(device).type)
        self.assertEqual(x.cpu(), torch.tensor([2.0, 3.0]))

    @onlyNativeDeviceTypes
    def test_meta_and_back(self, device):
        net = torch.nn.Linear(2, 2, device="meta").to_empty(device=device)
        with torch.no_grad():
            net.weight.fill_(1)
        self.assertEqual(net.weight.sum().item(), 4.0)


class TestViews(Comparison):
    """Views share storage; copies do not."""

    def views(self, base: torch.Tensor) -> list[torch.Tensor]:
        """Every kind of view of a (2, 3, 4) tensor."""
        return [
            base[1],
            base[:, 1:],
            base[..., ::2],
            base.view(6, 4),
            base.view(-1),
            base.reshape(4, 6),
            base.transpose(0, 2),
            base.permute(2, 0, 1),
            base.unsqueeze(0),
            base.select(1, 2),
            base.narrow(2, 1, 2),
            base.expand(5, 2, 3, 4),
            base.unfold(2, 2, 1),
            base.diagonal(0, 0, 1),
            base.as_strided((2, 2), (1, 3), 4),
            base.movedim(0, 1),
            base.squeeze(),
            base.mT,
            base.unbind(1)[0],
            base.split(2, 2)[1],
            base.tensor_split(3, 1)[2],
            base.swapaxes(0, 1),
            base.flatten(1),
            base.unflatten(2, (2, 2)),
            base.detach(),
            base.view_as(base),
            base.alias() if hasattr(base, "alias") else base,
            torch.view_as_complex(base.view(2, 3, 2, 2)),
            base.view(torch.int32),
        ]

    def test_view_shares_storage(self, device):
        base = torch.arange(24.0, device=device).view(2, 3, 4)
        pointer = base.untyped_storage().data_ptr()
        for i, view in enumerate(self.views(base)):
            self.assertEqual(view.untyped_storage().data_ptr(), pointer, msg=str(i))

    def test_view_has_cpus_geometry(self, device):
        mine = self.views(torch.arange(24.0, device=device).view(2, 3, 4))
        cpus = self.views(torch.arange(24.0).view(2, 3, 4))
        for i, (one, other) in enumerate(zip(mine, cpus, strict=True)):
            self.assertEqual(one.stride(), other.stride(), msg=str(i))
            self.assertEqual(one.storage_offset(), other.storage_offset(), msg=str(i))

    def test_write_through_every_view_reaches_the_base(self, device):
        for i in range(len(self.views(torch.zeros(2, 3, 4)))):

            def case(where, i=i):
                base = torch.arange(24.0, device=where).view(2, 3, 4)
                view = self.views(base)[i]
                if i == 11:  # expanded: not writable
                    view = view[0]
                view.fill_(5)
                return base

            self.compare(case, device)

    def test_read_through_every_view_sees_a_write_to_the_base(self, device):
        def case(where):
            base = torch.arange(24.0, device=where).view(2, 3, 4)
            views = self.views(base)
            base.mul_(2)
            return [v.clone() for v in views]

        self.compare(case, device)

    def test_storage_surgery(self, device):
        def case(where):
            x, y = torch.arange(6.0, device=where), torch.ones(3, device=where)
            y.set_(x.untyped_storage(), 1, (2, 2), (2, 1))
            y.add_(1)
            z = torch.empty(0, device=where)
            z.resize_(2, 2).fill_(3)
            w = torch.zeros(3, device=where)
            torch.utils.swap_tensors(w, z)
            return x, y, z, w, y.is_set_to(y.view(2, 2)), x.is_set_to(y)

        self.compare(case, device)

    def test_data_assignment(self, device):
        def case(where):
            x = torch.zeros(3, device=where)
            view = x[1:]
            x.data = torch.ones(3, device=where)
            x.add_(1)
            return x, view

        self.compare(case, device)


class TestPromotion(Comparison):
    """Result types of pairs of element types are CPU's."""

    @dtypes(*FLOATS, *INTS, torch.bool, torch.complex64)
    def test_pairs(self, device, dtype):
        for other in (*FLOATS, *INTS, torch.bool, torch.complex64):

            def case(where, other=other):
                generator = torch.Generator().manual_seed(1)
                a, b = (
                    torch.randint(0, 3, (5,), generator=generator).to(t).to(where)
                    for t in (dtype, other)
                )
                return a + b, a * b, a == b, torch.where(a == b, a, b), a * 2, b + 0.5

            self.compare(case, device)

    def test_zero_dim_tensors_do_not_promote(self, device):
        def case(where):
            low = torch.ones(3, dtype=torch.bfloat16, device=where)
            return low * torch.tensor(2.5, device=where), low + torch.tensor(2.5)

        self.compare(case, device)


class TestSorting(Comparison):
    """Sorting, searching and positions."""

    @dtypes(torch.float32, torch.bfloat16, torch.int64, torch.uint8)
    def test_sorting(self, device, dtype):
        x = make_tensor((7, 11), dtype=dtype, device="cpu", low=0, high=90)

        def case(where):
            y = x.to(where)
            return (
                torch.sort(y, stable=True),
                torch.sort(y, 0, descending=True).values,
                y.topk(3).values,
                y.kthvalue(2).values,
                y.unique(),
                y.argmax(),
                y.max(0).values,
                y.median(1).values,
                torch.searchsorted(y[0].sort().values, y[1]),
            )

        self.compare(case, device)


class TestIndexing(Comparison):
    """Advanced indexing, reading and writing."""

    @dtypes(torch.float32, torch.int32, torch.bool, torch.float16)
    def test_indexing(self, device, dtype):
        x = make_tensor((5, 6, 4), dtype=dtype, device="cpu")

        def case(where):
            y = x.to(where, copy=True)
            rows = torch.tensor([3, 0, 2], device=where)
            mask = torch.tensor([True, False, True, False, True], device=where)
            found = [y[rows], y[:, rows], y[rows, rows], y[mask], y[..., rows[:2]]]
            found += [y[rows[:, None], rows], y[None, mask, 1], y[-1], y[1:4, ::2, None]]
            y[rows] = y[:3].clone()
            y[mask] = True
            y[rows, rows] = y[0, 0, 0].clone()
            return found, y

        self.compare(case, device)


for _class in (TestCreation, TestViews, TestPromotion, TestSorting, TestIndexing):
    instantiate_device_type_tests(_class, globals(), only_for=(KIND,))


def test_device_classes_were_instantiated() -> None:
    """PyTorch found the device: without it the classes above would vanish quietly."""
    made = [name for name in globals() if name.startswith("TestViews")]
    assert len(made) == 1 and made[0] != "TestViews"
