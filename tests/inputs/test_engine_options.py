"""Recorded engine options: valid command lines, and messages about others."""

from __future__ import annotations

import pytest

from inference_econ.errors import InputError
from inference_econ.inputs import EngineOptions
from inference_econ.inputs.engine import launch_options as starting

RECORDED = [(name, version) for name in starting.recorded() for version in starting.versions(name)]


@pytest.fixture(scope="module")
def vllm() -> EngineOptions:
    return starting.options("vllm", "0.33.0")


@pytest.mark.parametrize(("engine", "version"), RECORDED)
def test_every_recording_is_of_its_name(engine: str, version: str) -> None:
    options = starting.options(engine, version)
    assert (options.engine, options.version) == (engine, version)
    assert all(options.commands.values())


def test_versions_are_in_their_order() -> None:
    assert starting.versions("sglang") == ("0.5.3", "0.5.10", "0.5.23")
    assert starting.options("sglang").version == "0.5.23"


def test_recordings_hold_no_prose() -> None:
    for engine, version in RECORDED:
        for command in starting.options(engine, version).commands.values():
            assert all(len(name) < 80 and " " not in name for option in command for name in option.names)


def test_a_command_line_is_read_as_the_engine_reads_it(vllm: EngineOptions) -> None:
    words = ["m/x", "-tp", "8", "--max-model-len=2500", "--enable-expert-parallel"]
    words += ["--cudagraph-capture-sizes", "1", "2"]
    words += ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}']
    assert vllm.parse("vllm serve", words) == {
        "model_tag": "m/x",
        "--tensor-parallel-size": 8,
        "--max-model-len": 2500,
        "--enable-expert-parallel": True,
        "--cudagraph-capture-sizes": [1, 2],
        "--speculative-config": {"method": "mtp", "num_speculative_tokens": 3},
    }


@pytest.mark.rows
def test_what_the_engine_would_refuse_is_refused(vllm: EngineOptions, words: list[str], message: str) -> None:
    with pytest.raises(InputError) as error:
        vllm.parse("vllm serve", words)
    assert message in str(error.value)


def test_keys_of_a_file_are_known() -> None:
    trtllm = starting.options("trtllm")
    trtllm.check_file("trtllm-serve config", {"kv_cache_config": {"free_gpu_memory_fraction": 0.8}})
    with pytest.raises(InputError, match=r"no kv_cache_config\.free_gpu_memory; nearest: kv_cache_config\.free"):
        trtllm.check_file("trtllm-serve config", {"kv_cache_config": {"free_gpu_memory": 0.8}})
    with pytest.raises(InputError, match=r"cuda_graph_config\.max_batch_size 'many': an integer is needed"):
        trtllm.check_file("trtllm-serve config", {"cuda_graph_config": {"max_batch_size": "many"}})
