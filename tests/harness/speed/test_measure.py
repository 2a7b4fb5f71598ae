"""Encoders that behave, and others that do not, measured as `leaderboard speed` does."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from pathlib import Path

import pytest
from packages import offering
from prompted import offered

from harness.core.errors import InputError
from harness.core.threads import available_cores
from harness.encoders.registry import load_sides
from harness.encoders.variant import calibration_sentences
from harness.speed.child import EXERCISE, serve
from harness.speed.measure import BATCHES, Plan, measure
from harness.speed.process import Child, ChildError
from harness.speed.texts import SENTENCES, digest, texts

pytestmark = pytest.mark.slow

QUICK = Plan(repeats=1, seconds=0.02)

MODULE = '''
import os, signal, sys, subprocess, time
import numpy as np
from harness.core.threads import n_threads

class Encoder:
    """Sleeps for some milliseconds a text, after taking some MB."""
    fingerprint, dim, uses_lang, name = "stub-1", 4, False, "stub"
    n_parameters, size_bytes, max_length = 12, 3_000_000, np.int64(77)

    def __init__(self, ms=0.05, mb=0):
        self.ms = ms
        self.memory = np.ones(mb * 125_000)

    def encode(self, sentences, *, lang=None):
        time.sleep(self.ms / 1000 * len(sentences))
        return np.ones((len(sentences), 4), np.float32)

def stub(*, ms: float = 0.05, mb: int = 0):
    return Encoder(ms, mb)

class Faulty(Encoder):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def encode(self, sentences, *, lang=None):
        return self.fault(sentences)

def exits_when_loaded():
    sys.exit(5)

def raises():
    return Faulty(lambda sentences: 1 / 0)

def exits():
    return Faulty(lambda sentences: sys.exit(0))

def ends():
    return Faulty(lambda sentences: os._exit(7))

def is_killed():
    return Faulty(lambda sentences: os.kill(os.getpid(), signal.SIGKILL))

def nan():
    return Faulty(lambda sentences: np.full((len(sentences), 4), np.nan))

def short():
    return Faulty(lambda sentences: np.ones((1, 4)))

def rubbish():
    for descriptor in range(3, 20):
        try:
            os.write(descriptor, b'{"n": "rubbish"}\\n' if descriptor % 2 else b"rubbish\\n")
        except OSError:
            pass
    return Encoder()

def raises_in_the_second_process():
    is_second = os.path.exists("process")
    open("process", "w").write(str(os.getpid()))
    return Faulty(lambda sentences: 1 / 0) if is_second else Encoder()

class Watching(Encoder):
    """Says whether the process that wrote its number is there."""
    def encode(self, sentences, *, lang=None):
        try:
            os.kill(int(open("process").read()), 0)
            print("is there", file=open("seen", "a"))
        except ProcessLookupError:
            print("gone", file=open("seen", "a"))
        return super().encode(sentences)

def watches():
    return Watching()

def hangs():
    started = subprocess.Popen(["sleep", "1000"])
    open("started", "w").write(str(started.pid))
    return Faulty(lambda sentences: time.sleep(1000))

def changes():
    encoder = Encoder()
    encoder.fingerprint = str(os.getpid())
    return encoder

def prints():
    print("from Python")
    os.system("echo from a shell")
    sys.stdin.read()  # there is nothing, and it does not take the commands
    return Encoder()

class Cuda:
    """What is asked of PyTorch."""
    def is_initialized(self):
        return True
    def get_device_name(self, device):
        return f"GPU of {device}"
    def max_memory_reserved(self):
        return 123_000_000

def on_gpu():
    import types
    sys.modules["torch"] = types.SimpleNamespace(cuda=Cuda())
    encoder = Encoder()
    encoder.device = "cuda:1"
    return encoder

class Batches(Encoder):
    """Says how many texts it gets, and with which options."""
    def encode(self, sentences, *, lang=None):
        with open("calls", "a") as file:
            print(self.size, len(sentences), lang, n_threads(), file=file)
        return super().encode(sentences)

def batches(*, batch_size: int = 4, uses_lang: bool = False, ms: float = 0.02):
    encoder = Batches(ms)
    encoder.size, encoder.uses_lang = batch_size, uses_lang
    return encoder
'''


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "costs.py").write_text(MODULE)
    # What a user has in the current folder is not taken for a module of ours, nor of Python's.
    (tmp_path / "json.py").write_text("raise SystemExit('json.py of the current folder')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "costs", raising=False)


def test_a_known_speed_is_found_and_encoders_are_measured_in_turn() -> None:
    plan = Plan(repeats=2, seconds=0.03)
    outcome = measure(["python:costs:stub?ms=0.5&name=fast", "python:costs:stub?ms=1.5&name=slow"], plan)
    assert outcome.failures == {}
    fast, slow = outcome.measured
    for one, expected in ((fast, 2000), (slow, 2000 / 3)):
        assert {(cell.way, cell.length) for cell in one.cells} == {(w, n) for w in ("alone", "own") for n in SENTENCES}
        for cell in one.cells:
            assert cell.sentences_per_s.high < 1.02 * expected  # sleep takes no less, and on a busy machine more
            assert len(cell.seconds) == 2
            # In one pass or three of a round, the same texts each time.
            n = cell.n // 3 if cell.n % 3 == 0 else cell.n
            taken = [texts(cell.length)[row % 1200].text for row in range(n)]
            assert cell.characters == cell.n // n * sum(map(len, taken))
        assert max(cell.sentences_per_s.high for cell in one.cells) == pytest.approx(expected, rel=0.25)
    for way in ("alone", "own"):
        assert 1.5 < slow.times(fast, way).median < 4.5  # 3, but for sleeps that a busy machine makes longer
    assert fast.session == slow.session


def test_what_is_said_of_an_encoder() -> None:
    [one] = measure(["python:costs:stub"], QUICK).measured
    assert (one.encoder, one.fingerprint, one.spec) == ("stub", "stub-1", "python:costs:stub")
    assert (one.dim, one.vector_bytes, one.n_parameters, one.size_bytes) == (4, 16, 12, 3_000_000)
    assert (one.max_length, one.threads, one.texts) == (77, available_cores(), digest())
    assert one.hardware["device"] == "cpu" and one.versions["numpy"] and len(one.load_s) == 1 and one.created


def test_loading_and_memory_of_a_variant_are_those_of_its_base() -> None:
    """Int8 is calibrated in the process for the speeds, and not where loading and memory are measured."""
    [one] = measure(["python:costs:batches?batch_size=4&truncate_dim=2&quantize=int8"], QUICK).measured
    sizes = [int(line.split()[1]) for line in Path("calls").read_text().splitlines()]
    assert sizes[:4] == [1, EXERCISE, EXERCISE, EXERCISE]
    calibration = sum(map(len, calibration_sentences(by_language=False).values()))
    assert calibration in sizes and calibration > EXERCISE
    assert (one.encoder, one.dim, one.vector_bytes) == ("batches@2-int8", 2, 2)


def test_a_gpu_is_named_and_its_memory_counted() -> None:
    [one] = measure(["python:costs:on_gpu"], QUICK).measured
    assert (one.hardware["device"], one.hardware["gpu"]) == ("cuda:1", "GPU of cuda:1")
    assert one.device_memory_mb == [123.0]


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory of one's own is told by Linux")
def test_memory_is_its_own_alone_and_after_a_larger_encoder() -> None:
    here = bytearray(400_000_000)  # in this process, from which the others are started
    here[:: os.sysconf("SC_PAGE_SIZE")] = b"\1" * len(here[:: os.sysconf("SC_PAGE_SIZE")])
    small, large = "python:costs:stub?mb=20&name=small", "python:costs:stub?mb=300&name=large"
    [alone] = measure([small], QUICK).measured
    after = {one.encoder: one for one in measure([large, small], QUICK).measured}
    del here
    assert after["large"].memory_mb[0] == pytest.approx(300, abs=20)
    assert alone.memory_mb[0] == pytest.approx(20, abs=10)
    assert after["small"].memory_mb[0] == pytest.approx(alone.memory_mb[0], abs=3)


def test_an_encoder_fails_alone(capfd: pytest.CaptureFixture[str]) -> None:
    names = ["exits_when_loaded", "raises", "exits", "ends", "is_killed", "nan", "short", "rubbish", "stub"]
    told: list[str] = []
    outcome = measure([f"python:costs:{name}" for name in names], QUICK, told.append)
    assert [one.encoder for one in outcome.measured] == ["stub"]
    reasons = {
        "exits_when_loaded": "SystemExit: 5",
        "raises": "ZeroDivisionError: division by zero",
        "exits": "SystemExit: 0",
        "ends": "its process ended with exit code 7",
        "is_killed": "its process was ended by SIGKILL",
        "nan": "returned NaN in row 0",
        "short": "expected float32 of shape (64, 4)",
        "rubbish": "its process printed what is no answer",
    }
    assert outcome.failures.keys() == reasons.keys()
    for name, reason in reasons.items():
        assert reason in outcome.failures[name], outcome.failures[name]
        assert told.count(f"{name} failed: {outcome.failures[name]}") == 1
    assert capfd.readouterr().out == ""


def test_what_hangs_is_ended_with_all_that_it_has_started() -> None:
    start = time.monotonic()
    outcome = measure(["python:costs:hangs"], Plan(repeats=1, seconds=0.01, patience=3))
    assert "no answer in 3 s" in outcome.failures["hangs"] and time.monotonic() - start < 30
    process = int(Path("started").read_text())
    for _ in range(100):
        if not is_running(process):
            break
        time.sleep(0.05)
    assert not is_running(process)


def test_what_has_failed_is_ended_before_others_are_timed() -> None:
    outcome = measure(["python:costs:raises_in_the_second_process", "python:costs:watches"], QUICK)
    assert list(outcome.failures) == ["raises_in_the_second_process"] and len(outcome.measured) == 1
    assert set(Path("seen").read_text().split("\n")) == {"gone", ""}


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_other_weights_in_the_next_process_are_noticed() -> None:
    outcome = measure(["python:costs:changes"], Plan(repeats=2, seconds=0.01))
    assert "fingerprint has changed" in outcome.failures["changes"]


def test_what_an_encoder_prints_is_on_stderr_and_its_input_is_empty(capfd: pytest.CaptureFixture[str]) -> None:
    assert measure(["python:costs:prints"], QUICK).failures == {}
    printed = capfd.readouterr()
    assert printed.out == "" and "from Python" in printed.err and "from a shell" in printed.err


def test_batch_sizes_and_threads() -> None:
    [one] = measure(["python:costs:batches"], Plan(repeats=1, seconds=0.01, threads=3)).measured
    assert one.threads == 3
    ways = {(cell.way, cell.batch) for cell in one.cells}
    assert ways == {("alone", 1), ("own", 4), *(("batch", n) for n in BATCHES)}
    calls = [line.split() for line in Path("calls").read_text().splitlines()]
    assert {call[3] for call in calls} == {"3"}
    for cell in one.cells:
        size = {"alone": "4", "own": "4"}.get(cell.way, str(cell.batch))  # the option that it was opened with
        assert cell.way == "alone" or cell.n % (cell.batch * 3) == 0  # a batch for each thread
        sizes = {"1"} if cell.way == "alone" else {str(cell.n), str(cell.n // 3)}
        assert any(call[0] == size and call[1] in sizes for call in calls)
    # A size that the user has chosen is the only one.
    [one] = measure(["python:costs:batches?batch_size=32"], Plan(repeats=1, seconds=0.01)).measured
    assert {(cell.way, cell.batch) for cell in one.cells} == {("alone", 1), ("own", 32)}


def test_a_batch_size_that_an_alias_has_chosen_is_the_only_one(tmp_path: Path) -> None:
    alias = (
        "from harness.encoders.info import EncoderInfo\n"
        "alias = EncoderInfo(batches, 'Batches', 'numpy', options={'batch_size': '8'})\n"
    )
    entry_points = "[harness.encoders]\nbatched = batched_alias:alias\n"
    with offering(tmp_path / "packages", "batched_alias", MODULE + alias, entry_points):
        [one] = measure(["batched"], Plan(repeats=1, seconds=0.01)).measured
    assert {(cell.way, cell.batch) for cell in one.cells} == {("alone", 1), ("own", 8)}
    assert {line.split()[0] for line in Path("calls").read_text().splitlines()} == {"8"}


def test_a_batch_that_takes_too_long_is_left_out() -> None:
    [one] = measure(["python:costs:batches?ms=0.5"], Plan(repeats=1, seconds=0.01, threads=1, longest=0.1)).measured
    assert {cell.batch for cell in one.cells} == {1, 4, 32}  # 128 texts take 64 ms, 256 take 128


def test_an_encoder_that_wants_languages_is_told_them() -> None:
    measure(["python:costs:batches?uses_lang=true&batch_size=4"], QUICK)
    calls = [line.split() for line in Path("calls").read_text().splitlines()]
    assert {call[2] for call in calls} == {"ar", "de", "en", "es", "fr", "it", "nl", "ru", "tr", "zh"}


def test_equal_names_are_refused_at_once() -> None:
    with pytest.raises(InputError, match=r"stub and python:costs:stub\?ms=1 would be stored under one name"):
        measure(["python:costs:stub", "python:costs:stub?ms=1"], QUICK)


@pytest.mark.parametrize("spec", ["no-such-encoder", "python:costs:no_such", "python:costs:stub?ms=many"])
def test_a_spec_string_that_is_wrong_is_said_at_once(spec: str) -> None:
    with pytest.raises(InputError):
        measure(["python:costs:stub", spec], QUICK)


def test_a_process_ends_with_its_block() -> None:
    with Child(None, 60) as child:
        pass
    assert child._process.returncode is not None
    with pytest.raises(ChildError):
        child.ask(dict, "memory")


def test_of_two_prompts_that_of_documents_is_measured(tmp_path: Path) -> None:
    spec = "prompted?prompt_query=q: &prompt_document=d: "
    with offered(tmp_path):
        both = load_sides(spec)
        asked = both.query.asked  # type: ignore[union-attr]
        commands = [
            {"do": "open", "spec": spec, "defaults": {}},
            {"do": "measure", "length": "short", "n": 3, "alone": True},
        ]
        answers = io.StringIO()
        serve(io.StringIO("".join(f"{json.dumps(command)}\n" for command in commands)), answers)
        opened, measured = map(json.loads, answers.getvalue().splitlines())
        assert opened["fingerprint"] == both.fingerprint and measured["n"] == 3  # as in records
        assert len(asked) == 4 and set(asked) == {"d: "}
        said: list[str] = []
        measure([spec, "prompted?name=one"], Plan(repeats=0), said.append)
        assert [line for line in said if "measured with" in line] == [
            "prompted: measured with the prompt of documents, of which there are most"
        ]
