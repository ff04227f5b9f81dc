"""Bad input: one clear message, exit code 2 (1 if nothing fits), no traceback, and nothing written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from inference_econ.inputs import catalog
from inference_econ.report import gallery
from tests.cli.conftest import Command

PAPER = ("--assumptions", "paper")
FRONTIER = ("frontier", "llama_3_8b", "h100_sxm", "--max-instance-gpus", "4")
STEPS = (*FRONTIER, "--decode-only")
EXPLAIN = ("explain", "llama_3_70b", "h100_sxm", "--tp", "8")


def _what_if(change: str) -> list[str]:
    return [*FRONTIER, "--set", change]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        # Unknown names.
        (["frontier", "llama_3_70", "h100_sxm"], r"unknown model 'llama_3_70'; did you mean llama_3_70b"),
        (["frontier", "llama_3_70b", "gh200"], r"'gh200' could be gh200_144 .* or gh200_96 .*; name one"),
        (["explain", "gtp_4", "h100_sxm"], r"unknown model 'gtp_4'; did you mean gpt_4"),
        (["explain", "Llama-3-71B", "h100"], r"unknown model 'Llama-3-71B'; did you mean llama_3_70b"),
        ([*FRONTIER, "--assumptions", "papr"], r"unknown assumptions 'papr'; did you mean paper"),
        ([*FRONTIER, "--draft", "llama3"], r"'llama3' could be llama_3_2_3b .*; name one"),
        (["run", "paper/table_9"], r"unknown scenario 'paper/table_9'; did you mean paper/table_6"),
        (["table", "tables_1"], r"unknown scenario 'tables_1'; did you mean paper/table_1"),
        (["figure", "figure_11"], r"unknown scenario 'figure_11'; did you mean paper/figure_1"),
        (["hardware", "h101_sxm"], r"unknown hardware 'h101_sxm'; did you mean h100_sxm"),
        (["models", "mixtrall"], r"unknown model 'mixtrall'; did you mean mixtral_8x7b"),
        (["scenarios", "nothing_like_it"], r"unknown scenario 'nothing_like_it'; known: "),
        (["assumptions", "xyzzy"], r"unknown assumptions 'xyzzy'; known: deployable"),
        (["frontier", "missing.yaml", "h100_sxm"], r"missing\.yaml: no such file"),
        (["run", "missing.yaml"], r"missing\.yaml: no such file"),
        (["fields", "frontire"], r"'frontire' is no field, record or question; did you mean frontier"),
        (["schema", "chip"], r"'chip' is not one of 'hardware', 'model', 'traffic', 'assumptions', 'scenario'"),
        (["frontire", "a", "b"], r"No such command 'frontire'"),
        (["frontier", "llama_3_8b"], r"Missing argument 'HARDWARE'"),
        ([*FRONTIER, "--wieghts", "fp8"], r"No such option: --wieghts|No such option '--wieghts'"),
        # Deployments that cannot be.
        (["explain", "deepseek_v3", "h200_sxm", "--pp", "62"], r"pp=62: the 61 layers of DeepSeek-V3 fill at most 61"),
        (["load", "deepseek_v3", "h200_sxm", "--tp", "8", "--dcp", "3"], r"dcp=3 contradicts tp=8: .*nearest: 2 or 4"),
        (["load", "llama_3_70b", "h100_sxm", "--tp", "8", "--dcp", "2"], r"has 8 KV heads, .* nearest: 1"),
        (["load", "llama_3_70b", "h100_sxm", "--shared-prefix", "2000"], r"shared_prefix must leave at least one new"),
        ([*EXPLAIN, "--shared-prefix", "2251"], r"shared prefix must be a part of the context, from 0 to 2250 tokens"),
        ([*FRONTIER, "--shared-prefix", "2000"], r"shared_prefix must leave at least one new"),
        (
            ["explain", "llama_3_8b", "tpu_v5p", "--set", "assumptions.capacity.host_weights=0.5"],
            r"host_weights is 0.5, but Google TPU v5p lists no link to the memory of its host",
        ),
        (
            ["cache", "paper/gpt_4", "paper/groq_lpu", "--tp", "1", "--dp", "5"],
            r"GPT-4 .* cannot be laid out with dp=5: a feed-forward width of 36864 does not split over the ranks",
        ),
        # Unknown keys.
        (
            _what_if("hardware.hbm_bytes_per_secon=6.7 TB/s"),
            r"unknown key 'hbm_bytes_per_secon'; did you mean 'hbm_bytes_per_second'",
        ),
        (_what_if("assumptions.overlapp=none"), r"unknown key 'overlapp'; did you mean 'chip.overlap'"),
        (_what_if("model.blocks.0.attention.kv_head=4"), r"unknown key .*kv_head'; did you mean 'kv_heads'"),
        (_what_if("chip.hbm_bytes=1"), r"--set 'chip.hbm_bytes=1': write hardware.FIELD=VALUE, model.FIELD=VALUE or"),
        (_what_if("hardware"), r"--set 'hardware': write hardware.FIELD=VALUE"),
        (_what_if("hardware.hbm_bytes"), r"--set hardware.hbm_bytes: write --set hardware.FIELD=VALUE"),
        (_what_if("hardware.=5"), r"--set hardware.=5: write --set hardware.FIELD=VALUE"),
        (_what_if("model.blocks.7.layers=3"), r"the list has 1 entry, counted from 0; got '7'"),
        (_what_if("model." + "a." * 1000 + "a=1"), r"1001 levels of names; specifications have 24 at most"),
        # Dimensions and quantities.
        (_what_if("model.hidden_size=1e300"), r"hidden_size must be <= 1e\+15, got 1e\+300"),
        (_what_if("hardware.link_domain=10000000000"), r"link_domain must be <= 1e\+09, got 10000000000"),
        (
            _what_if("assumptions.chip.math_efficiency=1e-300"),
            r"math_efficiency: 1e-300 cannot be meant; shares are from 1e-15 to 1",
        ),
        (
            _what_if("hardware.hbm_bytes_per_second=6.7 TB"),
            r"'6.7 TB' has the dimension \[data\], but B/s .* is needed",
        ),
        (_what_if("hardware.hbm_bytes=80 foot"), r"'80 foot': unknown unit 'foot'; write for example '80 GiB'"),
        (_what_if("hardware.hbm_bytes="), r"hbm_bytes: None is not a quantity"),
        (_what_if("hardware.hbm_bytes=0"), r"hbm_bytes must be > 0, got 0"),
        (_what_if("hardware.hbm_bytes=-80 GiB"), r"hbm_bytes must be > 0, got '-80 GiB'"),
        (_what_if("model.hidden_size=0"), r"hidden_size must be > 0, got 0"),
        (_what_if("assumptions.host.launch=-4 us"), r"launch must be >= 0, got '-4 us'"),
        (_what_if("assumptions.chip.math_efficiency=1.2"), r"math_efficiency must be <= 1, got 1.2"),
        (_what_if("assumptions.chip.overlap=some"), r"overlap: got 'some'; allowed: 'step', 'operator' or 'none'"),
        ([*FRONTIER, "--price", "0"], r"'--price': 0.0 is not in the range x>0"),
        ([*FRONTIER, "--price", "-1"], r"'--price': -1.0 is not in the range x>0"),
        *(
            (
                [*FRONTIER, "--price", price],
                rf"'--price': {re.escape(price)} cannot be meant; numbers from 1e-15 to 1e\+15",
            )
            for price in ("1e300", "1e-300")
        ),
        ([*FRONTIER, "--price", "1e14"], r"the price must be a positive number of USD per hour, .*got 1e\+14"),
        (
            [*FRONTIER, "--price", "cheap"],
            r"'--price': 'cheap' is no price: give USD per GPU-hour",
        ),
        ([*FRONTIER, "--context", "-1"], r"'--context': -1.0 is not in the range x>=0"),
        ([*STEPS, "--context", "1e15"], r"the context must be a number of tokens from 0 to 1e\+12, got 1e\+15"),
        ([*FRONTIER, "--osl", "0"], r"'--osl': 0.0 is not in the range x>0"),
        ([*STEPS, "--context", "5", "--isl", "5"], r"give either --context, or --isl and --osl, not both"),
        ([*STEPS, "--context", "5", "--contexts", "5x1"], r"give either --context, or --contexts, not both"),
        ([*STEPS, "--contexts", "5x1", "--osl", "5"], r"give either --contexts, or --isl and --osl, not both"),
        ([*STEPS, "--contexts", "5"], r"'5' is no context with its number of sequences; write for example 500x16"),
        ([*FRONTIER, "--contexts", "5x1"], r"--contexts is said of decode steps alone; add --decode-only"),
        ([*FRONTIER, "--max-instance-gpus", "0"], r"'--max-instance-gpus': 0.0 is not in the range x>0"),
        ([*FRONTIER, "--max-throughput", "0"], r"'--max-throughput': 0.0 is not in the range x>0"),
        ([*FRONTIER, "--ngram", "--acceptance", "1.5"], "acceptance: probabilities must be from 0 to 1, got 1.5"),
        ([*FRONTIER, "--acceptance", "0.5"], "--acceptance says something of proposals; give --draft MODEL, --mtp"),
        ([*FRONTIER, "--ngram", "--acceptance", "often"], "--acceptance 'often': write one probability for all"),
        ([*FRONTIER, "--mtp", "--eagle"], "give one of --draft, --mtp, --eagle and --ngram, got --mtp and --eagle"),
        ([*FRONTIER, "--mtp"], r"has no multi-token-prediction layers \(mtp_layers: 0\); give a draft model"),
        (
            [*FRONTIER, "--eagle", "--acceptance", "0.9,0.8", "--max-draft", "3"],
            "the acceptance of 2 positions is given",
        ),
        ([*FRONTIER, "--max-draft", "0"], r"'--max-draft': 0 is not in the range 1<=x<=64"),
        # Pins.
        ([*FRONTIER, "--tp", "0"], r"'--tp': 0 is not in the range x>=1"),
        ([*FRONTIER, "--dp", "1.5"], r"'--dp': '1.5' is not a valid integer"),
        ([*FRONTIER, "--tp", "3"], r"Llama 3.1 8B cannot be laid out with tp=3: 32 query heads do not split over the"),
        ([*FRONTIER, "--ep", "2"], r"Llama 3.1 8B has no experts, so ep must be 1, got 2"),
        ([*FRONTIER, "--pp", "33"], r"pp=33: the 32 layers of Llama 3.1 8B fill at most 32 pipeline stages"),
        ([*FRONTIER, "--tp", "8"], r"tp=8, dp=1, pp=1: 8 accelerators are needed, and at most 4 are allowed"),
        (
            [*FRONTIER, "--tp", "2", "--dp", "any", "--instance-gpus", "3"],
            r"an instance of 3 contradicts tp=2, pp=1: a multiple of 2 is needed",
        ),
        ([*FRONTIER, "--batch", "0"], r"'--batch': 0.0 is not in the range x>0"),
        ([*STEPS, "--batch", "1.5"], r"batch must be a whole number on a whole-number grid, got 1.5"),
        ([*FRONTIER, "--instance-gpus", "nan"], r"'--instance-gpus': nan is not a finite number"),
        ([*FRONTIER, "--pp", "2", "--no-pipeline"], r"pp=2 contradicts 'no pipeline'"),
        ([*FRONTIER, "--grid", "paper", "--tp", "2"], r"tp cannot be pinned on the study's grid"),
        ([*FRONTIER, "--grid", "paper", "--all"], r"plans can be listed on the grid 'whole'"),
        ([*FRONTIER, "--domain", "0"], r"'--domain': 0 is not in the range x>=1"),
        ([*EXPLAIN, "--domain", "0"], r"'--domain': 0 is not in the range x>=1"),
        (
            [*FRONTIER, "--domain", "4", "--set", "hardware.link_domain=2"],
            r"give either --domain or --set hardware.link_domain, not both",
        ),
        ([*EXPLAIN, "--batch", "0"], r"'--batch': 0.0 is not in the range x>0"),
        ([*EXPLAIN, "--batch", "1e10"], r"batch must be positive and at most 1e\+09, got 1e\+10"),
        ([*EXPLAIN, "--tp", "0"], r"'--tp': 0 is not in the range x>=1"),
        ([*EXPLAIN, "--tp", "2.5"], r"'--tp': '2.5' is not a valid integer range|'2.5' is not a valid integer"),
        ([*EXPLAIN, "--tp", "1000000001"], r"'--tp': 1000000001 is too large; at most 1,000,000,000 are possible"),
        *(
            (
                [*arguments, "1" + 310 * "0"],
                r"': 10000000000000000000\.\. \(311 digits\) is too large; at most 1,000,000,000",
            )
            for arguments in (
                [*EXPLAIN[:3], "--tp"],
                ["cache", "llama_3_8b", "h100_sxm", "--turns", "3", "--replicas"],
                ["price", "llama_3_8b", "h100_sxm", "--replicas"],
                ["load", "llama_3_8b", "h100_sxm", "--dp"],
                ["disaggregate", "llama_3_8b", "h100_sxm", "--gpus"],
                ["recommend", "llama_3_8b", "h100_sxm", "--gpus"],
                ["assess", "llama_3_8b", "h100_sxm", "--tokens-per-second", "50", "--batch", "8", "--gpus"],
            )
        ),
        (
            [*EXPLAIN, "--redundant-experts", "1" + 310 * "0"],
            r"'--redundant-experts': 10+ is not in the range 0<=x<=100000",
        ),
        (["cache", "llama_3_8b", "h100_sxm", "--turns", "1e300"], r"'--turns': 1e300 cannot be meant; numbers from"),
        (["hour-cost", "h100_sxm", "--purchase", "1e300"], r"'--purchase': 1e300 cannot be meant; numbers from"),
        (
            ["disaggregate", "llama_3_8b", "h100_sxm", "--ratios", "1:1" + 310 * "0" + ",1:1"],
            r"from 1 to 256 of a kind are possible, got 10",
        ),
        (["disaggregate", "llama_3_8b", "h100_sxm", "--arrival-scv", "1e12"], r"is not in the range 0<=x<=1000"),
        (["load", "llama_3_8b", "h100_sxm", "--rates", "1e-300,1"], r"'--rates': 1e-300 cannot be meant; numbers"),
        (["load", "llama_3_8b", "h100_sxm", "--rates", "1,1e300"], r"'--rates': 1e\+300 cannot be meant; numbers from"),
        (
            ["price", "llama_3_8b", "h100_sxm", "--ttft", "1e300"],
            r"'--ttft': 1e300: 1e\+297 s cannot be meant; numbers",
        ),
        ([*EXPLAIN, "--pp", "-1"], r"'--pp': -1 is not in the range x>=1"),
        # NaN and infinity.
        *(
            ([*FRONTIER, option, value], rf"'{option}': (nan|inf|1e999) is not (a finite number|in the range)")
            for option in ("--price", "--context", "--isl", "--max-throughput", "--max-instance-gpus")
            for value in ("nan", "inf", "1e999")
        ),
        *(
            (
                [*FRONTIER, "--ngram", "--acceptance", value],
                rf"acceptance: probabilities must be from 0 to 1, got {value}",
            )
            for value in ("nan", "inf")
        ),
        ([*EXPLAIN, "--batch", "nan"], r"'--batch': nan is not a finite number"),
        (_what_if("hardware.hbm_bytes=nan"), r"hbm_bytes: 'nan' is not a quantity"),
        (_what_if("hardware.hbm_bytes=inf"), r"hbm_bytes: 'inf' is not a quantity"),
        (_what_if("hardware.hbm_bytes=1e999"), r"hbm_bytes: '1e999' is not finite"),
        (_what_if("model.hidden_size=.nan"), r"hidden_size: Input should be a valid number, got '.nan'"),
        (_what_if("model.hidden_size=1e999"), r"hidden_size: Input should be a valid number, got '1e999'"),
        (
            _what_if("assumptions.chip.math_efficiency=nan"),
            r"math_efficiency: Input should be a valid number, got 'nan'",
        ),
        (
            ["schema", "model", "--page"],
            r"--page is of assumptions only, got model; without it the JSON schema is printed",
        ),
        # Layouts that do not divide.
        ([*EXPLAIN[:3], "--tp", "3"], r"Llama 3.1 70B: 64 query heads do not split over the attention ranks \(tp=3"),
        (
            [*EXPLAIN, "--pp", "81", "--batch", "81"],
            r"pp=81: the 80 layers of Llama 3.1 70B fill at most 80 pipeline stages",
        ),
        ([*EXPLAIN, "--ep", "2"], r"Llama 3.1 70B has no experts, so ep must be 1, got 2"),
        (
            ["explain", "mixtral_8x7b", "h100_sxm", "--tp", "8", "--ep", "3"],
            r"the 8 accelerators of a stage, tp x dp, do not split over 3 expert-parallel ranks; nearest: 2 or 4",
        ),
        # Degrees that are typing errors are refused at once, however many divisors are looked for.
        (
            ["explain", "deepseek_v3", "gb200_nvl72", "--tp", "1000000000", "--dp", "999999937", "--ep", "3"],
            r"the 999999937000000000 accelerators of a stage, tp x dp, do not split over 3 .* ranks; nearest: 2 or 4",
        ),
        (
            ["speculate", "deepseek_v3", "gb200_nvl72", "--mtp", "--tp", "8", "--dp", "1000000000"],
            r"cannot be laid out with dp=1e\+09: a feed-forward width of 2048 does not split",
        ),
        # Formats.
        ([*FRONTIER, "--weights", "fp7"], r"'fp7' is not one of 'fp32', 'bf16', 'fp16', 'fp8'"),
        (
            ["frontier", "llama_3_8b", "v100_sxm2_32"],
            r"NVIDIA V100 SXM2 32GB has no peak for bf16 nor for a wider one of its kind; it has: fp32, fp16",
        ),
        (["explain", "llama_3_8b", "groq_lpu"], r"Groq LPU .* has no peak for bf16 .*; it has: fp16, int8"),
        # Prices.
        (
            ["frontier", "llama_3_8b", "trainium2"],
            r"AWS Trainium2 lists no price; give one, for example --price 2.50",
        ),
        # Pictures.
        ([*FRONTIER, "--plot", "a.gif"], r"a\.gif: a picture's name must end in \.svg, \.png, \.pdf"),
        (["run", "paper/table_1", "--plot", "a"], r"a: a picture's name must end in \.svg, \.png, \.pdf"),
        (["figure", "paper/figure_2", "-o", "a.txt"], r"a\.txt: a picture's name must end in \.svg, \.png, \.pdf"),
        (["hardware", "--format", "xml"], r"'xml' is not one of 'table', 'json', 'csv', 'markdown'"),
    ],
)
def test_bad_input_is_refused(refused: Command, tmp_path: Path, arguments: Sequence[str], message: str) -> None:
    outcome = refused(*arguments)
    assert re.search(message, outcome.err), outcome.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["frontier", "llama_3_405b", "h100_sxm", "--decode-only", "--max-instance-gpus", "4", *PAPER],
            r"nothing fits: Llama 3.1 405B \(bf16\) needs 811.7 GB for its weights, at least 10 accelerators of "
            r"85.52 .*GB \(NVIDIA H100 SXM5 80GB\); at most 4 are allowed",
        ),
        (
            [*STEPS, "--context", "1e9"],
            r"nothing fits: Llama 3.1 8B \(bf16\) on NVIDIA H100 SXM5 80GB, \d+ plans considered; "
            r"weights and KV cache exceed the memory: \d+.* a sequence of 1e\+09 tokens 131072.00 GB, .*"
            r"at least \d+ accelerators are needed",
        ),
        (
            ["frontier", "llama_3_70b", "l4", "--price", "1", "--set", "hardware.nic_bytes_per_second_one_way=null"],
            r"nothing fits: .*no network between link domains in the hardware file .*: \d+",
        ),
        ([*STEPS, "--max-throughput", "1e-3"], r"nothing fits: .*more than 0.001 tokens/s are produced: \d+"),
        (
            ["explain", "llama_3_70b", "h100_sxm", "--tp", "1", "--assumptions", "paper"],
            r"Llama 3.1 70B on 1 x NVIDIA H100 SXM5 80GB: weights exceed the memory: 141.1 GB of weights and 0.7 GB of "
            r"KV cache > 85.5 GB; at least 2 accelerators would do",
        ),
        (
            ["frontier", "llama_3_8b", "h100_sxm", "--set", "hardware.hbm_bytes=1 MB"],
            r"nothing fits: .* an accelerator has 0\.0009 GB",
        ),
        (
            ["frontier", "llama_3_8b", "h100_sxm", "--engine", "sglang", "--set", "hardware.hbm_bytes=1 MB"],
            r"nothing fits: of the 0\.001 GB of NVIDIA H100 SXM5 80GB nothing is left for a model under ",
        ),
        (
            ["frontier", "llama_3_8b", "h100_sxm", "--decode-only", "--set", "hardware.hbm_bytes=1 MB"],
            r"nothing fits: .* an accelerator has 0\.0009 GB",
        ),
        (
            ["frontier", "llama_3_405b", "h100_sxm", "--max-instance-gpus", "4"],
            r"nothing fits: the weights of Llama 3.1 405B \(bf16\) alone need 11 .*; at most 4 are allowed",
        ),
    ],
)
def test_what_cannot_fit_says_why_and_how_many_would_do(
    refused: Command, tmp_path: Path, arguments: Sequence[str], message: str
) -> None:
    outcome = refused(*arguments, "-o", "a.txt", code=1)
    assert re.search(message, outcome.err), outcome.err
    assert list(tmp_path.iterdir()) == []


def _hardware(*changes: tuple[str, str]) -> str:
    text = (catalog.folder("hardware") / "h100_sxm.yaml").read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


BANDWIDTH = "hbm_bytes_per_second: 3.35 TB/s"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [1, 2\n", r"bad\.yaml:2: not valid YAML: expected ',' or '\]', but got '<stream end>'"),
        ("key: : value\n", r"bad\.yaml:1: not valid YAML: mapping values are not allowed here"),
        ("just words\n", r"bad\.yaml:1: a mapping of field names to values is needed, found str"),
        ("", r"bad\.yaml:1: a mapping of field names to values is needed, found nothing"),
        (b"\xff\xfe\x00\x01", r"bad\.yaml:1: not a text file in UTF-8"),
        (b"\x00\x01\x02", r"bad\.yaml:1: not valid YAML: "),
        ("a: !!python/object/apply:os.system [ls]\n", r"bad\.yaml:1: the tag .* is not accepted"),
        ("a: " + 10_000_000 * "x", r"bad\.yaml: 10\.0 MB is too large; at most 1 MB is read"),
        ("a: &a [x, x]\nb: [*a, *a]\n", r"bad\.yaml:2: aliases \(\*name\) are not accepted"),
        (500 * "[", r"bad\.yaml:1: nested deeper than 24 levels"),
        (_hardware((BANDWIDTH, "")), r"bad\.yaml:1: hbm_bytes_per_second is missing"),
        (
            _hardware((BANDWIDTH, f"{BANDWIDTH}\n{BANDWIDTH}")),
            r"bad\.yaml:\d+: 'hbm_bytes_per_second' is given twice; keep one",
        ),
        (_hardware((BANDWIDTH, "hbm_bytes_per_second: .nan")), r"bad\.yaml:\d+: .nan is not accepted; write a finite"),
        (_hardware((BANDWIDTH, "hbm_bytes_per_second: no")), r"hbm_bytes_per_second: 'no' is not a quantity"),
        (
            _hardware(("  hbm_bytes_per_second: {ref: nvidia2024h100ds, ", "  # {")),
            r"bad\.yaml:\d+: hbm_bytes_per_second has no source; add 'hbm_bytes_per_second: {ref: \.\.\., ",
        ),
    ],
)
def test_files_that_are_no_specification(refused: Command, tmp_path: Path, content: str | bytes, message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for arguments in (["frontier", "llama_3_8b", "bad.yaml"], ["hardware", "bad.yaml"]):
        outcome = refused(*arguments, "-o", "a.txt")
        assert re.search(message, outcome.err), outcome.err
    assert list(tmp_path.iterdir()) == [path]


def test_all_mistakes_of_a_file_are_listed_at_once(refused: Command, tmp_path: Path) -> None:
    text = _hardware((BANDWIDTH, "hbm_bytes_per_second: 3 foot"), ("link_domain: 8", "link_domain: -8"))
    (tmp_path / "bad.yaml").write_text(text, encoding="utf-8")
    lines = refused("frontier", "llama_3_8b", "bad.yaml").err.splitlines()
    assert lines[0] == "Error: 2 mistakes:"
    assert re.fullmatch(r"  - bad\.yaml:\d+: hbm_bytes_per_second: '3 foot': unknown unit 'foot'; .*", lines[1])
    assert re.fullmatch(r"  - bad\.yaml:\d+: link_domain must be > 0, got -8", lines[2])


def test_a_model_where_hardware_is_needed(refused: Command) -> None:
    path = str(catalog.folder("models") / "llama_3_8b.yaml")
    outcome = refused("frontier", "llama_3_8b", path)
    assert re.search(r"llama_3_8b\.yaml:\d+: unknown key 'blocks'; allowed: .*dense_flops_per_second", outcome.err)


# Files that cannot be written, and files that must not be touched


@pytest.mark.parametrize(
    "arguments",
    [
        FRONTIER,
        ("explain", "llama_3_8b", "h100_sxm"),
        ("run", "paper/table_1"),
        ("table", "paper/table_1"),
        ("figure", "paper/figure_2"),
        ("hardware",),
        ("models", "llama_3_8b"),
        ("schema", "model"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_unwritable_output(refused: Command, tmp_path: Path, arguments: Sequence[str]) -> None:
    suffix = ".svg" if arguments[0] == "figure" else ".txt"
    (tmp_path / f"folder{suffix}").mkdir()
    for place, reason in (
        (f"missing/a{suffix}", "No such file or directory"),
        (f"folder{suffix}", "Is a directory"),
        (f"/dev/null/a{suffix}", "Not a directory"),
    ):
        outcome = refused(*arguments, "-o", place)
        assert outcome.err == f"Error: {place}: cannot be written: {reason}\n"
    assert [path.name for path in tmp_path.iterdir()] == [f"folder{suffix}"]


@pytest.mark.parametrize("arguments", [FRONTIER, ("run", "paper/table_1")], ids=["frontier", "run"])
def test_unwritable_pictures(refused: Command, tmp_path: Path, arguments: Sequence[str]) -> None:
    outcome = refused(*arguments, "--plot", "missing/a.svg", "-o", "a.txt")
    assert outcome.err == "Error: missing/a.svg: cannot be written: No such file or directory\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [FRONTIER, ("run", "paper/table_1"), ("validate", "poisson_load_a100")])
def test_no_picture_of_a_result_that_cannot_be_written(
    refused: Command, tmp_path: Path, arguments: Sequence[str]
) -> None:
    outcome = refused(*arguments, "--plot", "a.svg", "-o", "missing/a.csv")
    assert outcome.err == "Error: missing/a.csv: cannot be written: No such file or directory\n"
    assert list(tmp_path.iterdir()) == []


def test_an_impossible_folder_for_the_gallery(
    refused: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gallery, "scenario_names", lambda: ["paper/table_1"])
    (tmp_path / "file").write_text("", encoding="utf-8")
    for folder in ("file/below", "/dev/null/x"):
        outcome = refused("reproduce", "--folder", folder)
        assert re.search(rf"{folder}: cannot be made: Not a directory", outcome.err)
    assert "is a file" in refused("reproduce", "--folder", "file").err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([*FRONTIER, "--set", "hardware.hbm_bytes=0"], 2),
        ([*STEPS, "--context", "1e9"], 1),
        ([*EXPLAIN[:3], "--tp", "3"], 2),
        (["run", "missing.yaml"], 2),
    ],
)
def test_an_existing_file_survives_an_error(
    refused: Command, tmp_path: Path, arguments: Sequence[str], code: int
) -> None:
    path = tmp_path / "precious.txt"
    path.write_text("precious", encoding="utf-8")
    refused(*arguments, "-o", path, code=code)
    assert path.read_text(encoding="utf-8") == "precious"
    assert list(tmp_path.iterdir()) == [path]
