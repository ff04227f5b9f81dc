"""Families with a compressed cache: multi-head latent attention, and DeepSeek-V4's pooled keys."""

from __future__ import annotations

from inference_econ.inputs.huggingface._families import FAMILIES, feed_forwards
from inference_econ.inputs.huggingface._layers import (
    Architecture,
    Layer,
    architecture,
    experts,
    heads,
    hidden_size,
    recurrent,
)
from inference_econ.inputs.huggingface._reader import ConfigReader
from inference_econ.inputs.layers.attention import CompressedAttention, LatentAttention
from inference_econ.inputs.layers.feed_forward import ExpertFeedForward
from inference_econ.inputs.models.model import UnknownPart

_STRIDES = (0, 4, 128)
_KIND_OF_STRIDE = {
    "sliding_attention": 0,
    "compressed_sparse_attention": 4,
    "heavily_compressed_attention": 128,
}


def deepseek(c: ConfigReader) -> Architecture:
    """DeepSeek-V2 and V3, Kimi K2, GLM-4.7-Flash: latent attention in every layer."""
    return _latent_model(c, [_latent(c)] * c.layers())


def deepseek_v32(c: ConfigReader) -> Architecture:
    """DeepSeek-V3.2: an indexer in every layer picks the tokens that are attended to."""
    return _latent_model(c, [_latent(c, indexed="full")] * c.layers())


def glm_moe_dsa(c: ConfigReader) -> Architecture:
    """GLM-5: as DeepSeek-V3.2; some layers may use the pick of an earlier layer's indexer."""
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


def _latent(c: ConfigReader, indexed: str | None = None) -> LatentAttention:
    c.only("qk_head_dim", c.size("qk_nope_head_dim") + c.size("qk_rope_head_dim"))
    top_k = c.size("index_topk") if indexed else None
    picks = indexed == "full"
    index_heads, index_width = (c.size("index_n_heads"), c.size("index_head_dim")) if indexed else (None, None)
    query_rank = c.size_if("q_lora_rank")
    if picks and query_rank is None:
        c.stop("q_lora_rank is null or missing; the indexer reads the compressed query")
    return LatentAttention(
        kind="latent",
        query_heads=heads(c),
        kv_rank=c.size("kv_lora_rank"),
        query_rank=query_rank,
        nope_head_dim=c.size("qk_nope_head_dim"),
        rope_head_dim=c.size("qk_rope_head_dim"),
        value_head_dim=c.size("v_head_dim"),
        index_heads=index_heads if picks else None,
        index_head_dim=index_width if picks else None,
        index_top_k=top_k,
    )


def _latent_model(c: ConfigReader, attentions: list[LatentAttention]) -> Architecture:
    if "q_lora_rank" not in c.data:
        c.stop("q_lora_rank is missing; null means that queries are not compressed")
    blocks = zip(attentions, feed_forwards(c, FAMILIES[c.family]), strict=True)
    mtp = c.whole("num_nextn_predict_layers", "num_mtp_layers")
    return architecture(c, [Layer(*pair) for pair in blocks], mtp_layers=mtp)


def deepseek_v4(c: ConfigReader) -> Architecture:
    """DeepSeek-V4: pooled keys in two strides, experts in every layer, a residual stream of several copies."""
    made = {stride: _compressed(c, stride) for stride in _STRIDES}
    width = c.size("moe_intermediate_size")
    mixture = experts(c, width, count_keys=("n_routed_experts", "num_local_experts"), shared=width)
    return architecture(
        c,
        [Layer(made[stride], mixture) for stride in _strides(c)],
        mtp_layers=c.whole("num_nextn_predict_layers"),
        residual_streams=c.size("hc_mult"),
    )


def deepseek_v41(c: ConfigReader) -> Architecture:
    """DeepSeek-V4.1: entries that later layers share, indexers that do, and tables of n-grams beside some layers."""
    width = c.size("moe_intermediate_size")
    mixture = experts(c, width, count_keys=("n_routed_experts",), shared=width)
    streams = c.size("hc_mult")
    layers = [Layer(attention, mixture) for attention in _sharing(c)]
    mtp = c.whole("num_nextn_predict_layers")

    # Tables of n-grams, of which a token reads some rows, and what makes keys and a value of these.
    rows = c.numbers("engram_num_embeddings") or []
    if len(rows) != len(c.numbers("engram_layer_ids") or []):
        c.stop("engram_num_embeddings and engram_layer_ids must have as many entries")
    engrams: tuple[UnknownPart, ...] = ()
    if rows:
        width, hidden = c.size("engram_head_dim"), hidden_size(c)
        read = (c.size("engram_max_ngram_size") - 1) * c.size("engram_n_heads") * width
        projected = len(rows) * ((streams + 1) * hidden * read + 2 * streams * hidden)
        engrams = (
            UnknownPart(name="engram tables", parameters=sum(rows) * width, looked_up=True),
            UnknownPart(name="engram projections", parameters=projected),
        )
    return architecture(c, layers, mtp_layers=mtp, residual_streams=streams, residual_fold=False, beside=engrams)


def _sharing(c: ConfigReader) -> list[CompressedAttention]:
    """Attention of each layer: over a window, and behind it over entries that some layers keep for those after them."""
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
    window, index = _compressed(c, 0), (c.size("index_n_heads"), c.size("index_head_dim"))
    made = []
    for layer, stride in enumerate(ratios[:layers]):
        picks = layer in pickers
        limited = picks and isinstance(chooser, int) and 0 <= chooser < layer
        changes = {
            "stride": stride,
            "entries": "projected" if layer in keepers else "earlier",
            "index_heads": index[0] if picks else None,
            "index_head_dim": index[1] if picks else None,
            "index_top_k": c.size("index_topk"),
            "index_candidates": candidates if limited else None,
        }
        made.append(window.replace(**changes) if stride else window)
    return made


def _strides(c: ConfigReader) -> list[int]:
    """Stride of each layer; a published list has one more entry for each multi-token-prediction layer."""
    layers, mtp = c.layers(), c.whole("num_nextn_predict_layers")
    kinds = c.words("layer_types", tuple(_KIND_OF_STRIDE), layers)
    _, rates = c.find("compress_rates")
    if rates is not None and rates != {kind: stride for kind, stride in _KIND_OF_STRIDE.items() if stride}:
        c.stop(f"compress_rates is {rates!r}; only strides of 4 and 128 are understood")
    ratios = c.numbers("compress_ratios")
    if kinds is not None:
        return [_KIND_OF_STRIDE[kind] for kind in kinds]
    if ratios is None:
        c.stop("neither compress_ratios nor layer_types says how each layer compresses")
    if len(ratios) not in (layers, layers + mtp):
        c.stop(f"compress_ratios has {len(ratios)} entries for {layers} layers and {mtp} for multi-token prediction")
    for ratio in ratios:
        if ratio not in _STRIDES:
            c.stop(f"compress_ratios has the entry {ratio}; understood: {', '.join(map(str, _STRIDES))}")
    return ratios[:layers]


def _compressed(c: ConfigReader, stride: int) -> CompressedAttention:
    queries, width, groups = heads(c), c.size("head_dim"), c.size("o_groups")
    if (queries * width) % groups:
        c.stop(f"o_groups is {groups}, but {queries} heads of {width} do not split so")
    indexed = stride == 4
    index = (c.size("index_n_heads"), c.size("index_head_dim"), c.size("index_topk"))
    return CompressedAttention(
        kind="compressed",
        query_heads=queries,
        head_dim=width,
        query_rank=c.size("q_lora_rank"),
        output_groups=groups,
        output_rank=c.size("o_lora_rank"),
        window=c.size("sliding_window"),
        stride=stride or None,
        overlap=2 if indexed else 1,
        index_heads=index[0] if indexed else None,
        index_head_dim=index[1] if indexed else None,
        index_top_k=index[2] if indexed else None,
    )


def kimi_linear(c: ConfigReader) -> Architecture:
    """Kimi Linear and K3: delta attention in most layers, latent attention in the others."""
    if "q_lora_rank" not in c.data:
        c.stop("q_lora_rank is missing; null means that queries are not compressed")
    gated = c.has("mla_use_output_gate") and c.flag("mla_use_output_gate", default=False)
    latent = _latent(c).model_copy(update={"output_gate": gated})
    inner, layers = c.inside("linear_attn_config"), c.layers()
    inner.skip("gate_lower_bound")
    whole = inner.has("use_full_rank_gate") and inner.flag("use_full_rank_gate", default=False)
    keys = ("num_heads", "head_dim", "num_heads", "head_dim", "short_conv_kernel_size")
    delta = recurrent(inner, "kda", keys, gate_rank=None if whole else inner.size("head_dim"))
    # Layers are counted from 1.
    with_delta, full = inner.numbers("kda_layers") or [], inner.numbers("full_attn_layers") or []
    if sorted(with_delta + full) != list(range(1, layers + 1)):
        c.stop(f"kda_layers and full_attn_layers must name each of {layers} layers once, counted from 1")
    inner.finish()
    parts = feed_forwards(c, FAMILIES[c.family])
    width = c.size_if("routed_expert_hidden_size")
    norm = c.has("latent_moe_use_norm") and c.flag("latent_moe_use_norm", default=False)
    if width is not None:
        changes = {"latent_size": width, "latent_norm": norm}
        parts = [part.model_copy(update=changes) if isinstance(part, ExpertFeedForward) else part for part in parts]
    return architecture(
        c,
        [Layer(delta if number in with_delta else latent, part) for number, part in enumerate(parts, 1)],
        mtp_layers=c.whole("num_nextn_predict_layers"),
        residual_span=c.size_if("attn_res_block_size"),
        max_context=c.size_if("model_max_length"),
    )
