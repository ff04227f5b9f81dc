"""Options of questions, each declared once: its group, what it takes, what it says, and what it means for others.

The command line and its help, the questions of the HTTP API, scenarios and what-ifs derive what they need from this
table. What a single command has for itself is declared there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from inference_econ.inputs.defaults import DEFAULT_ISL, DEFAULT_OSL

#: What an option takes. Limits and how they are refused are those of the command line (``cli/parameters.py``).
Kind = Literal[
    "assumptions", "carbon", "confidence", "count", "degree", "draft", "e2e", "engines", "file", "flag", "format",
    "grid", "lengths", "mix", "model", "non_negative", "percentile", "positive", "price", "probabilities", "recomputed",
    "redundancy", "rent", "router", "scv", "switch", "tiers", "tpot", "traffic", "ttft", "watts", "what_ifs",
]  # fmt: skip


class Option(NamedTuple):
    """An option of several questions."""

    name: str
    """Of the parameter in Python, and of the field in scenarios (:class:`~inference_econ.inputs.Settings`)."""
    kind: Kind
    """What it takes."""
    help: str
    """Text of the help and of the HTTP API, with the unit; what is meant by default stands in brackets."""
    default: str | float | None = None
    """Value where it is not given; None leaves it open."""
    shown: bool = False
    """Whether the help says the default."""
    typed: str = ""
    """Spelling without its dashes, where that is not the name."""
    counted: Literal["services", "decode_steps"] | None = None
    """What a frontier must count for it to mean anything; None of both."""
    what_if: str = ""
    """Field of a specification that it sets, as ``--set`` does."""
    number: bool = False
    """Whether it is a number that studies of uncertainty and what-ifs may vary."""

    @property
    def spelled(self) -> str:
        """How it is typed, with its dashes."""
        return f"--{self.typed or self.name.replace('_', '-')}"


# fmt: off
#: Options by what they are about, in the order of the help.
GROUPS: Mapping[str, tuple[Option, ...]] = {
    "Requests": (
        Option("context", "non_negative",
            "Of decode steps: cached tokens, instead of --isl, --osl.", counted="decode_steps", number=True),
        Option("contexts", "mix",
            "Of decode steps: contexts that differ in one batch, and how many have each: 500x16,32000x2.",
            counted="decode_steps"),
        Option("no_kv_cache", "recomputed",
            "Keep no keys and values: every step reads all tokens of its sequences again.",
            what_if="assumptions.attention.cache"),
        Option("isl", "non_negative", f"Input tokens of a request [default: {DEFAULT_ISL}].", number=True),
        Option("osl", "positive", f"Output tokens of a request [default: {DEFAULT_OSL}].", number=True),
        Option("cached", "non_negative",
            "Of services: prompt tokens in the prefix cache.", counted="services", number=True),
        Option("shared_prefix", "non_negative",
            "Of services: tokens that all prompts begin with.", counted="services", number=True),
        Option("traffic", "traffic",
            "Arrivals, lengths and reuse of a service, in place of --isl, --osl, --cached and --arrival-scv: a name of "
            "'inference-econ traffic', or a file.", counted="services"),
        Option("trace", "file", "The same as somebody recorded it, played again: a file of 'inference-econ traffic'."),
        Option("request_rate", "positive", "Requests/s in all [80 % of what an instance carries]."),
        Option("throughput", "positive", "The same as output tokens per second."),
        Option("max_tokens_per_second", "positive",
            "With --decode-only: demand, total tokens/s that can be sold.",
            typed="max-throughput", counted="decode_steps"),
        Option("arrival_scv", "scv",
            "Burstiness of the whole traffic: 1 if Poisson (default), more if bursty.", default=1),
        Option("agents", "count", "Agents or users at a time, of a --traffic with sessions, instead of a rate."),
        Option("router", "router", "Which instance a turn of a session goes to [prefix_aware]."),
        Option("tiers", "tiers", "Memory behind HBM for prompts: dram, ssd or a file (repeat).", typed="tier"),
        Option("gpus", "count", "The most traffic that so many chips carry, instead of a rate."),
        Option("budget", "positive", "The same for so many USD per hour."),
        Option("power_budget", "watts", "The most traffic within so much power of the facility, for example 1MW."),
        Option("decode_only", "flag",
            "Decode steps alone, without the prefill of requests; services with it by default."),
    ),
    "Promises": (
        Option("ttft", "ttft",
            "Promise: time to first token, in milliseconds, or for example '2 s'; p95:1000 of that percentile.",
            counted="services", number=True),
        Option("tpot", "tpot",
            "Promise: time per output token, in milliseconds, or for example '30 ms', mean:30.",
            counted="services", number=True),
        Option("e2e", "e2e",
            "Promise: time to the last token, in milliseconds, or for example '10 s', 'p99:10 s'.",
            counted="services", number=True),
        Option("percentile", "percentile", "Of the SLOs that do not say: mean, p1 to p99.9 [p90].", default="p90"),
        Option("confidence", "confidence",
            "Meet each SLO with this probability, for example 80: plan with the errors of predictions."),
        Option("any_speed", "flag", "Promise nothing: the cheapest tokens, however slow."),
    ),
    "Model, chip and price": (
        Option("weights", "format", "Number format of the weights; by default as published."),
        Option("activations", "format", "Of what operators exchange; by default 16-bit."),
        Option("kv", "format", "Of the KV cache; by default as activations; where engines compete as recipes have it."),
        Option("price", "price",
            "USD per GPU-hour, 23.60/node of a whole node, or a kind: on_demand, reserved, tco, index, spot (those "
            "that files list), owned; KIND:SELLER of neocloud, hyperscaler; by chip where there are several (repeat). "
            "By default a dated, verified one, of one kind and seller for all.", number=True),
        Option("rent", "rent",
            "Bill a fleet for the smallest machines that hold its instances, or for whole nodes.",
            default="gpu", shown=True),
        Option("engine", "engines",
            "Layouts that it can start, under its profile: vllm, sglang, trtllm; repeatable; by default all of them."),
        Option("together", "flag", "Only instances that read prompts and decode, no pools."),
        Option("apart", "flag", "Only pools that prefill and decode apart."),
        Option("any_layout", "flag", "Layouts that no engine can start, too: the bound of all."),
        Option("assumptions", "assumptions",
            "Preset; by default the profile of an engine on the hardware's generation, where no engine is meant that "
            "of all servers, for chips unlike those that were measured 'deployable'; 'paper' with '--grid paper'."),
        Option("changes", "what_ifs",
            "What-if: hardware.FIELD=VALUE, model.FIELD=VALUE or assumptions.FIELD=VALUE; 2x is twice what is there.",
            typed="set"),
        Option("loras", "count",
            "LoRA adapters that have room beside the model, each request with one: memory, and slower steps [none].",
            what_if="assumptions.adapters.loras"),
        Option("lora_rank", "count", "Largest rank of --loras [16].", what_if="assumptions.adapters.rank"),
        Option("power_cap", "watts",
            "Limit the power of each board, for example 500W: its clock follows; as --set hardware.power_cap=500W.",
            what_if="hardware.power_cap"),
        Option("carbon", "carbon",
            "Emissions too: of the grid of a country (united_states), or of so many gCO2e per kWh."),
        Option("domain", "count",
            "What-if: accelerators that share the fast link; the same as --set hardware.link_domain=N.",
            what_if="hardware.link_domain"),
    ),
    "Layout": (
        Option("grid", "grid",
            "Whole-number deployments, or the published study's logarithmic grid, of decode steps alone.",
            default="whole", shown=True),
        Option("tp", "degree", "GPUs that share attention; with one of these the others are 1, else all."),
        Option("dp", "degree", "Groups of tp in a pipeline stage."),
        Option("pp", "degree", "Pipeline stages."),
        Option("ep", "degree", "Expert-parallel ranks of a stage; the best if not given."),
        Option("redundant_experts", "redundancy",
            "Copies of popular experts beside all of them; as few as ranks need by default.",
            what_if="assumptions.experts.redundant"),
        Option("dcp", "count", "Attention ranks that split a sequence's cache by tokens [1]."),
        Option("batch", "positive",
            "Pin, with --decode-only: sequences decoded together by an instance.", counted="decode_steps"),
        Option("instance_gpus", "count", "GPUs of one instance, in all layouts of that size."),
        Option("max_instance_gpus", "positive",
            "Largest instance [a machine, or as recipes have it; of any layout 64, or 4 x the smallest]."),
        Option("pipeline", "switch", "Try pipeline parallelism.", default=True, shown=True),
        Option("slots", "count",
            "Requests in flight of an instance at most [as many as memory holds].", counted="services"),
        Option("token_budget", "count",
            "Prompt tokens that one step reads at most [of the preset].",
            counted="services", what_if="assumptions.serving.prefill_chunk"),
        Option("usable_memory", "positive",
            "Share of the memory of a GPU that an engine fills, its gpu_memory_utilization [of the preset].",
            what_if="assumptions.capacity.usable_memory"),
    ),
    "Speculation": (
        Option("draft", "model", "Proposes tokens: a smaller model of the same vocabulary."),
        Option("mtp", "flag", "Propose with the target's multi-token-prediction layers."),
        Option("eagle", "flag", "Propose with an EAGLE head: one more layer of the target."),
        Option("ngram", "flag", "Propose what followed the last tokens before, at no cost."),
        Option("draft_weights", "format", "Format of the draft model or head."),
        Option("acceptance", "probabilities",
            "Share of proposals accepted: of all, or by position 0.9,0.8,0.7 [as published of proposer and model].",
            number=True),
        Option("acceptance_file", "file", "CSV with target_logprob, draft_logprob and, if known, position."),
        Option("max_draft", "draft",
            "Longest draft, of which each batch has the best [as many as have a probability, or as in the recipe of "
            "the engine, or as published]."),
        Option("draft_length", "draft", "Proposals of every round, as engines run it, pay or not."),
        Option("no_speculation", "flag",
            "Nobody proposes tokens [in 'frontier', 'recommend' and 'price' recipes of engines say who does]."),
    ),
}
# fmt: on
#: All of them, by name.
OPTIONS: Mapping[str, Option] = {option.name: option for group in GROUPS.values() for option in group}
#: Options whose values a traffic says, too.
SAID_BY_TRAFFIC = ("context", "contexts", "isl", "osl", "cached", "shared_prefix")
#: Fields of specifications that options of their own set, by option.
WHAT_IFS: Mapping[str, str] = {option.name: option.what_if for option in OPTIONS.values() if option.what_if}


def request_name(spelled: str) -> str:
    """Return the name of an option in requests, which errors carry: ``request_rate`` of ``--request-rate``."""
    return spelled.removeprefix("--").replace("-", "_")


def counted_by(counted: Literal["services", "decode_steps"]) -> tuple[str, ...]:
    """Return the names of options that mean something only where a frontier counts services, or decode steps alone."""
    return tuple(option.name for option in OPTIONS.values() if option.counted == counted)
