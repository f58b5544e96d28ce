"""Memory statistics, the cache, pinned memory, and running out of memory."""

import gc

import pytest
import torch

from device_under_test import DUT, only_neuron, run_script

pytestmark = [only_neuron, pytest.mark.usefixtures("mode")]

MIB = 2**20


@pytest.fixture(autouse=True)
def _settled():
    """Starts every test with no work pending and no garbage."""
    gc.collect()
    torch.neuron.synchronize()


def test_allocated_grows_by_a_tensor_and_shrinks_again():
    before = torch.neuron.memory_allocated()
    x = torch.ones(4 * MIB, device=DUT)
    torch.neuron.synchronize()
    held = torch.neuron.memory_allocated() - before
    del x
    torch.neuron.synchronize()
    assert held == 16 * MIB
    assert torch.neuron.memory_allocated() == before


def test_view_allocates_nothing():
    x = torch.ones(MIB, device=DUT)
    torch.neuron.synchronize()
    before = torch.neuron.memory_allocated()
    views = [x.view(1024, 1024), x[5:], x.expand(3, -1), x.view(1024, 1024).t()]
    torch.neuron.synchronize()
    assert torch.neuron.memory_allocated() == before and views


def test_peak_is_kept_until_reset():
    torch.neuron.reset_peak_memory_stats()
    before = torch.neuron.memory_allocated()
    x = torch.ones(4 * MIB, device=DUT)
    torch.neuron.synchronize()
    del x
    torch.neuron.synchronize()
    assert torch.neuron.max_memory_allocated() >= before + 16 * MIB
    torch.neuron.reset_peak_memory_stats()
    assert torch.neuron.max_memory_allocated() == torch.neuron.memory_allocated()


def test_reserved_is_at_least_allocated():
    x = torch.ones(MIB, device=DUT)
    torch.neuron.synchronize()
    assert torch.neuron.memory_reserved() >= torch.neuron.memory_allocated() > 0
    assert x.numel() == MIB


def test_empty_cache_gives_back_what_no_tensor_holds():
    x = torch.ones(32 * MIB, device=DUT)
    torch.neuron.synchronize()
    del x
    torch.neuron.synchronize()
    torch.neuron.empty_cache()
    allocated = torch.neuron.memory_allocated()
    assert torch.neuron.memory_reserved() <= allocated + 32 * MIB


def test_memory_stats_has_the_usual_keys():
    stats = torch.neuron.memory_stats()
    for key in (
        "allocated_bytes.all.current",
        "allocated_bytes.all.peak",
        "reserved_bytes.all.current",
        "active_bytes.all.current",
        "num_alloc_retries",
        "num_ooms",
    ):
        assert key in stats


def test_memory_stats_agree_with_the_functions():
    x = torch.ones(MIB, device=DUT)
    torch.neuron.synchronize()
    stats = torch.neuron.memory_stats()
    assert stats["allocated_bytes.all.current"] == torch.neuron.memory_allocated()
    assert stats["reserved_bytes.all.current"] == torch.neuron.memory_reserved()
    assert x.numel() == MIB


def test_accelerator_reports_the_same_memory():
    x = torch.ones(MIB, device=DUT)
    torch.neuron.synchronize()
    assert torch.accelerator.memory_allocated() == torch.neuron.memory_allocated()
    assert torch.accelerator.memory_reserved() == torch.neuron.memory_reserved()
    assert torch.accelerator.max_memory_allocated() >= 4 * MIB
    assert x.numel() == MIB


def test_mem_get_info_is_free_and_total():
    x = torch.ones(64 * MIB, device=DUT)
    torch.neuron.synchronize()
    free, total = torch.neuron.mem_get_info()
    assert 0 < free <= total - 256 * MIB
    assert total == torch.neuron.get_device_properties().total_memory
    assert x.numel() == 64 * MIB


def test_memory_that_is_only_reserved_costs_no_real_bytes():
    """HBM of the simulator has real bytes only where they were touched."""
    from device_under_test import rss_mib

    before = rss_mib()
    x = torch.empty(256 * MIB, device=DUT)
    torch.neuron.synchronize()
    assert rss_mib() - before < 200
    assert x.numel() == 256 * MIB


def test_intermediate_that_nobody_holds_is_freed():
    torch.neuron.reset_peak_memory_stats()
    before = torch.neuron.memory_allocated()
    x = torch.ones(MIB, device=DUT)
    for _ in range(30):
        x = x * 0.5 + 1
    torch.neuron.synchronize()
    assert torch.neuron.memory_allocated() - before == 4 * MIB
    assert torch.neuron.max_memory_allocated() - before <= 40 * MIB


def test_storage_resize_to_zero_frees_the_bytes():
    x = torch.ones(4 * MIB, device=DUT)
    torch.neuron.synchronize()
    before = torch.neuron.memory_allocated()
    x.untyped_storage().resize_(0)
    torch.neuron.synchronize()
    assert torch.neuron.memory_allocated() <= before - 16 * MIB
    x.untyped_storage().resize_(16 * MIB)
    x.fill_(3)
    assert x[5].item() == 3.0


def test_addresses_are_unique_and_not_null():
    tensors = [torch.empty(n, device=DUT) for n in (1, 2, 300, 4000)]
    pointers = {t.data_ptr() for t in tensors}
    assert len(pointers) == 4 and 0 not in pointers


def test_address_of_a_view_is_offset():
    x = torch.zeros(10, device=DUT)
    assert x[3:].data_ptr() == x.data_ptr() + 12


def test_pin_memory_is_pinned_and_copies_both_ways():
    host = torch.arange(1000.0).pin_memory()
    assert host.is_pinned()
    there = host.to(DUT, non_blocking=True)
    back = torch.empty(1000).pin_memory()
    back.copy_(there, non_blocking=True)
    torch.neuron.synchronize()
    assert torch.equal(back, host)


def test_pinned_factory():
    assert torch.empty(7, pin_memory=True).is_pinned()
    assert not torch.empty(7).is_pinned()


def test_pinned_source_may_change_after_synchronize_only():
    host = torch.ones(MIB).pin_memory()
    there = host.to(DUT, non_blocking=True)
    torch.neuron.synchronize()
    host.zero_()
    assert there.sum().item() == MIB


OUT_OF_MEMORY = """
import os, torch
torch.neuron.set_adaptive_eager(%s)
small = torch.ones(1000, device="neuron")
try:
    x = torch.ones(64 * 2**20, device="neuron")
    torch.neuron.synchronize()
    print("no error")
except torch.OutOfMemoryError as error:
    print("oom", str(error).replace(chr(10), " "))
print(small.sum().item())
y = torch.ones(2**20, device="neuron") + 1
print(y.sum().item())
torch.neuron.synchronize()
print("ooms", torch.neuron.memory_stats()["num_ooms"])
"""


@pytest.fixture(scope="module", params=[False, True])
def out_of_memory(request: pytest.FixtureRequest) -> list[str]:
    """What a script prints that asks 256 MiB of a device of 128 MiB."""
    done = run_script(
        OUT_OF_MEMORY % request.param, env={"NEURON_SIM_HBM_BYTES": str(128 * MIB)}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_out_of_memory_is_torchs_own_exception(out_of_memory: list[str]):
    assert out_of_memory[0].startswith("oom ")


@pytest.mark.parametrize("word", [str(256 * MIB), "requested", "in use", "free"])
def test_out_of_memory_says_requested_in_use_and_free(
    out_of_memory: list[str], word: str
):
    assert word in out_of_memory[0]


def test_device_is_usable_after_out_of_memory(out_of_memory: list[str]):
    assert out_of_memory[1:3] == ["1000.0", str(2.0 * MIB)]


def test_out_of_memory_is_counted(out_of_memory: list[str]):
    assert out_of_memory[3] == "ooms 1"


def test_many_small_tensors_run_out_cleanly_and_recover():
    done = run_script(
        "import torch\n"
        "kept = []\n"
        "try:\n"
        "    for i in range(100000):\n"
        "        kept.append(torch.ones(2**18, device='neuron'))\n"
        "        if i % 16 == 0: torch.neuron.synchronize()\n"
        "except torch.OutOfMemoryError:\n"
        "    print('oom', 40 <= len(kept) <= 66)\n"
        "kept.clear()\n"
        "try: torch.neuron.synchronize()\n"
        "except torch.OutOfMemoryError: print('twice')\n"
        "print(torch.ones(2**20, device='neuron').sum().item())\n",
        env={"NEURON_SIM_HBM_BYTES": str(64 * MIB)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["oom True", str(1.0 * MIB)]


def test_cache_is_emptied_before_memory_runs_out():
    """Freed blocks of one size must not stand in the way of another size."""
    done = run_script(
        "import torch\n"
        "for mib in (40, 50, 30, 60, 20, 55):\n"
        "    x = torch.ones(mib * 2**18, device='neuron')\n"
        "    print(int(x.sum().item()) == mib * 2**18)\n"
        "    del x\n",
        env={"NEURON_SIM_HBM_BYTES": str(64 * MIB)},
    )
    assert done.stdout.split() == ["True"] * 6, done.stderr[-2000:]


def test_snapshot_names_the_lines_of_live_tensors_when_asked():
    torch.neuron.record_memory_history()
    try:
        kept = torch.empty(3 * MIB, dtype=torch.uint8, device=DUT)
        gone = torch.empty(5 * MIB, dtype=torch.uint8, device=DUT)
        del gone
        torch.neuron.synchronize()
        blocks = [segment["blocks"][0] for segment in torch.neuron.memory_snapshot()]
    finally:
        torch.neuron.record_memory_history(False)
    sizes = {block["requested_size"]: block for block in blocks}
    assert 5 * MIB not in sizes
    assert sizes[kept.nbytes]["state"] == "active_allocated"
    (frame,) = sizes[kept.nbytes]["frames"]
    assert frame["filename"] == __file__
    assert frame["line"] > 0


def test_snapshot_names_no_lines_when_not_asked():
    kept = torch.empty(3 * MIB, dtype=torch.uint8, device=DUT)
    blocks = [segment["blocks"][0] for segment in torch.neuron.memory_snapshot()]
    assert kept.nbytes in [block["requested_size"] for block in blocks]
    assert not any(block["frames"] for block in blocks)


LARGEST = """
import torch
if %r: torch.neuron.record_memory_history()
kept = [torch.empty(n << 20, dtype=torch.uint8, device='neuron') for n in (8, 48, 16)]
try: torch.empty(256 << 20, dtype=torch.uint8, device='neuron')
except torch.OutOfMemoryError as error: print(error)
"""


@pytest.mark.parametrize("records", [False, True])
def test_out_of_memory_names_the_largest_tensors(records: bool):
    done = run_script(LARGEST % records, env={"NEURON_SIM_HBM_BYTES": str(128 * MIB)})
    text = done.stdout
    order = [text.find(f"{n * MIB} bytes") for n in (48, 16, 8)]
    assert -1 not in order and order == sorted(order), text + done.stderr[-2000:]
    assert "largest of 3 live tensors" in text
    assert ("<string>:4" in text) == records
    assert ("record_memory_history()" in text) != records
