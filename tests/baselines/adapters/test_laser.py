import re
import shutil

import numpy as np
import pytest
from command_line import one_line_error
from http_files import Site, serve
from laser_files import CHECKPOINT, CODES, DIM, GREEK, VOCABULARY, sample, write_laser

from baselines.adapters import laser
from harness import evaluate
from harness.core.errors import HarnessError, InputError
from harness.data.tatoeba import languages
from harness.encoders.cache import default_cache_dir
from harness.encoders.registry import check_spec, encoder_info, load_encoder
from harness.testing import check_encoder

torch = pytest.importorskip("torch")
laserembeddings = pytest.importorskip("laserembeddings")
torch.set_num_threads(1)  # the library's own calls crawl with more on a machine that is busy with other tests

FILES = (CODES, VOCABULARY, CHECKPOINT)
ENGLISH = [*sample("deu", "eng")[:20], "", "ok", "Dr. Smith's house costs £5.30, doesn't it?", "a man " * 90]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_laser(tmp_path_factory.mktemp("laser") / "tiny")


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


def by_library(folder, sentences, lang):
    """The library's own call, one sentence at a time."""
    library = laserembeddings.Laser(*(str(folder / name) for name in FILES), embedding_options={"cpu": True})
    return np.concatenate([library.embed_sentences(text, lang=lang) for text in sentences])


def load(folder, **options):
    return laser.load(str(folder), device="cpu", **options)


@pytest.mark.parametrize(
    ("lang", "sentences"),
    [("en", ENGLISH), ("de", sample("deu", "deu")), ("el", GREEK), ("ru", sample("rus", "rus")), ("tr", ENGLISH)],
)
def test_vectors_are_the_librarys(folder, lang, sentences):
    found = load(folder).encode(sentences, lang=lang)
    assert found.dtype == np.float32 and found.shape == (len(sentences), DIM)
    np.testing.assert_allclose(found, by_library(folder, sentences, lang), atol=1e-6)


def test_order_batch_size_and_length_of_batches_do_not_matter(folder, monkeypatch):
    shuffled = np.random.default_rng(0).permutation(len(ENGLISH))
    reference = load(folder).encode(ENGLISH, lang="en")
    for batch_size, most_tokens in [(1, 4000), (3, 4000), (1000, 50)]:
        monkeypatch.setattr(laser, "_MAX_TOKENS", most_tokens)
        found = load(folder, batch_size=batch_size).encode([ENGLISH[i] for i in shuffled], lang="en")
        np.testing.assert_allclose(found, reference[shuffled], atol=1e-5)


def test_the_language_decides_how_a_sentence_is_tokenised(folder):
    encoder = load(folder)

    def differ(text, lang, other):
        return np.abs(encoder.encode([text], lang=lang) - encoder.encode([text], lang=other)).max() > 1e-3

    assert differ(GREEK[0], "el", "en")  # romanised
    assert differ("the man's house", "en", "de")  # the apostrophe
    assert differ("siehe bzw. Dort", "de", "en")  # an abbreviation
    assert not differ("a man plays the guitar", "en", "de")
    assert not differ("Dr. Man's house", "tr", "kab")  # Moses has nothing for either: English abbreviations
    assert not differ("siehe bzw. Dort", "tr", "en") and differ("siehe bzw. Dort", "tr", "de")
    # ISO 639-3 and 639-2 of languages that have a two-letter code.
    for code, other in [("ell", "el"), ("gre", "el"), ("deu", "de"), ("ger", "de"), ("deu", "ger")]:
        assert not differ(GREEK[0], code, other) and not differ("siehe bzw. Dort", code, other)


def test_keeps_the_contract(folder):
    check_encoder(load_encoder(f"laser:{folder}?batch_size=4"))
    check_encoder(load_encoder(f"laser:{folder}"), lang="kab")
    assert encoder_info("laser").dim == 1024 and encoder_info("laser").is_alias


def test_present_checkpoint_format(folder, tmp_path):
    zipped = write_laser(tmp_path / "zipped", zipped=True)
    np.testing.assert_array_equal(load(zipped).encode(ENGLISH, lang="en"), load(folder).encode(ENGLISH, lang="en"))


def test_odd_texts(folder):
    encoder = load(folder)
    odd = ["a \ud800 man", "a \N{REPLACEMENT CHARACTER} man", "", " \n\0", "a man " * 1667, "a man " * 3000]
    found = encoder.encode(odd, lang="en")
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    np.testing.assert_allclose(found[2], found[3], atol=1e-6)  # the end-of-sentence token alone
    np.testing.assert_allclose(found[4], found[5], atol=1e-5)  # both are cut after 10,000 characters
    assert np.isfinite(found).all()
    assert encoder.encode([], lang="en").shape == (0, DIM)


def test_a_long_run_does_not_remember_every_word(folder, monkeypatch):
    monkeypatch.setattr(laser, "_MAX_WORDS", 50)
    encoder = load(folder)
    before = encoder.encode(ENGLISH, lang="en")
    encoder.encode([f"word{i}" for i in range(100)], lang="en")
    assert len(encoder._library.bpe.bpe.cache) == 0
    np.testing.assert_array_equal(encoder.encode(ENGLISH, lang="en"), before)


def test_the_buffer_that_threads_share_is_large_enough_before_they_start(folder, monkeypatch):
    """The library enlarges it without a lock."""
    from laserembeddings.encoder import buffered_arange

    buffered_arange.buf = torch.LongTensor()
    sizes = []

    def record(texts):
        sizes.append(buffered_arange.buf.numel())
        return np.zeros((len(texts), DIM), np.float32)

    encoder = load(folder, batch_size=1)
    monkeypatch.setattr(encoder, "_encode_batch", record)
    encoder.encode(["ok", "a " * 50, "ok ok"], lang="en")
    assert len(sizes) == 3 and min(sizes) >= 51


def test_fingerprints(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "README").write_text("no file of LASER's")
    assert load(copy, batch_size=2).fingerprint == load(folder).fingerprint
    assert "copy" not in load(copy).fingerprint and "sacremoses=" in load(copy).fingerprint
    prints = {
        load(folder).fingerprint,
        load(folder, lang="ell").fingerprint,
        load(write_laser(copy, seed=1)).fingerprint,
    }
    for name in (CODES, VOCABULARY):
        changed = shutil.copytree(folder, tmp_path / name)
        lines = (changed / name).read_text().splitlines(keepends=True)
        (changed / name).write_text("".join(lines[:-1]))
        prints.add(load(changed).fingerprint)
    assert len(prints) == 5


def test_a_language_that_the_tokeniser_does_not_know(folder):
    encoder = load(folder)
    for lang in ("xx", "jp", "zzz", "eng-US", "klingon", "EN", "e", "", "de-AT", "de\n"):
        with pytest.raises(InputError, match="is no language that LASER's tokeniser knows; give its ISO 639-1 code"):
            encoder.encode(["a"], lang=lang)
    with pytest.raises(InputError, match="LASER tokenises by language and none is given; add the option lang=CODE"):
        encoder.encode(["a"])
    with pytest.raises(InputError, match="'english' is no language"):
        load_encoder(f"laser:{folder}?lang=english")
    by_default = load_encoder(f"laser:{folder}?lang=el")
    np.testing.assert_array_equal(by_default.encode(GREEK), encoder.encode(GREEK, lang="el"))
    np.testing.assert_array_equal(by_default.encode(ENGLISH, lang="en"), encoder.encode(ENGLISH, lang="en"))


SAME = (
    "zho=zh chi=zh cmn=zh gre=el ger=de fre=fr jpn=ja baq=eu tib=bo arb=ar als=sq ekk=et fil=tl kw=kw ber=ber wuu=wuu "
    "yue=yue mni=mni"
)


@pytest.mark.parametrize(("code", "known"), [pair.split("=") for pair in SAME.split()])
def test_every_code_of_a_language_is_one_to_the_library(code, known):
    assert laser._language("laser", code) == known


def test_the_languages_of_tatoeba_and_of_moses_are_known():
    from sacremoses.corpus import NonbreakingPrefixes

    for code, language in languages().items():
        assert laser._language("laser", code) == laser._language("laser", language.lang) == language.lang
    for code in NonbreakingPrefixes().available_langs.values():
        assert laser._language("laser", code) == code
    lines = [line for line in laser._ISO_639.read_text().splitlines() if not line.startswith("#")]
    codes = [code for line in lines for code in line.split()]
    assert len(codes) == len(set(codes)) == 2 * 183 + 20 + 16  # 20 have another code in 639-2, 16 a member


@pytest.mark.parametrize(
    ("lang", "module", "extra"),
    [
        ("ja", "MeCab", "ja"),
        ("jpn", "MeCab", "ja"),
        *((code, "jieba", "zh") for code in ("zh", "zho", "chi", "wuu")),
    ],
)
def test_a_tokeniser_that_is_not_installed(folder, monkeypatch, lang, module, extra):
    monkeypatch.setattr(f"laserembeddings.preprocessing.{module}", None)
    with pytest.raises(InputError) as error:
        load(folder).encode([], lang=lang)
    known = {"jpn": "ja", "zho": "zh", "chi": "zh"}.get(lang, lang)
    assert str(error.value) == (
        f"laser: LASER tokenises {known!r} with {module}, which is not installed: "
        f'pip install "laserembeddings-fork[{extra}]"'
    )


@pytest.mark.parametrize(
    ("lang", "module", "text"), [("zh", "jieba", "一个男人在弹吉他。"), ("ja", "MeCab", "男はギターを弾く。")]
)
def test_chinese_and_japanese(folder, lang, module, text):
    pytest.importorskip(module)
    expected = by_library(folder, [text, ""], lang)
    for code in {"zh": ("zh", "zho", "chi", "cmn"), "ja": ("ja", "jpn")}[lang]:
        np.testing.assert_allclose(load(folder).encode([text, ""], lang=code), expected, atol=1e-6)
    tokenise = load(folder)._tokeniser
    assert tokenise(code)(text) != tokenise("en")(text)  # Moses alone parts the characters


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def save(path, **changes):
    checkpoint = torch.load(path, weights_only=True)
    torch.save({**checkpoint, **changes}, path)


def not_plain(path):
    torch.save({"params": pytest.raises}, path)


def another_size(path):
    checkpoint = torch.load(path, weights_only=True)
    save(path, params={**checkpoint["params"], "hidden_size": 10})


BAD = {
    "truncated": (CHECKPOINT, cut, "is damaged, or is no checkpoint of tensors"),
    "truncated zip": (CHECKPOINT, lambda path: (save(path), cut(path)), "is damaged, or is no checkpoint of tensors"),
    "empty": (CHECKPOINT, lambda path: path.write_bytes(b""), "is damaged, or is no checkpoint of tensors"),
    "text": (CHECKPOINT, lambda path: path.write_text("<html>"), "is damaged, or is no checkpoint of tensors"),
    "code": (CHECKPOINT, not_plain, "is damaged, or is no checkpoint of tensors and plain values alone"),
    "a list": (CHECKPOINT, lambda path: torch.save([1], path), "must hold the dictionaries params, model, dictionary"),
    "no params": (CHECKPOINT, lambda path: save(path, params=None), "must hold the dictionaries params, model"),
    "other params": (CHECKPOINT, lambda path: save(path, params={"num_embeddings": 999}), "not the weights of LASER's"),
    "another size": (CHECKPOINT, another_size, "not the weights of LASER's encoder"),
    "no </s>": (CHECKPOINT, lambda path: save(path, dictionary={"<pad>": 1}), "not the weights of LASER's encoder"),
    "too large": (CHECKPOINT, lambda path: save(path, dictionary={"<pad>": 10**9}), "subwords that have no embedding"),
    "no file": (
        CHECKPOINT,
        lambda path: path.unlink(),
        "is missing; LASER needs 93langs.fcodes, 93langs.fvocab, bilstm",
    ),
    "no codes": (CODES, lambda path: path.unlink(), "is missing; LASER needs"),
    "codes of one": (CODES, lambda path: path.write_text("e n</w> 9\nthe\n"), ":2: 'the' is no line of BPE codes"),
    "codes of four": (CODES, lambda path: path.write_text("e n 9 9\n"), ":1: 'e n 9 9' is no line of BPE codes"),
    "empty codes": (CODES, lambda path: path.write_text(""), ":1: '' is no line of BPE codes"),
    "binary codes": (CODES, lambda path: path.write_bytes(b"\xff\xfe"), "cannot be read as text"),
    "vocabulary": (VOCABULARY, lambda path: path.write_text("the\n"), ":1: 'the' is no line of a BPE vocabulary"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files(folder, tmp_path, case, capfd):
    name, spoil, message = BAD[case]
    bad = shutil.copytree(folder, tmp_path / "bad")
    spoil(bad / name)
    with pytest.raises(InputError) as error:
        load(bad)
    assert str(bad / name) in str(error.value) and message in str(error.value) and "\n" not in str(error.value)
    assert capfd.readouterr() == ("", "")


def test_other_one_line_errors(folder, tmp_path, monkeypatch):
    for spec, message in [
        (f"laser:{tmp_path}/none", "no LASER folder .*none': it holds 93langs.fcodes, 93langs.fvocab, bilstm"),
        (f"laser:{folder}?batch_size=0", "batch_size must be at least 1, not 0"),
        (f"laser:{folder}?device=gpu", "unknown value of .*device"),
        (f"laser:{folder}?location=x", "unknown option"),
    ]:
        with pytest.raises(InputError, match=message):
            load_encoder(spec)
    with pytest.raises(InputError, match="device is cpu or cuda, not 'cuda:1'; CUDA_VISIBLE_DEVICES"):
        load_encoder(f"laser:{folder}", device="cuda:1")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="PyTorch has no GPU here"):
            load_encoder(f"laser:{folder}?device=cuda")
    monkeypatch.setattr("harness.encoders.info._is_module", lambda name: name != "laserembeddings")
    with pytest.raises(HarnessError, match=r'needs: pip install "multilingual-embedding-harness\[laser\]"'):
        check_spec(f"laser:{folder}")


def test_a_task_tells_the_language(folder, tmp_path):
    """Tatoeba in Greek, against the library's vectors and a plain loop."""
    english = ["The man plays the guitar.", "Good morning!", "The train is late."]
    data = own_tatoeba(tmp_path, ell=(GREEK, english))
    (result,) = evaluate(load(folder), "tatoeba", subsets=["ell@own"], data_dir=data, cache_dir=tmp_path / "cache")

    def accuracy(queries, candidates):
        right = 0
        for i, query in enumerate(queries):
            cosines = [float(query @ c) / float(np.linalg.norm(c)) for c in candidates]
            right += cosines.index(max(cosines)) == i
        return 100 * right / len(queries)

    el, en = by_library(folder, GREEK, "el"), by_library(folder, english, "en")
    assert result.metrics["accuracy_en_xx"] == pytest.approx(accuracy(en, el))
    assert result.metrics["accuracy_xx_en"] == pytest.approx(accuracy(el, en))


def own_tatoeba(root, **sides):
    folder = root / "data" / "tatoeba-own" / "v1"
    folder.mkdir(parents=True)
    for code, (foreign, english) in sides.items():
        (folder / f"tatoeba.{code}-eng.{code}").write_text("".join(f"{text}\n" for text in foreign))
        (folder / f"tatoeba.{code}-eng.eng").write_text("".join(f"{text}\n" for text in english))
    return root / "data"


def test_command_line(folder, tmp_path, leaderboard, torch_leaderboard):
    def run(spec, *options):
        return torch_leaderboard("run", "--task", "tatoeba", "--encoder", spec, *options)

    done = run(f"laser:{folder}", "--subset", "deu@sample", "--subset", "rus@sample")
    assert done.returncode == 0, done.stderr
    assert not re.search("Traceback|Warning", done.stderr) and "tiny" in done.stdout

    data = own_tatoeba(tmp_path, qq=(["a", "b"], ["a", "b"]), jpn=(["男は", "女は"], ["he", "she"]))
    own = ["--data-dir", str(data), "--subset"]
    assert "'qq' is no language that LASER's tokeniser knows" in one_line_error(run(f"laser:{folder}", *own, "qq@own"))
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "MeCab.py").write_text("raise ImportError")
    done = leaderboard(
        "run", "--task", "tatoeba", "--encoder", f"laser:{folder}", *own, "jpn@own", PYTHONPATH=str(tmp_path / "hidden")
    )
    assert one_line_error(done).endswith('not installed: pip install "laserembeddings-fork[ja]"')
    bad = shutil.copytree(folder, tmp_path / "bad")
    cut(bad / CHECKPOINT)
    assert "is damaged" in one_line_error(run(f"laser:{bad}", "--subset", "deu@sample"))


def test_the_release_is_fetched_once(folder, empty_cache, monkeypatch, capsys):
    contents = {f"/laser/models/{name}": (folder / name).read_bytes() for name in FILES}
    info = encoder_info("laser")
    assert info.download_mb == pytest.approx(212) and not info.is_ready
    assert "leaderboard encoders --fetch laser (212 MB)" in info.needs("laser")
    with serve(Site(files=contents, cut_after=[1000])) as site:
        monkeypatch.setenv("HARNESS_MIRROR", site.url)
        encoder = load_encoder("laser?device=cpu")
        asked = len(site.requests)
        assert asked == 4  # one of the three broke off and was resumed
        load_encoder("laser?device=cpu")
        assert len(site.requests) == asked
    assert capsys.readouterr().err == "downloading 212 MB for laser-93langs\n"
    assert (encoder.name, encoder.fingerprint) == ("laser", load(folder).fingerprint)
    assert info.is_ready and info.download_mb == 0
    place = default_cache_dir() / "models" / "laser-93langs"
    assert sorted(path.name for path in place.iterdir()) == sorted(FILES)


def test_a_file_that_differs_from_the_first_download_is_refused(folder, empty_cache, monkeypatch):
    contents = {f"/laser/models/{name}": (folder / name).read_bytes() for name in FILES}
    with serve(Site(files=contents)) as site:
        monkeypatch.setenv("HARNESS_MIRROR", site.url)
        place = laser.fetch()
        (place / CODES).unlink()
        site.files[f"/laser/models/{CODES}"] += b"a b 1\n"
        with pytest.raises(
            InputError, match=r"was not fetched \(sha256 of laser-93langs/93langs.fcodes is .* expected"
        ) as error:
            laser.fetch()
        assert f"(they are held against {place.parent / 'checksums.sha256'})" in str(error.value)
        assert laser.missing_mb(None) == 1


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_of_the_release_is_fetched_again(folder, empty_cache, monkeypatch, capsys, name):
    contents = {f"/laser/models/{file}": (folder / file).read_bytes() for file in FILES}
    with serve(Site(files=contents)) as site:
        monkeypatch.setenv("HARNESS_MIRROR", site.url)
        place = laser.fetch() / name
        for fetch in (laser.fetch, lambda: load_encoder("laser?device=cpu")):
            cut(place)
            site.requests.clear()
            capsys.readouterr()
            fetch()
            assert [path for path, _ in site.requests] == [f"/laser/models/{name}"]
            assert f"{place} is damaged (its sha256 differs from the pinned one): deleted\n" in capsys.readouterr().err
            assert place.read_bytes() == (folder / name).read_bytes()
        site.requests.clear()
        laser.fetch()
        assert not site.requests


def test_the_name_of_a_damaged_file_does_nothing_to_a_log(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "\n::error::\x1b[31m##[group]"))
    contents = {f"/laser/models/{file}": (folder / file).read_bytes() for file in FILES}
    with serve(Site(files=contents)) as site:
        monkeypatch.setenv("HARNESS_MIRROR", site.url)
        cut(laser.fetch() / FILES[0])
        capsys.readouterr()
        laser.fetch()
    said = capsys.readouterr().err
    assert "is damaged" in said.splitlines()[0] and "\n::" not in said and "\x1b" not in said and "##[" not in said


def test_damaged_files_that_nothing_is_known_of_are_to_be_deleted(folder, empty_cache):
    shutil.copytree(folder, laser.release_folder())
    cut(laser.release_folder() / CHECKPOINT)
    with pytest.raises(InputError, match=f"{CHECKPOINT} is damaged.*; delete it, then copy or fetch it again$"):
        load_encoder("laser?device=cpu")


def test_a_release_that_cannot_be_fetched(empty_cache, monkeypatch):
    with serve(Site()) as site:
        monkeypatch.setenv("HARNESS_MIRROR", site.url)
        with pytest.raises(InputError) as error:
            load_encoder("laser")
    assert str(error.value).startswith("laser-93langs was not fetched (HTTP 404 Not Found): download https://dl.fb")
    place = default_cache_dir() / "models" / "laser-93langs"
    assert str(error.value).endswith(f" by other means into {place}, or set HARNESS_MIRROR")
    monkeypatch.setenv("HARNESS_CACHE", "/dev/null/cache")
    with pytest.raises(InputError, match=r"cannot be written \(Not a directory\); set HARNESS_CACHE"):
        laser.fetch()


def test_size_and_parameters(folder):
    import torch

    encoder = load(folder)
    weights = torch.load(folder / CHECKPOINT, weights_only=True)["model"]
    assert encoder.n_parameters == sum(tensor.numel() for tensor in weights.values())
    assert encoder.size_bytes == sum((folder / name).stat().st_size for name in FILES)
