"""Encoders behind OpenAI's API: the real client before a server that has a local encoder's vectors, and many faults."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import shake_256
from pathlib import Path

import numpy as np
import pytest
from embedding_server import Fault, Service, serve
from encoders import Letters

from baselines.adapters import openai_client
from baselines.adapters.openai_client import RefusedError, address_of
from baselines.adapters.openai_probes import N_SHORT, PROBES, SAME, nearest_sketch, sketch, unlike
from harness.core.errors import EncoderError, InputError, VectorError
from harness.data import DataDir
from harness.data.memory import memory_sets
from harness.data.own import own_data
from harness.encoders.cache import VectorCache
from harness.encoders.encoder import Encoder, PartialError, normalise
from harness.encoders.reduction import Reduction
from harness.encoders.registry import check_spec, encoder_info, load_encoder, load_sides
from harness.encoders.sides import TwoSided
from harness.encoders.variant import Variant
from harness.results.store import ResultStore
from harness.running.dry_run import forecast
from harness.running.evaluate import evaluate
from harness.running.measure import Run
from harness.running.suite import Request, load, run_suite
from harness.testing import check_encoder

pytestmark = pytest.mark.slow

pytest.importorskip("openai")

KEY = "sk-test-0123456789abcdef"
_WORDS = ("läuft", "schläft", "bellt")
SENTENCES = ["日本", "ok", *(f"satz {i}: der hund {_WORDS[i % 3]} um {i % 24} uhr" for i in range(120))]


@pytest.fixture(scope="session")
def local() -> Encoder:
    """The encoder whose vectors are served: the student, else the lexical floor."""
    return load_encoder("student" if encoder_info("student").is_installed else "chargrams")


@pytest.fixture
def service(local: Encoder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with serve(Service(local.encode)) as service:
        yield service


def other(local: Encoder) -> Callable[[Sequence[str]], np.ndarray]:
    """Another model of the same length of vectors."""
    turned = np.random.default_rng(0).permutation(local.dim)
    return lambda texts: local.encode(texts)[:, turned]


def remote(service: Service, options: str = "", **defaults: object) -> Encoder:
    return load_encoder(f"openai:tiny?base_url={service.url}{options}", **defaults)


def check_equal(encoder: Encoder, local: Encoder, sentences: Sequence[str] = SENTENCES) -> None:
    np.testing.assert_allclose(encoder.encode(sentences), local.encode(sentences), rtol=0, atol=1e-6)


FAULTS: list[list[Fault]] = [
    [429, 429],
    [500, 503],
    [408, 409],
    ["cut", "cut"],
    ["shuffle"] * 4,
    ["lists"] * 4,
    [413, 422, 400],
    [429, "cut", "shuffle", 500, "lists", 413, 429, "shuffle"],
]


@pytest.mark.parametrize("plan", FAULTS, ids=lambda plan: "-".join(map(str, plan[:4])))
def test_vectors_are_those_of_the_local_encoder(service: Service, local: Encoder, plan: list[Fault]) -> None:
    encoder = remote(service, "&batch_size=32")
    service.plan = list(plan)
    check_equal(encoder, local)
    assert not service.plan
    assert set(service.answered) == {*SENTENCES, *PROBES}


@pytest.mark.parametrize("plan", [[429, "cut", 500], ["shuffle", "lists"], [413, 413]])
def test_faults_while_it_is_opened(service: Service, local: Encoder, plan: list[Fault]) -> None:
    service.plan = list(plan)
    check_equal(remote(service), local)


def test_the_waits_are_the_servers(service: Service) -> None:
    encoder = remote(service)
    service.plan, service.retry_after = [429], "0.7"
    start = time.perf_counter()
    encoder.encode(["ok"])
    assert 0.7 < time.perf_counter() - start < 3


def test_a_server_that_takes_few_texts_gets_few(
    service: Service, local: Encoder, capsys: pytest.CaptureFixture[str]
) -> None:
    service.most = 10
    check_equal(remote(service, "&batch_size=32"), local)
    assert service.sizes.count(32) == 3 and sum(size <= 10 for size in service.sizes) > 16
    [warning] = capsys.readouterr().err.splitlines()
    assert "refuses 16 texts at once (413: no)" in warning and "batch_size" in warning


def test_requests_are_limited_by_texts_and_characters(service: Service, local: Encoder) -> None:
    texts = ["a" * length for length in (90, 60, 40, 30, 30, 30, 200, 5, 5, 5, 5, 5)]
    encoder = remote(service, "&max_characters=100&batch_size=4&concurrency=1")
    service.bodies.clear()
    check_equal(encoder, local, texts)
    sent = [[len(text) for text in body["input"][:-1]] for body in service.bodies]
    assert sent == [[90], [60, 40], [30, 30, 30], [200], [5, 5, 5], [5, 5]]
    assert all(body["input"][-1] in PROBES[:N_SHORT] for body in service.bodies)
    assert all(body["encoding_format"] == "base64" and body["model"] == "tiny" for body in service.bodies)


def test_the_contract(service: Service) -> None:
    check_encoder(remote(service))


def test_blank_texts_are_not_sent(service: Service, local: Encoder) -> None:
    encoder = remote(service, "&prompt=query: ")
    vectors = encoder.encode(["ok", "", " \n\t", "half \ud800"])
    assert not vectors[1:3].any() and vectors[[0, 3]].any(axis=1).all()
    service.bodies.clear()
    assert encoder.encode(["", " "]).shape == (2, local.dim) and encoder.encode([]).shape == (0, local.dim)
    assert not service.bodies
    assert all(text.startswith("query: ") and text.strip() != "query:" for text in service.answered)


def test_options_are_sent_and_part_of_the_fingerprint(service: Service, local: Encoder) -> None:
    encoder = remote(service, "&dimensions=32&prompt=query: &truncate=5&name=mine")
    np.testing.assert_allclose(
        encoder.encode(["a long one", "ok"]), local.encode(["query: a lon", "query: ok"])[:, :32], atol=1e-6
    )
    assert (encoder.name, encoder.dim, encoder.uses_lang) == ("mine", 32, False)
    host = service.url.removeprefix("http://").removesuffix("/v1")
    assert encoder.fingerprint.startswith(
        f"openai/{host}|model:tiny|dimensions:32|prompt:'query: '|truncate:5|weights:"
    )
    assert all(body["dimensions"] == 32 for body in service.bodies)
    assert service.bodies[0]["path"] == "/v1/embeddings"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("fewer", r"answered \d+ vectors for \d+ texts"),
        ("more", r"answered \d+ vectors for \d+ texts"),
        ("twice", "indices are not 0 to"),
        ("short", r"vectors of \d+ numbers, \d+ before"),
        ("junk", "neither lists of numbers nor float32 in base64"),
        ("nan", "NaN or infinity"),
        ("nan-lists", "NaN or infinity"),
        ("infinity", "NaN or infinity"),
        ("html", "did not answer with embeddings"),
        ("nonsense", "did not answer with embeddings .*data"),
        (401, "wants a key .*key_env=NAME"),
        (404, "has no model 'tiny' at http"),
        (418, "418: no"),
    ],
)
def test_answers_that_are_no_vectors(service: Service, fault: Fault, message: str) -> None:
    encoder = remote(service, "&retries=0")
    service.plan = [fault]
    with pytest.raises(EncoderError, match=message) as failure:
        encoder.encode(["ok", "and another"])
    assert len(str(failure.value).splitlines()) == 1
    service.plan = [fault]
    with pytest.raises(InputError) as failure:
        remote(service, "&retries=0")
    assert len(str(failure.value).splitlines()) == 1


def test_a_text_that_is_refused(service: Service) -> None:
    service.refuses, service.says = "hippo", "too long:\x1b[2J\nnext " + "x" * 10_000
    encoder = remote(service)
    with pytest.raises(
        RefusedError, match=r"refuses a text of 8 characters \(400: too long:\\x1b\[2J next x+\.\.\.\)"
    ) as e:
        encoder.encode(["a hippo!"])
    assert not isinstance(e.value, InputError)  # it fails one subset, not the run
    assert len(str(e.value)) < 400


@pytest.mark.parametrize("normalize", ["false", "true"])
def test_what_was_answered_before_a_text_is_refused_is_given(service: Service, local: Encoder, normalize: str) -> None:
    service.encode = lambda texts: 3 * local.encode(texts)
    service.refuses = "hippo"
    encoder = remote(service, f"&normalize={normalize}")
    texts = ["", *SENTENCES, "a hippo!"]
    with pytest.raises(PartialError, match="refuses a text of 8 characters") as e:
        encoder.encode(texts)
    assert isinstance(e.value.error, RefusedError)
    expected = 3 * local.encode(texts)
    if normalize == "true":
        expected = normalise(expected)
    assert e.value.rows.tolist() == list(range(1, len(texts) - 1))  # a blank text costs nothing
    np.testing.assert_allclose(e.value.vectors, expected[1:-1], atol=1e-5)
    with pytest.raises(RefusedError):  # the vectors that it has are not the variant's
        Variant(encoder, Reduction(5)).encode(texts)


def test_a_text_that_is_refused_costs_nothing_else(service: Service, local: Encoder, tmp_path: Path) -> None:
    service.refuses = "hippo"
    encoder = remote(service, "&batch_size=16")
    texts = [*SENTENCES, "a hippo!"]
    with VectorCache(tmp_path).of(encoder) as vectors:
        for _ in range(4):
            with pytest.raises(RefusedError, match="refuses a text of 8 characters"):
                vectors.encode(texts)
            rows, stored = vectors.stored(texts)
            paid = [text for text in service.answered.elements() if text not in PROBES]
            assert sorted(texts[row] for row in rows) == sorted(paid)
    assert len(paid) > 100
    np.testing.assert_allclose(stored, local.encode([texts[row] for row in rows]), atol=1e-6)


def test_what_is_paid_before_the_limit_is_kept(service: Service, tmp_path: Path) -> None:
    encoder = remote(service, "&price=1e6&max_cost=4000&batch_size=8&concurrency=1")
    encoder.chunk_size = len(SENTENCES)  # type: ignore[misc]
    n_opened = len(service.bodies)

    def dearer(number: int) -> None:
        service.rate = 4 if number > n_opened + 3 else service.rate

    service.on_request = dearer
    with VectorCache(tmp_path).of(encoder) as vectors:
        with pytest.raises(EncoderError, match=r"max_cost=4000: .*what is paid is kept"):
            vectors.encode(SENTENCES)
        rows, _ = vectors.stored(SENTENCES)
        paid = {text for text in SENTENCES if service.answered[text]}
        assert 4 * 7 < len(paid) < len(SENTENCES) and {SENTENCES[row] for row in rows} == paid
        kept = vectors.encode([SENTENCES[row] for row in rows])
    tokens = service.tokens - sum(round(len("".join(body["input"])) * 0.25) for body in service.bodies[:n_opened])
    assert kept.n_new == 0 and kept.effort.usage["tokens"] == pytest.approx(tokens)


def test_a_chunk_is_one_round_of_requests(service: Service, tmp_path: Path) -> None:
    encoder = remote(service, "&batch_size=8&concurrency=3")
    service.bodies.clear()
    with VectorCache(tmp_path).of(encoder) as vectors:
        vectors.encode(SENTENCES[:42])
    assert service.sizes == [8] * 6


@pytest.mark.parametrize(("options", "dim"), [("", 0), ("&dimensions=32", 32)])
def test_a_variant_before_it_is_opened(service: Service, options: str, dim: int) -> None:
    unopened = remote(service, f"{options}&truncate_dim=16", dry_run=True)
    assert unopened.dim == 16 and unopened.base.dim == dim  # type: ignore[attr-defined]
    opened = remote(service, f"{options}&truncate_dim=16")
    assert unopened.name == opened.name == "tiny@16" and opened.dim == 16
    if dim:
        with pytest.raises(InputError, match="truncate_dim must be 1 to 32, not 33"):
            remote(service, f"{options}&truncate_dim=33", dry_run=True)


@pytest.mark.parametrize("options", ["&quantize=binary&truncate=11", "&truncate_dim=8&quantize=int8&prompt=q: "])
def test_the_dry_run_counts_what_is_sent(service: Service, tmp_path: Path, options: str) -> None:
    letters = Letters()
    service.encode = lambda texts: letters.encode(texts) + 1
    request = Request(
        encoders=[f"openai:tiny?base_url={service.url}{options}"],
        tasks=["sts17"],
        subsets=["en-de@sample"],
        suite="sample",
        cache_dir=tmp_path,
    )
    [counted], failures = forecast(request)
    assert not failures and not service.bodies
    outcome = run_suite(request)
    assert not outcome.failures
    probes = {text for text in service.answered if text.removeprefix("q: ")[:11] in {probe[:11] for probe in PROBES}}
    sent = {text: n for text, n in service.answered.items() if text not in probes}
    assert counted.n_sentences == sum(sent.values()) and counted.n_characters == sum(
        len(t) * n for t, n in sent.items()
    )


def test_a_variant_has_the_weights_of_the_stored_results_of_its_base(service: Service, tmp_path: Path) -> None:
    spec = f"openai:tiny?base_url={service.url}"
    service.encode = Letters().encode
    request = Request(
        [spec], ["sts17"], ["en-de@sample"], suite="sample", results=tmp_path, cache_dir=tmp_path / "cache"
    )
    outcome = run_suite(request)
    assert not outcome.failures
    [record] = outcome.results
    elsewhere = Run(VectorCache(tmp_path / "other"), ResultStore(tmp_path))
    variant, _, _ = load(check_spec(f"{spec}&truncate_dim=8"), elsewhere, {"dry_run": True})
    assert variant.name == "tiny@8" and variant.fingerprint == f"{record.fingerprint}|truncate_dim:8"


def test_answers_without_an_end(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_client, "_MOST_BYTES", 1 << 22)
    encoder = remote(service, "&timeout=1")
    service.plan = ["huge"]
    with pytest.raises(EncoderError, match="sent more than 4 MB in one answer"):
        encoder.encode(["ok"])
    service.plan = ["endless"]
    with pytest.raises(EncoderError, match="did not come to the end of an answer within 1 s"):
        encoder.encode(["ok"])


def test_nobody_there(service: Service) -> None:
    start = time.perf_counter()
    with pytest.raises(EncoderError, match=r"no connection to 127\.0\.0\.1:9 \(.*refused\); start the server, or give"):
        load_encoder("openai:tiny?base_url=http://127.0.0.1:9/v1")
    assert time.perf_counter() - start < 3
    encoder = remote(service, "&timeout=0.2&retries=0")
    service.pause = 0.5
    with pytest.raises(EncoderError, match=r"did not answer within 0\.2 s"):
        encoder.encode(["ok"])


def test_an_address_without_v1(service: Service) -> None:
    service.plan = [404]
    with pytest.raises(EncoderError, match=r"; most servers want base_url=http://127\.0\.0\.1:\d+/v1$"):
        load_encoder(f"openai:tiny?base_url={service.url.removesuffix('/v1')}")
    assert service.bodies[0]["path"] == "/embeddings" and len(service.bodies) == 1  # nothing else was tried


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("base_url=http://me:secret@host/v1", "leave out user name and password"),
        ("base_url=me:secret@host/v1", "leave out user name and password"),
        ("base_url=http://host/v1?key=secret", r"leave out of base_url what begins with \? or #"),
        ("base_url=localhost:80", "is no address; write http://HOST:PORT/v1"),
        ("base_url=http://host:99999", "is no address"),
        ("base_url=ftp://host", "is no address"),
        ("base_url=http://host/v1/embeddings", "leave /embeddings out"),
        ("key_env=sk-secret", "never the key"),
        ("key_env=secret123", "never the key"),
        ("key_env=NOT_SET_HERE", "is not set"),
        ("base_url=https://api.openai.com/v1", "OpenAI needs a key: set OPENAI_API_KEY"),
        ("base_url=http://API.openai.com/v1", "over http .*; write base_url=https://api.openai.com/v1"),
        ("base_url=http://api.openai.com:443/v1&key_env=PATH", "over http .*; write base_url=https://api"),
        ("batch_size=1", "batch_size must be at least 2"),
        ("concurrency=0", "concurrency must be above 0"),
        ("timeout=nan", "timeout must be above 0"),
        ("retries=-1", "retries must be 0 or more"),
        ("max_cost=1", "max_cost needs price"),
        ("dry_run=true", "unknown option"),
        ("known_fingerprints=x", "unknown option"),
    ],
)
def test_options_that_do_not_fit(monkeypatch: pytest.MonkeyPatch, options: str, message: str) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InputError, match=message) as failure:
        load_encoder(f"openai:tiny?{options}")
    assert "secret" not in str(failure.value) and len(str(failure.value).splitlines()) == 1


def test_who_gets_which_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OTHER_KEY", " other\n")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert address_of(None, None).key == KEY
    assert address_of("http://host/v1", None).key is None
    assert address_of("http://host/v1", "OTHER_KEY").key == "other"
    assert KEY not in repr(address_of(None, None))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://mine:80/v1/")
    assert address_of(None, None).key == KEY and address_of(None, None).url == "http://mine:80/v1"
    for bad in ("two words", "line\nbreak", "käse"):
        monkeypatch.setenv("OTHER_KEY", bad)
        with pytest.raises(InputError, match="the value of OTHER_KEY is no key") as failure:
            address_of(None, "OTHER_KEY")
        assert bad not in str(failure.value)


def test_the_key_is_sent_and_never_repeated(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    service.says = f"wrong key {KEY}, \x1b[31m{KEY * 20}"
    encoder = remote(service, "&key_env=MY_KEY&retries=0")
    for fault in (400, 401, 403, 404, 418, 429, 500):
        service.plan = [fault]
        with pytest.raises((EncoderError, RefusedError)) as failure:
            encoder.encode(["ok"]) if fault != 400 else encoder._server.embed(["ok"])  # type: ignore[attr-defined]
        assert KEY not in str(failure.value) and KEY[:10] not in str(failure.value) and "\x1b" not in str(failure.value)
    sent = " ".join(value for headers in service.headers for value in headers.values())
    assert f"Bearer {KEY}" in sent and "sk-admin" not in sent and "sk-of-openai" not in sent


@pytest.mark.parametrize("key", [None, KEY])
def test_nothing_of_the_environment_is_sent_but_the_key(
    service: Service, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    names = ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET", "ORGANIZATION", "API_TYPE")
    for name in names:
        monkeypatch.setenv(f"OPENAI_{name}", f"leak-{name}")
    extra = ("Authorization: Bearer leak-a", "X-Extra: leak-b", "Host: leak-c", "User-Agent: leak-d", "Cookie: leak-e")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "\n".join(extra))
    monkeypatch.setenv("MY_KEY", KEY)
    encoder = remote(service, "&key_env=MY_KEY" if key else "")
    service.plan = [429]  # what is sent again too
    encoder.encode(["ok"])
    host = service.url.removeprefix("http://").removesuffix("/v1")
    assert len(service.headers) == 4
    for headers in service.headers:
        sent = {name.lower(): value for name, value in headers.items()}
        assert not [value for value in sent.values() if "leak" in value]
        assert sent.get("authorization") == (f"Bearer {KEY}" if key else None)
        assert (sent["host"], sent["content-type"]) == (host, "application/json")
        expected = {"host", "content-type", "content-length", "accept", "accept-encoding", "user-agent", "connection"}
        assert sent.keys() - {"authorization"} <= expected


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(service: Service, local: Encoder, status: int) -> None:
    with serve(Service(local.encode)) as elsewhere:
        service.location = f"{elsewhere.url}/embeddings"
        service.plan = [status] * 20
        with pytest.raises(EncoderError, match=r"redirects to http://127.*nothing is sent; if you trust it") as failure:
            remote(service)
        assert not elsewhere.bodies and len(service.bodies) == 1
        assert elsewhere.url in str(failure.value)


def test_two_prompts_share_the_server_and_the_limit(service: Service, local: Encoder) -> None:
    spec = f"openai:tiny?base_url={service.url}&batch_size=8&price=1e6&prompt_query=q: &prompt_document=d: "
    both = load_sides(f"{spec}&max_cost=3000")
    assert isinstance(both, TwoSided)
    for side, prompt in ((both.query, "q: "), (both.document, "d: ")):
        assert side.fingerprint == remote(service, f"&batch_size=8&prompt={prompt}").fingerprint
        texts = [prompt + text for text in SENTENCES[:5]]
        np.testing.assert_allclose(side.encode(SENTENCES[:5]), local.encode(texts), rtol=0, atol=1e-6)
    spent = both.query.usage["cost"]  # type: ignore[attr-defined]
    assert spent == both.document.usage["cost"] > 0  # type: ignore[attr-defined]
    with pytest.raises(EncoderError, match="max_cost=3000"):
        for _ in range(100):
            both.query.encode(SENTENCES[:7])
            both.document.encode(SENTENCES[:7])
    assert both.document.usage["cost"] <= 3000  # type: ignore[attr-defined]
    n_requests = len(service.bodies)
    (forecasted,), _ = forecast(Request(encoders=[spec], tasks=["retrieval"], data_dir=_kb(), results=None))
    assert len(service.bodies) == n_requests and forecasted.n_sentences == 3
    assert forecasted.n_characters == len("q: wo") + len("d: hier") + len("d: dort")


def _kb() -> DataDir:
    kb = {"corpus": {"a": "hier", "b": "dort"}, "queries": {"q": "wo"}, "qrels": {"q": ["b"]}}
    return own_data(memory_sets({"kb": kb}))


def test_usage(service: Service) -> None:
    encoder = remote(service, "&price=2")
    encoder.encode(SENTENCES)
    assert encoder.usage["tokens"] == service.tokens  # type: ignore[attr-defined]
    assert encoder.usage["requests"] == len(service.bodies)  # type: ignore[attr-defined]
    assert encoder.usage["cost"] == pytest.approx(service.tokens * 2e-6)  # type: ignore[attr-defined]
    service.plan = ["silent"] * 8
    free = remote(service)
    free.encode(["ok"])
    assert set(free.usage) == {"requests"}  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="does not report tokens"):
        remote(service, "&price=2")


def test_no_more_is_spent_than_allowed(service: Service) -> None:
    encoder = remote(service, "&price=1e6&max_cost=1000&batch_size=8")
    start = service.tokens
    encoder.encode(SENTENCES[:20])
    before = len(service.bodies)
    with pytest.raises(EncoderError, match=r"max_cost=1000: \d+ is spent.*what is paid is kept"):
        encoder.encode(["x" * 100] * 100)
    assert len(service.bodies) == before  # said before anything of the call is sent
    for sentence in SENTENCES:
        try:
            encoder.encode([sentence])
        except EncoderError:
            break
    else:
        pytest.fail("nothing was refused")
    assert 900 < service.tokens <= 1000 and start < 600


def test_a_model_that_is_exchanged_in_a_run(service: Service, local: Encoder, tmp_path: Path) -> None:
    encoder = remote(service, "&batch_size=16&concurrency=2")
    cache = VectorCache(tmp_path)
    with cache.of(encoder) as vectors:
        vectors.encode(SENTENCES[:32])

        def exchange(number: int) -> None:
            if number == exchanged:
                service.encode = other(local)

        exchanged = len(service.bodies) + 3  # in the second of two chunks
        service.on_request = exchange
        with pytest.raises(VectorError, match=r"another model answers at .* than when this run began \(cosine"):
            vectors.encode(SENTENCES)
        rows, stored = vectors.stored(SENTENCES)
    np.testing.assert_allclose(stored, local.encode([SENTENCES[row] for row in rows]), atol=1e-6)
    assert 32 <= len(rows) < len(SENTENCES)


def test_generations(
    service: Service,
    local: Encoder,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    service.noise = 1e-3
    first = remote(service)
    with VectorCache().of(first) as vectors:
        vectors.encode(SENTENCES)
    assert first.conditions["repeatability"] > 0  # type: ignore[attr-defined]
    for _ in range(5):  # a sketch of its own each time, but for what is in the cache
        assert remote(service).fingerprint == first.fingerprint
    known = [first.fingerprint]
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "elsewhere"))
    assert remote(service, known_fingerprints=lambda: known).fingerprint == first.fingerprint
    assert "another model" not in capsys.readouterr().err
    service.encode = other(local)
    second = remote(service, known_fingerprints=lambda: known)
    assert second.fingerprint != first.fingerprint
    assert second.fingerprint.split("|weights")[0] == first.fingerprint.split("|weights")[0]
    assert "another model answers at" in capsys.readouterr().err
    service.encode = lambda texts: 2 * local.encode(texts)  # no longer of the same length
    service.noise = 0
    exact = remote(service)
    service.encode = lambda texts: local.encode(texts) / np.linalg.norm(local.encode(texts), axis=1, keepdims=True)
    capsys.readouterr()
    unit = remote(service, known_fingerprints=lambda: [exact.fingerprint])
    assert exact.fingerprint.replace("norm:any", "norm:unit") == unit.fingerprint
    assert "another model answers at" in capsys.readouterr().err


def test_a_server_that_cannot_be_repeated(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.noise = 0.2
    encoder = remote(service)
    assert encoder.conditions["repeatable"] == "no"  # type: ignore[attr-defined]
    assert encoder.conditions["repeatability"] in (0.01, 0.1, 1.0)  # type: ignore[attr-defined]
    assert "gives two equal requests vectors with a cosine of 0." in capsys.readouterr().err
    encoder.encode(SENTENCES)  # its probes are no nearer
    known = [encoder.fingerprint]
    assert all(remote(service, known_fingerprints=lambda: known).fingerprint in known for _ in range(3))


def test_sketches(local: Encoder) -> None:
    vectors = local.encode(PROBES)
    expected = []
    digest = shake_256(b"probe directions").digest(-(-2 * local.dim // 8))
    bits = "".join(f"{byte:08b}" for byte in digest)
    for vector in vectors / np.linalg.norm(vectors.astype(float), axis=1, keepdims=True):
        for direction in range(2):
            total = sum(x if bits[2 * i + direction] == "1" else -x for i, x in enumerate(vector))
            expected.append(f"{min(max(round(total * 32), -127), 127) + 128:02x}")
    assert sketch(vectors) == sketch(3 * vectors) == "".join(expected)
    source = np.random.default_rng(1)
    length = np.linalg.norm(vectors, axis=1, keepdims=True) / np.sqrt(local.dim)

    def moved(by: float) -> np.ndarray:
        return (vectors + by * length * source.normal(size=vectors.shape)).astype(np.float32)

    for _ in range(50):
        near, far = moved(0.003), moved(0.1)
        assert unlike(near, vectors) < SAME / 10 and unlike(far, vectors) > SAME
        assert nearest_sketch(sketch(near), ["00" * 32, sketch(vectors)], 0) == sketch(vectors)
        assert nearest_sketch(sketch(far), [sketch(vectors)], 0) is None
    for row in range(len(PROBES)):  # one text alone, as after a change of the tokenizer
        changed = vectors.copy()
        changed[row] = vectors[(row + 5) % len(PROBES)]
        assert nearest_sketch(sketch(changed), [sketch(vectors)], 0) is None


def test_requests_at_once(service: Service) -> None:
    def until_there_are_four(number: int) -> None:
        end = time.monotonic() + 10
        while max(service.most_active) < 4 and time.monotonic() < end:
            time.sleep(0.002)

    encoder = remote(service, "&batch_size=2&concurrency=4")
    service.on_request = until_there_are_four
    service.most_active.clear()
    encoder.encode(SENTENCES[:16])
    assert max(service.most_active) == 4
    service.plan, service.retry_after = [429, 429, 429, 429], "0.05"
    service.most_active.clear()
    encoder.encode(SENTENCES[:8])
    assert max(service.most_active[4:]) <= 3  # four refusals at once are one sign: half as many, then slowly more
    service.most_active.clear()
    encoder.encode(SENTENCES[:80])
    assert max(service.most_active) == 4


def test_what_fails_leaves_no_threads(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = remote(service, "&batch_size=2&concurrency=4")
    service.plan, service.pause = [401] + [500] * 50, 0.05
    before = len(service.bodies)
    with pytest.raises(EncoderError, match="401"):
        encoder.encode(SENTENCES)
    end = time.monotonic() + 5
    while any(thread.name.startswith("openai") for thread in threading.enumerate()):
        assert time.monotonic() < end, threading.enumerate()
        time.sleep(0.01)
    assert len(service.bodies) - before <= 12  # of 61


Leaderboard = Callable[..., "object"]
SETS = ("--task", "sts17", "--suite", "sample", *(f"--subset={name}@sample" for name in ("en-de", "ar-ar", "es-es")))
RUN = ("run", *SETS)


def grep(folder: Path, text: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def records(folder: Path, encoder: str) -> dict[str, dict]:  # type: ignore[type-arg]
    file = folder / "results" / "records" / encoder / "sts17.json"
    return {record["subset"]: record for record in json.loads(file.read_text(encoding="utf-8"))}


@pytest.mark.slow
def test_a_run(service: Service, local: Encoder, leaderboard, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    spec = f"openai:tiny?base_url={service.url}&key_env=HARNESS_TEST_KEY&price=2&batch_size=64"
    environment = {"HARNESS_TEST_KEY": KEY, "HARNESS_CACHE": str(tmp_path / "cache"), "HARNESS_DEBUG": "1"}
    planned = leaderboard(*RUN, "--encoder", spec, "--encoder", "chargrams", "--dry-run", **environment)
    assert planned.returncode == 0 and not service.bodies and not (tmp_path / "results").exists()
    row = next(line.split() for line in planned.stdout.splitlines() if line.strip().startswith("tiny"))
    service.plan = [429, "cut", "shuffle", 500, "lists"]
    done = leaderboard(*RUN, "--encoder", spec, **environment)
    assert done.returncode == 0, done.stderr
    mine = records(tmp_path, "tiny")
    for expected in evaluate(local, "sts17", subsets=["en-de@sample", "ar-ar@sample", "es-es@sample"]):
        assert mine[expected.subset]["metrics"] == pytest.approx(expected.metrics, abs=1e-4)
    sentences = {text: n for text, n in service.answered.items() if text not in PROBES}
    assert set(sentences.values()) == {1}
    n_sets = sum(not record["parts"] for record in mine.values())
    assert row[1:4] == [str(n_sets), f"{len(sentences):,}", f"{sum(map(len, sentences)):,}"]
    assert float(row[5]) == pytest.approx(sum(map(len, sentences)) / 4 * 2e-6, abs=1e-4)
    usage = mine["en-de@sample"]["usage"]
    assert usage["cost"] == pytest.approx(usage["tokens"] * 2e-6, abs=1e-3) and usage["requests"] > 0
    assert mine["en-de@sample"]["conditions"]["repeatability"] == 0
    assert mine["en-de@sample"]["hardware"]["device"] == "remote" and "openai" in mine["en-de@sample"]["versions"]

    # Elsewhere, with vectors that differ by rounding: a record alone opens nothing, and is found when it is named.
    weights = mine["en-de@sample"]["fingerprint"].partition("weights:")[2].partition("|")[0]
    rounded = f"{int(weights[:2], 16) + 1:02x}{weights[2:]}"
    for file in (tmp_path / "results" / "records").rglob("*.json"):
        file.write_text(file.read_text(encoding="utf-8").replace(weights, rounded), encoding="utf-8")
    service.noise = 1e-5
    n_asked = len(service.bodies)
    environment["HARNESS_CACHE"] = str(tmp_path / "other")
    check = ["check", "--against", "results", *SETS, "--encoder"]
    refused = leaderboard(*check, "tiny", **environment)
    assert refused.returncode == 2 and "sends texts to a server" in refused.stderr and len(service.bodies) == n_asked
    assert mine["en-de@sample"]["spec"] in refused.stderr
    checked = leaderboard(*check, mine["en-de@sample"]["spec"], **environment)
    assert checked.returncode == 0, checked.stdout + checked.stderr

    again = leaderboard(*RUN, "--encoder", spec, "--dry-run", **environment)
    assert next(line.split() for line in again.stdout.splitlines() if line.strip().startswith("tiny"))[1] == "0"

    # Another model under the same name is told, and its results are not mixed with the others.
    service.encode, service.noise = other(local), 0
    changed = leaderboard(*RUN, "--encoder", spec, **environment)
    assert changed.returncode == 2 and "another model answers at" in changed.stderr

    # The key is nowhere, whatever goes wrong.
    outputs = [planned, done, refused, checked, again, changed]
    service.says = f"what is {KEY}?"
    for fault in (401, 400):
        service.plan = [fault] * 40
        failed = leaderboard(*RUN, "--encoder", f"{spec}&retries=0&name=new", **environment)
        assert failed.returncode == 2, failed.stderr
        outputs.append(failed)
    assert f"Bearer {KEY}" in service.headers[-1].values() or KEY in str(service.headers[-1])
    assert not any(KEY in each.stdout + each.stderr for each in outputs)
    assert not grep(tmp_path, KEY)


@pytest.mark.slow
def test_a_text_that_is_refused_fails_its_subset(
    service: Service,
    leaderboard,
    tmp_path: Path,  # type: ignore[no-untyped-def]
) -> None:
    spec = f"openai:tiny?base_url={service.url}"
    whole = leaderboard(*RUN, "--encoder", spec)
    assert whole.returncode == 0
    arabic = next(text for text in service.answered if "\u0645" in text and text not in PROBES)
    service.refuses = arabic
    done = leaderboard(*RUN, "--encoder", f"{spec}&name=strict", "--fresh", HARNESS_CACHE=str(tmp_path / "new"))
    assert done.returncode == 3, done.stderr
    failed = [line for line in done.stderr.splitlines() if "FAILED" in line]
    assert 1 <= len(failed) <= 2 and all("refuses a text of" in line and "sts17 " in line for line in failed)
    kept = set(records(tmp_path, "strict"))
    assert {"en-de@sample", "es-es@sample"} <= kept and len(kept) < len(records(tmp_path, "tiny"))


@pytest.mark.slow
def test_a_paid_run_that_is_broken_off_goes_on(
    service: Service,
    leaderboard,
    tmp_path: Path,  # type: ignore[no-untyped-def]
) -> None:
    cache = {"HARNESS_CACHE": str(tmp_path / "cache")}
    spec = f"openai:tiny?base_url={service.url}&batch_size=16&concurrency=2&price=1e6&retries=0"

    def paid_twice() -> int:
        return sum(n - 1 for text, n in service.answered.items() if text not in PROBES)

    # By the limit: nothing of what was paid is lost.
    stopped = leaderboard(*RUN, "--encoder", f"{spec}&max_cost=3000", **cache)
    assert stopped.returncode == 3 and "max_cost=3000" in stopped.stderr and "Traceback" not in stopped.stderr
    assert 2000 < service.tokens <= 3000
    # By a server that goes away: what it has answered is kept.
    service.plan = [None] * 8 + ["cut"] * 4  # type: ignore[list-item]
    stopped = leaderboard(*RUN, "--encoder", spec, **cache)
    assert stopped.returncode == 3 and "no connection to" in stopped.stderr
    assert not [text for text in service.answered if service.answered[text] > 1 and text not in PROBES]
    service.plan = []
    done = leaderboard(*RUN, "--encoder", spec, **cache)
    assert done.returncode == 0, done.stderr
    assert paid_twice() == 0
    assert len(records(tmp_path, "tiny")) == len(SETS) - 4


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("signal", [pytest.param("SIGINT", marks=pytest.mark.nightly), "SIGKILL"])
def test_a_run_that_is_killed(
    service: Service,
    fork_servers,
    tmp_path: Path,
    signal: str,  # type: ignore[no-untyped-def]
) -> None:
    import signal as signals

    spec = f"openai:tiny?base_url={service.url}&batch_size=16&concurrency=2"
    environment = {**os.environ, "HARNESS_CACHE": str(tmp_path / "cache")}
    command = [*RUN, "--encoder", spec]
    service.pause = 0.05
    running = next(fork_servers).start(command, tmp_path, environment)
    end = time.monotonic() + 60
    while len(service.bodies) < 12:
        assert time.monotonic() < end
        time.sleep(0.01)
    service.pause = 30  # what it waits for now does not come
    while service.n_active < 2:
        time.sleep(0.01)
    start = time.monotonic()
    os.kill(running.pid, getattr(signals, signal))
    running.wait(20)
    assert time.monotonic() - start < 5
    service.pause = 0
    done = next(fork_servers).run(command, tmp_path, environment)
    assert done.returncode == 0, done.stderr
    assert sum(n - 1 for text, n in service.answered.items() if text not in PROBES) <= 32
