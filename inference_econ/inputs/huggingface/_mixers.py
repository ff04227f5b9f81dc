"""Model families with recurrences, latent attention, pooled keys, or layers of different widths."""

from __future__ import annotations

from typing import Any

from inference_econ.inputs.huggingface._layers import Architecture, Layer, LayerReader, dense
from inference_econ.inputs.layers import (
    Attention,
    CompressedAttention,
    ExpertFeedForward,
    FeedForward,
    LatentAttention,
    NoAttention,
    NoFeedForward,
    RecurrentMixer,
)
from inference_econ.inputs.models.model import UnknownPart

_NEMOTRON_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_NEMOTRON_WORDS = {"linear_attention": "mamba", "full_attention": "attention"}


def gated_delta(c: LayerReader) -> Architecture:
    """Qwen3-Next and Qwen3.5: Gated DeltaNet in most layers, and gated attention in the remaining layers."""
    parts, full = c.feed_forwards(), c.attention()
    sizes = [f"linear_{size}" for size in ("num_value_heads", "value_head_dim", "num_key_heads", "key_head_dim")]
    state_dtype = c.state_format("mamba_ssm_dtype")
    linear = c.recurrent("gated_delta", (*sizes, "linear_conv_kernel_dim"), state_dtype=state_dtype)
    if linear.value_heads % linear.key_heads:
        c.stop(
            f"linear_num_value_heads {linear.value_heads} is not a multiple of linear_num_key_heads {linear.key_heads}"
        )
    period = c.size_or("full_attention_interval", default=4)
    every = [(index + 1) % period == 0 for index in range(c.layers())]
    kinds = c.marks("layer_types", ("linear_attention", "full_attention"), every)
    mtp = c.whole("mtp_num_hidden_layers", "num_nextn_predict_layers")
    return c.architecture(zip((full if is_full else linear for is_full in kinds), parts, strict=True), mtp_layers=mtp)


def nemotron_h(c: LayerReader) -> Architecture:
    """Nemotron-H and Nemotron 3: each layer is Mamba-2, attention, a dense feed-forward block, or experts."""
    _, pattern = c.find("hybrid_override_pattern")
    stated = c.size_if("num_hidden_layers")
    _, words = c.find("layers_block_type", "layer_types")
    if isinstance(words, list):
        kinds = [_NEMOTRON_WORDS.get(str(word), str(word)) for word in words]
        for kind in kinds:
            if kind not in _NEMOTRON_LETTERS.values():
                c.stop(f"layers_block_type has the entry {kind!r}; understood: {', '.join(_NEMOTRON_LETTERS.values())}")
    elif isinstance(pattern, str):
        for letter in pattern:
            if letter not in _NEMOTRON_LETTERS:
                c.stop(f"hybrid_override_pattern has {letter!r}; understood: {' '.join(_NEMOTRON_LETTERS)}")
        kinds = [_NEMOTRON_LETTERS[letter] for letter in pattern]
    else:
        c.stop("neither hybrid_override_pattern nor layers_block_type says what each layer is")
    if not kinds or (stated is not None and stated != len(kinds)):
        c.stop(f"the layer pattern has {len(kinds)} entries, but num_hidden_layers is {stated}")
    made = {kind: (*_nemotron_layer(c, kind), 1) for kind in sorted(set(kinds))}
    return c.architecture([made[kind] for kind in kinds], mtp_layers=c.whole("num_nextn_predict_layers"))


def _nemotron_layer(c: LayerReader, kind: str) -> tuple[Attention, FeedForward]:
    if kind == "mamba":
        groups, convolution = "n_groups mamba_n_groups", "conv_kernel mamba_d_conv"
        keys = ("mamba_num_heads", "mamba_head_dim", groups, "ssm_state_size", convolution)
        mixer = c.mamba2_mixer(keys, state="mamba_ssm_cache_dtype")
        if mixer.value_heads % mixer.key_heads:
            c.stop(f"n_groups is {mixer.key_heads}, but {mixer.value_heads} Mamba heads do not split so")
        c.only("mamba_proj_bias", mixer.input_bias)
        return mixer, NoFeedForward(kind="none")
    if kind == "attention":
        width = c.size_or("head_dim", default=128)
        c.only("attention_head_dim", width)  # Early code of the family reads this key; the published class does not.
        return c.grouped_query(kv=c.kv_heads(default=8), width=width), NoFeedForward(kind="none")
    if kind == "mlp":
        return NoAttention(kind="none"), dense(c.size("intermediate_size"), gated=False)
    c.only("n_shared_experts", 1)
    latent_size = c.size_if("moe_latent_size") or c.without("moe_latent_size", None)
    mixture = c.experts(
        c.size("moe_intermediate_size"),
        count_keys=("n_routed_experts", "num_local_experts"),
        shared=c.size("moe_shared_expert_intermediate_size"),
        gated=False,
        latent_size=latent_size,
    )
    return NoAttention(kind="none"), mixture


def nemotron_nas(c: LayerReader) -> Architecture:
    """Llama-Nemotron (Super, Ultra): layers of different widths, some without attention or feed-forward."""
    layers = c.layers()
    _, blocks = c.find("block_configs")
    if not isinstance(blocks, list) or len(blocks) != layers:
        count = len(blocks) if isinstance(blocks, list) else "no"
        c.stop(f"block_configs has {count} entries for {layers} layers")
    return c.architecture([_searched(c, index, block) for index, block in enumerate(blocks)])


def _searched(c: LayerReader, index: int, block: Any) -> Layer:
    place = f"block_configs[{index}]"
    if (
        not isinstance(block, dict)
        or not isinstance(block.get("attention"), dict)
        or not isinstance(block.get("ffn"), dict)
    ):
        c.stop(f"{place} needs 'attention' and 'ffn'")
    inner = LayerReader(block["attention"], c.file, f"{c.family}, {place}.attention")
    outer = LayerReader(block["ffn"], c.file, f"{c.family}, {place}.ffn")
    attention: Attention = NoAttention(kind="none")
    feed_forward: FeedForward = NoFeedForward(kind="none")

    for key in ("num_sink_tokens", "window_length"):
        inner.only(key)
    for key in ("unshifted_sink", "use_prefill_window_in_sink_attention"):
        inner.only(key, False)
    if inner.flag("no_op", default=False):
        inner.skip("n_heads_in_group")
    else:
        group, queries = inner.size("n_heads_in_group"), c.heads()
        if queries % group:
            c.stop(f"{queries} query heads do not split into groups of {group}")
        attention = c.grouped_query(kv=queries // group)

    if outer.flag("no_op", default=False):
        outer.skip("ffn_mult")
    else:
        _, multiple = outer.find("ffn_mult")
        if isinstance(multiple, bool) or not isinstance(multiple, (int, float)) or not 0 < multiple < 100:
            outer.stop(f"ffn_mult must be a number > 0 and < 100, got {multiple!r}")
        width = int(2 * multiple * c.hidden_size() / 3)
        feed_forward = dense(-(-width // 256) * 256)  # The class rounds up to a multiple of 256.

    for reader in (inner, outer):
        reader.only("replace_with_linear", False)
        reader.only("sparsify")
        reader.finish()
    return Layer(attention, feed_forward, (not attention.absent) + (not feed_forward.absent))


def mamba2(c: LayerReader) -> Architecture:
    """Mamba-2: each layer is a recurrent mixer after one norm."""
    keys = ("num_heads", "head_dim", "n_groups", "state_size", "conv_kernel")
    mixer = c.mamba2_mixer(keys)
    _check_heads(c, mixer, c.size_or("expand", default=2))
    return c.architecture([(mixer, NoFeedForward(kind="none"), 1)] * c.layers())


def granitemoehybrid(c: LayerReader) -> Architecture:
    """Granite 4: Mamba-2 or attention in each layer, followed by experts or a dense block."""
    layers, full_kinds = c.layers(), ("attention", "full_attention")
    allowed = (*full_kinds, "mamba", "linear_attention")
    kinds = c.words("layer_types", allowed, layers) or c.words("layers_block_type", allowed, layers)
    if kinds is None:
        c.stop("layer_types is missing; it says which layers are attention")
    c.skip("layers_block_type")
    expand, (_, width) = c.size_or("mamba_expand", default=2), c.find("mamba_d_head")
    widened = c.hidden_size() * expand
    others: dict[str, Any] = {"value_head_dim": widened // c.size("mamba_n_heads")} if width == "auto" else {}
    keys = ("mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv")
    mixer = c.mamba2_mixer(keys, ("mamba_proj_bias", "mamba_conv_bias"), **others)
    _check_heads(c, mixer, expand)
    shared = c.size("shared_intermediate_size")
    part: FeedForward
    if c.whole("num_local_experts", default=8):
        part = c.experts(c.size("intermediate_size"), count_keys=("num_local_experts",), shared=shared)
    else:
        c.unused("intermediate_size", "num_experts_per_tok")
        part = dense(shared)
    full = c.attention()
    return c.architecture([(full if kind in full_kinds else mixer, part) for kind in kinds])


def _check_heads(c: LayerReader, mixer: RecurrentMixer, expand: int) -> None:
    """Reject heads whose total width is not the expanded width, or that cannot be split into groups."""
    count, width, groups = mixer.value_heads, mixer.value_head_dim, mixer.key_heads
    if count * width != expand * c.hidden_size():
        c.stop(f"{count} heads of {width} are not {expand} times hidden_size {c.hidden_size()}")
    if count % groups:
        c.stop(f"{count} Mamba heads do not split into {groups} groups")


#: Stride of DeepSeek-V4's pooled keys by kind of layer [tokens].
_STRIDES = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}


def deepseek(c: LayerReader) -> Architecture:
    """DeepSeek-V2 and V3, Kimi K2, GLM-4.7-Flash: latent attention in every layer."""
    return _latent_model(c, [_latent(c)] * c.layers())


def deepseek_v32(c: LayerReader) -> Architecture:
    """DeepSeek-V3.2: latent attention to tokens that an indexer in every layer selects."""
    return _latent_model(c, [_latent(c, indexed="full")] * c.layers())


def glm_moe_dsa(c: LayerReader) -> Architecture:
    """GLM-5: like DeepSeek-V3.2, but some layers may reuse the selection of an earlier layer."""
    layers = c.layers()
    kinds = c.words("indexer_types", ("full", "shared"), layers)
    _, pattern = c.find("index_topk_pattern")
    period = c.size_or("index_topk_freq", default=1)
    offset = c.whole("index_skip_topk_offset", default=2)
    if kinds is None and pattern is not None:
        if not isinstance(pattern, str) or len(pattern) != layers or not set(pattern) <= {"F", "S"}:
            c.stop(f"index_topk_pattern must have F (own indexer) or S (shared) for each of {layers} layers")
        kinds = ["full" if letter == "F" else "shared" for letter in pattern]
    elif kinds is None:
        kinds = ["full" if max(index - offset + 1, 0) % period == 0 else "shared" for index in range(layers)]
    made = {kind: _latent(c, indexed=kind) for kind in set(kinds)}
    return _latent_model(c, [made[kind] for kind in kinds])


def _latent(c: LayerReader, indexed: str | None = None) -> LatentAttention:
    c.only("qk_head_dim", c.size("qk_nope_head_dim") + c.size("qk_rope_head_dim"))
    top_k: dict[str, Any] = {"index_top_k": c.size("index_topk")} if indexed else {}
    index = _index(c) if indexed else {}
    query_rank = c.size_if("q_lora_rank")
    if indexed == "full" and query_rank is None:
        c.stop("q_lora_rank is null or missing; the indexer reads the compressed query")
    return LatentAttention(
        kind="latent",
        query_heads=c.heads(),
        kv_rank=c.size("kv_lora_rank"),
        query_rank=query_rank,
        nope_head_dim=c.size("qk_nope_head_dim"),
        rope_head_dim=c.size("qk_rope_head_dim"),
        value_head_dim=c.size("v_head_dim"),
        **top_k,
        **(index if indexed == "full" else {}),
    )


def _index(c: LayerReader) -> dict[str, Any]:
    """Number and width of the heads of an indexer."""
    return {"index_heads": c.size("index_n_heads"), "index_head_dim": c.size("index_head_dim")}


def _latent_model(c: LayerReader, attentions: list[LatentAttention]) -> Architecture:
    if "q_lora_rank" not in c.data:
        c.stop("q_lora_rank is missing; null means that queries are not compressed")
    blocks = zip(attentions, c.feed_forwards(), strict=True)
    return c.architecture(blocks, mtp_layers=c.whole("num_nextn_predict_layers", "num_mtp_layers"))


def deepseek_v4(c: LayerReader) -> Architecture:
    """DeepSeek-V4: pooled keys with two strides, experts in every layer, and several copies of the residual stream."""
    # The base of the position embedding changes no cost, but must be a positive integer.
    c.size_if("compress_rope_theta")
    made = {stride: _compressed(c, stride) for stride in _STRIDES.values()}
    width = c.size("moe_intermediate_size")
    mixture = c.experts(width, count_keys=("n_routed_experts", "num_local_experts"), shared=width)
    return c.architecture(
        [(made[stride], mixture) for stride in _strides(c)],
        mtp_layers=c.whole("num_nextn_predict_layers"),
        residual_streams=c.size("hc_mult"),
    )


def deepseek_v41(c: LayerReader) -> Architecture:
    """DeepSeek-V4.1: later layers reuse cache entries and indexers of earlier layers; some layers embed n-grams."""
    width = c.size("moe_intermediate_size")
    mixture = c.experts(width, count_keys=("n_routed_experts",), shared=width)
    streams = c.size("hc_mult")
    layers = [(attention, mixture) for attention in _sharing(c)]
    mtp = c.whole("num_nextn_predict_layers")

    # Each table of n-grams has rows, some of which a token reads, and matrices that project them to keys and to a
    # value.
    rows = c.numbers("engram_num_embeddings") or []
    if len(rows) != len(c.numbers("engram_layer_ids") or []):
        c.stop("engram_num_embeddings and engram_layer_ids must have as many entries")
    engrams: tuple[UnknownPart, ...] = ()
    if rows:
        width, hidden = c.size("engram_head_dim"), c.hidden_size()
        read = (c.size("engram_max_ngram_size") - 1) * c.size("engram_n_heads") * width
        projected = len(rows) * ((streams + 1) * hidden * read + 2 * streams * hidden)
        engrams = (
            UnknownPart(name="engram tables", parameters=sum(rows) * width, looked_up=True),
            UnknownPart(name="engram projections", parameters=projected),
        )
    return c.architecture(layers, mtp_layers=mtp, residual_streams=streams, residual_fold=False, unknown=engrams)


def _sharing(c: LayerReader) -> list[CompressedAttention]:
    """Attention of each layer to a window, and to older entries that this layer or an earlier layer has cached."""
    layers, ratios = c.layers(), c.numbers("compress_ratios") or []
    keepers, pickers = c.numbers("kv_source_layer_ids") or [], c.numbers("index_source_layer_ids") or []
    _, chooser = c.find("candidate_source_layer_id")
    if len(ratios) < layers:
        c.stop(f"compress_ratios has {len(ratios)} entries for {layers} layers")
    behind = [layer for layer in range(layers) if ratios[layer]]
    if not set(keepers) <= set(pickers) <= set(behind) or (behind and behind[0] not in keepers):
        c.stop(
            "kv_source_layer_ids must be some of index_source_layer_ids, these layers with a compress_ratio, and the "
            f"first of those in both; got {keepers}, {pickers} and ratios of {ratios}"
        )
    candidates = c.size("candidate_topk_blocks") * c.size("candidate_block_size")
    window, index = _compressed(c, 0), _index(c)
    made = []
    for layer, stride in enumerate(ratios[:layers]):
        picks = layer in pickers
        limited = picks and isinstance(chooser, int) and 0 <= chooser < layer
        changes = {
            "stride": stride,
            "entries": "projected" if layer in keepers else "earlier",
            **(index if picks else {}),
            "index_top_k": c.size("index_topk"),
            "index_candidates": candidates if limited else None,
        }
        made.append(window.replace(**changes) if stride else window)
    return made


def _strides(c: LayerReader) -> list[int]:
    """Stride of each layer [tokens]. A published list has an additional entry for each multi-token-prediction layer."""
    layers, mtp = c.layers(), c.whole("num_nextn_predict_layers")
    kinds = c.words("layer_types", tuple(_STRIDES), layers)
    _, rates = c.find("compress_rates")
    if rates is not None and rates != {kind: stride for kind, stride in _STRIDES.items() if stride}:
        c.stop(f"compress_rates is {rates!r}; only strides of 4 and 128 are understood")
    ratios = c.numbers("compress_ratios")
    if kinds is not None:
        return [_STRIDES[kind] for kind in kinds]
    if ratios is None:
        c.stop("neither compress_ratios nor layer_types says how each layer compresses")
    if len(ratios) not in (layers, layers + mtp):
        c.stop(f"compress_ratios has {len(ratios)} entries for {layers} layers and {mtp} for multi-token prediction")
    for ratio in ratios:
        if ratio not in _STRIDES.values():
            c.stop(f"compress_ratios has the entry {ratio}; understood: {', '.join(map(str, _STRIDES.values()))}")
    return ratios[:layers]


def _compressed(c: LayerReader, stride: int) -> CompressedAttention:
    queries, width, groups = c.heads(), c.size("head_dim"), c.size("o_groups")
    if (queries * width) % groups:
        c.stop(f"o_groups is {groups}, but {queries} heads of {width} do not split so")
    index = {**_index(c), "index_top_k": c.size("index_topk")}
    return CompressedAttention(
        kind="compressed",
        query_heads=queries,
        head_dim=width,
        query_rank=c.size("q_lora_rank"),
        output_groups=groups,
        output_rank=c.size("o_lora_rank"),
        window=c.size("sliding_window"),
        stride=stride or None,
        **({"overlap": 2, **index} if stride == 4 else {}),
    )


def kimi_linear(c: LayerReader) -> Architecture:
    """Kimi Linear and K3: delta attention in most layers, and latent attention in the remaining layers."""
    if "q_lora_rank" not in c.data:
        c.stop("q_lora_rank is missing; null means that queries are not compressed")
    gated = c.has("mla_use_output_gate") and c.flag("mla_use_output_gate", default=False)
    latent = _latent(c).model_copy(update={"output_gate": gated})
    inner, layers = c.inside("linear_attn_config"), c.layers()
    inner.skip("gate_lower_bound")
    whole = inner.has("use_full_rank_gate") and inner.flag("use_full_rank_gate", default=False)
    keys = ("num_heads", "head_dim", "num_heads", "head_dim", "short_conv_kernel_size")
    delta = inner.recurrent("kda", keys, gate_rank=None if whole else inner.size("head_dim"))
    # The file counts layers from 1.
    with_delta, full = inner.numbers("kda_layers") or [], inner.numbers("full_attn_layers") or []
    if sorted(with_delta + full) != list(range(1, layers + 1)):
        c.stop(f"kda_layers and full_attn_layers must name each of {layers} layers once, counted from 1")
    inner.finish()
    parts = c.feed_forwards()
    width = c.size_if("routed_expert_hidden_size")
    norm = c.has("latent_moe_use_norm") and c.flag("latent_moe_use_norm", default=False)
    if width is not None:
        changes = {"latent_size": width, "latent_norm": norm}
        parts = [part.model_copy(update=changes) if isinstance(part, ExpertFeedForward) else part for part in parts]
    return c.architecture(
        [(delta if number in with_delta else latent, part) for number, part in enumerate(parts, 1)],
        mtp_layers=c.whole("num_nextn_predict_layers"),
        residual_span=c.size_if("attn_res_block_size"),
        max_context=c.size_if("model_max_length"),
    )
