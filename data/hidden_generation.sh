#!/bin/sh
# How far off chips are whose generation nobody has measured: profiles/servers fitted without a generation, held against
# its rows. sh data/hidden_generation.sh FOLDER; half an hour for each on a busy core. Numbers stand in
# docs/evidence/hidden.md.
set -eu
folder=$1
cd "$(dirname "$0")/.."
kernels=chip.product_efficiency,experts.kernel_efficiency
host=host.launch,host.warm_up,serving.prefill_factor,host.graph_launch,network.collective_overhead,host.step_overhead,host.sequence_overhead,host.request_overhead
sources="serving_points inferencemax_aggregated throughput_points"

hidden() {
    name=$1 seen=$2
    # shellcheck disable=SC2086
    .venv/bin/inference-econ calibrate $sources --where "engine=vllm|sglang|trtllm,hardware=$seen" --base deployable \
        --fit "$kernels,experts.popularity_scv,$host" --most 90 --target tpot,ttft,throughput --reference aiconfigurator \
        --without "dataset=throughput_points,source!=trtllm_static_v0.9|trtllm_overview_v1.0|trtllm_overview_v1.2" \
        --without "engine=vllm,model=qwen3_235b_a22b" \
        --without "engine=vllm,model=llama_3_8b,dataset=serving_points" \
        --set assumptions.experts.spread=random --set assumptions.host.engine=vllm \
        --set assumptions.chip.hbm_efficiency=0.86 --set assumptions.chip.math_efficiency=0.72 \
        --set assumptions.chip.narrow_math_efficiency=0.78 --set assumptions.experts.kernel_efficiency=0.97 \
        --set assumptions.attention.math_efficiency=0.49 --set assumptions.attention.kv_hbm_efficiency=0.82 \
        --set "assumptions.host.graph_launch=3 us" --set "assumptions.host.launch=40 us" --set assumptions.host.steps_ahead=1 \
        --set "assumptions.host.warm_up=0.3 s" --set "assumptions.host.transfer_warm_up=4.5 s" \
        --name "without $name" --yes --quiet -o "$folder/without_$name.yaml"
    # shellcheck disable=SC2086
    .venv/bin/inference-econ validate $sources --assumptions "$folder/without_$name.yaml" --by hardware >"$folder/$name.txt"
}

hidden blackwell "h200_sxm|h100_sxm|a100_sxm_80"
hidden hopper "b200|gb200_nvl72|a100_sxm_80"
