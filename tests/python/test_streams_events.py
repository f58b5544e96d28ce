"""Streams and events of `torch.neuron`, and their `torch.accelerator` names."""

import pytest
import torch

from device_under_test import DUT, only_neuron

pytestmark = [only_neuron, pytest.mark.usefixtures("mode")]

#: Enough work that a wrong order between streams shows.
STEPS = 40


def busy(size: int = 128) -> torch.Tensor:
    """A tensor that is ready only after some work on the current stream."""
    x = torch.ones(size, size, device=DUT)
    for _ in range(STEPS):
        x = (x @ x) / size
    return x


def test_current_stream_is_the_default_stream_at_first():
    assert torch.neuron.current_stream() == torch.neuron.default_stream()


def test_stream_context_sets_and_restores_the_current_stream():
    stream = torch.neuron.Stream()
    before = torch.neuron.current_stream()
    with torch.neuron.stream(stream):
        assert torch.neuron.current_stream() == stream
    assert torch.neuron.current_stream() == before


def test_nested_stream_contexts_restore_each_other():
    outer, inner = torch.neuron.Stream(), torch.neuron.Stream()
    with torch.neuron.stream(outer):
        with torch.neuron.stream(inner):
            assert torch.neuron.current_stream() == inner
        assert torch.neuron.current_stream() == outer


def test_stream_context_restores_after_an_exception():
    before = torch.neuron.current_stream()
    with pytest.raises(ZeroDivisionError), torch.neuron.stream(torch.neuron.Stream()):
        raise ZeroDivisionError
    assert torch.neuron.current_stream() == before


def test_stream_context_of_none_changes_nothing():
    before = torch.neuron.current_stream()
    with torch.neuron.stream(None):
        assert torch.neuron.current_stream() == before


def test_set_stream_changes_the_current_stream():
    before, stream = torch.neuron.current_stream(), torch.neuron.Stream()
    torch.neuron.set_stream(stream)
    try:
        assert torch.neuron.current_stream() == stream
    finally:
        torch.neuron.set_stream(before)


def test_streams_differ_from_each_other():
    assert torch.neuron.Stream() != torch.neuron.Stream()


def test_stream_knows_its_device():
    stream = torch.neuron.Stream()
    assert stream.device == torch.device(DUT, torch.neuron.current_device())


def test_wait_stream_orders_two_streams():
    producer, consumer = torch.neuron.Stream(), torch.neuron.Stream()
    with torch.neuron.stream(producer):
        x = busy()
    consumer.wait_stream(producer)
    with torch.neuron.stream(consumer):
        y = x + 1
    consumer.synchronize()
    assert torch.equal(y.cpu(), torch.full((128, 128), 2.0))


def test_wait_event_orders_two_streams():
    producer, consumer = torch.neuron.Stream(), torch.neuron.Stream()
    event = torch.neuron.Event()
    with torch.neuron.stream(producer):
        x = busy()
        event.record()
    consumer.wait_event(event)
    with torch.neuron.stream(consumer):
        y = x * 3
    assert torch.equal(y.cpu(), torch.full((128, 128), 3.0))


def test_event_wait_makes_the_current_stream_wait():
    side = torch.neuron.Stream()
    with torch.neuron.stream(side):
        x = busy()
        event = side.record_event()
    event.wait()
    assert torch.equal((x - 1).cpu(), torch.zeros(128, 128))


def test_in_place_write_after_wait_stream_is_ordered():
    side = torch.neuron.Stream()
    x = busy()
    side.wait_stream(torch.neuron.current_stream())
    with torch.neuron.stream(side):
        x.add_(1)
    torch.neuron.current_stream().wait_stream(side)
    x.mul_(2)
    assert torch.equal(x.cpu(), torch.full((128, 128), 4.0))


def test_query_is_true_after_synchronize():
    stream = torch.neuron.Stream()
    with torch.neuron.stream(stream):
        busy()
    stream.synchronize()
    assert stream.query()


def test_event_query_is_true_after_synchronize():
    event = torch.neuron.Event()
    busy()
    event.record()
    event.synchronize()
    assert event.query()


def test_event_that_was_never_recorded_is_complete():
    event = torch.neuron.Event()
    assert event.query()
    event.synchronize()


def test_querying_again_and_again_ends():
    """Nobody synchronises: the query itself must set the work going."""
    event = torch.neuron.Event()
    busy()
    event.record()
    tries = 0
    while not event.query():
        tries += 1
        assert tries < 10_000_000, "the event never completes"


def test_stream_query_ends_without_a_synchronize():
    stream = torch.neuron.Stream()
    with torch.neuron.stream(stream):
        busy()
    tries = 0
    while not stream.query():
        tries += 1
        assert tries < 10_000_000, "the stream never becomes idle"


def test_elapsed_time_is_positive_and_grows_with_the_work():
    def measure(repeats: int) -> float:
        start = torch.neuron.Event(enable_timing=True)
        end = torch.neuron.Event(enable_timing=True)
        start.record()
        for _ in range(repeats):
            busy(64)
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    measure(1)
    assert 0 < measure(1) < measure(20)


def test_elapsed_time_without_timing_is_refused():
    start, end = torch.neuron.Event(), torch.neuron.Event()
    start.record()
    end.record()
    end.synchronize()
    with pytest.raises((RuntimeError, ValueError)):
        start.elapsed_time(end)


def test_device_synchronize_waits_for_all_streams():
    streams = [torch.neuron.Stream() for _ in range(3)]
    for stream in streams:
        with torch.neuron.stream(stream):
            busy()
    torch.neuron.synchronize()
    assert all(stream.query() for stream in streams)


def test_accelerator_names_the_same_streams():
    assert torch.accelerator.current_stream() == torch.neuron.current_stream()
    stream = torch.Stream(device=DUT)
    with stream:
        assert torch.accelerator.current_stream() == stream


def test_generic_event_works_on_the_device():
    event = torch.Event(device=DUT)
    x = busy()
    event.record()
    event.synchronize()
    assert event.query() and x[0, 0].item() == 1.0


def test_record_stream_keeps_the_bytes():
    side = torch.neuron.Stream()
    x = busy()
    side.wait_stream(torch.neuron.current_stream())
    with torch.neuron.stream(side):
        y = x + 1
    x.record_stream(side)
    del x
    z = torch.zeros(128, 128, device=DUT)
    torch.neuron.current_stream().wait_stream(side)
    assert torch.equal((y + z).cpu(), torch.full((128, 128), 2.0))


def test_backward_runs_on_the_stream_of_its_forward():
    side = torch.neuron.Stream()
    w = torch.ones(8, 8, device=DUT, requires_grad=True)
    side.wait_stream(torch.neuron.current_stream())
    with torch.neuron.stream(side):
        loss = (w * busy(8)).sum()
        loss.backward()
    side.synchronize()
    assert torch.equal(w.grad.cpu(), torch.ones(8, 8))


def test_many_streams_give_the_same_bits_as_one():
    def run(streams: list) -> torch.Tensor:
        parts = []
        for i in range(6):
            with torch.neuron.stream(streams[i % len(streams)]):
                x = torch.arange(64.0, device=DUT).view(8, 8) + i
                parts.append((x @ x).tanh().softmax(-1))
        torch.neuron.synchronize()
        return torch.stack(parts).cpu()

    one = run([torch.neuron.default_stream()])
    many = run([torch.neuron.Stream() for _ in range(3)])
    assert torch.equal(one, many)


def test_priority_is_accepted():
    assert torch.neuron.Stream(priority=-1) is not None
