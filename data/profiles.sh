#!/bin/sh
# Fit every profile that comes with the package again: sh run.sh refit profiles; about 25 minutes on two cores.
# With names, fit these profiles only: sh data/profiles.sh vllm_blackwell.
#
# All engines on all chips first: the constants of chips and of kernels. Then, on top of what comes before, each
# generation of chips, and each engine on it with few constants: more of them fit better and predict worse.
set -eu
cd "$(dirname "$0")/.."

only=$*
fit() {
    name=$1
    shift
    case " ${only:-$name} " in *" $name "*) ;; *) return 0 ;; esac
    echo "profiles/$name"
    .venv/bin/inference-econ calibrate "$@" --name "profiles/$name" --yes --quiet -o "scenarios/assumptions/profiles/$name.yaml"
}

# Dense products, experts and attention have curves of kernels timed alone (docs/model/kernels.md): of the first two, how much of
# them servers reach. The shares of attention that are set count on chips without such curves, and for indexers and states.
kernels=chip.product_efficiency,experts.kernel_efficiency
memory=experts.popularity_scv
host=host.launch,host.warm_up,serving.prefill_factor,host.graph_launch,network.collective_overhead,host.step_overhead,host.sequence_overhead,host.request_overhead
generation=host.launch,serving.prefill_factor,chip.product_efficiency,experts.kernel_efficiency
generation=$generation,host.graph_launch,network.collective_overhead,host.step_overhead,host.request_overhead
engine=host.launch,serving.prefill_factor,host.graph_launch,host.sequence_overhead,host.request_overhead,experts.kernel_efficiency

# Servers whose batch is known; of these, not two series that say something else than their names (docs/evidence/validation.md).
servers() {
    name=$1 where=$2
    shift 2
    fit "$name" serving_points inferencemax_aggregated throughput_points --where "$where" "$@" \
        --target tpot,ttft,throughput --reference aiconfigurator \
        --without "dataset=throughput_points,source!=trtllm_static_v0.9|trtllm_overview_v1.0|trtllm_overview_v1.2" \
        --without "engine=vllm,model=qwen3_235b_a22b"
}

# What is set before the fit: asynchronous scheduling, experts that are not evenly popular, kernels as the engine of a row
# counts them (docs/model/kernels.md), or vLLM where no engine is named.
known="hardware=h200_sxm|b200|gb200_nvl72|h100_sxm|a100_sxm_80"
servers servers "engine=vllm|sglang|trtllm,$known" --base deployable --fit "$kernels,$memory,$host" --most 90 \
    --set assumptions.experts.spread=random --set assumptions.host.engine=vllm \
    --set assumptions.chip.hbm_efficiency=0.86 --set assumptions.chip.math_efficiency=0.72 \
    --set assumptions.chip.narrow_math_efficiency=0.78 --set assumptions.experts.kernel_efficiency=0.97 \
    --set assumptions.attention.math_efficiency=0.49 --set assumptions.attention.kv_hbm_efficiency=0.82 \
    --set "assumptions.host.graph_launch=3 us" --set "assumptions.host.launch=40 us" --set assumptions.host.steps_ahead=1 \
    --set "assumptions.host.warm_up=0.3 s" --set "assumptions.host.transfer_warm_up=4.5 s"
# Set before the fit as well: what prefill workers of an engine take to hand a cache over, and to connect in the first
# round. Mean TTFTs weigh too little in a fit to tell them (docs/model/disaggregation.md has what rows say).
pools() {
    case $1 in
        sglang) echo "--set assumptions.host.handover=15ms --set assumptions.host.transfer_warm_up=1s" ;;
        trtllm)
            echo "--set assumptions.host.handover=4ms"
            # B200 shows less of both than H200: TTFT of its disaggregated servers is 0.16 off, and 0.50 with the values of H200.
            on=assumptions.per_family.blackwell.host
            [ "${2:-}" = hopper ] || echo "--set $on.handover=1ms --set $on.transfer_warm_up=0.5s"
            ;;
    esac
}
generations() {
    family=$1 boards=$2 place=$3
    servers "$family" "engine=vllm|sglang|trtllm,hardware=$boards" --base profiles/servers --fit "$generation" --most 60
    for one in vllm sglang trtllm; do
        constants=$engine
        # Kernels of layers with latent attention, of which TensorRT-LLM runs several beside each other, take longer there than
        # others: with a time of their own models that were left out are 8 % off, 11 % without.
        [ "${one}_$family" != trtllm_blackwell ] || constants=$constants,attention.latent_graph_launch
        servers "${one}_$family" "engine=$one,hardware=$boards" --base "profiles/$family" --fit "$constants" \
            --prior 0.5 --most 50 --set "assumptions.host.engine=$one" $(pools "$one" "$family") \
            --set "assumptions.${place}experts.kernels=${family}_$one" --set "assumptions.${place}attention.scores=${family}_$one"
    done
}
generations hopper "h200_sxm|h100_sxm" "" &
hopper=$!
generations blackwell "b200|gb200_nvl72" per_family.blackwell.
wait "$hopper"
# Engines have kernels of their own: those that were counted (docs/model/kernels.md).
engines() {
    for one in vllm sglang trtllm; do
        servers "$one" "engine=$one,$known" --base profiles/servers --fit "$engine" --prior 0.5 --most 50 \
            --set "assumptions.host.engine=$one" $(pools "$one") \
            --set "assumptions.experts.kernels=hopper_$one" --set "assumptions.attention.scores=hopper_$one" \
            --set "assumptions.per_family.blackwell.experts.kernels=blackwell_$one" \
            --set "assumptions.per_family.blackwell.attention.scores=blackwell_$one"
    done
}
engines &
engines=$!
fit ampere throughput_points poisson_load_a100 ttft_points decode_points --base profiles/servers --prior 0.5 --most 60 \
    --fit host.launch,chip.product_efficiency,attention.kv_hbm_efficiency,host.graph_launch,host.step_overhead,host.request_overhead \
    --where "hardware=a100_sxm_80|a100_sxm_40|a100_pcie_80,engine=vllm|sglang|trtllm,load!=limited|saturated" \
    --without source=llm_inference_bench_ttft --target tpot,ttft,request,throughput --reference aiconfigurator
# Few rows, of one mixture and two dense models: constants that all models share are taught by the dense ones, what the
# mixture's steps take beyond stays with latent attention, and shares of peaks are those of kernels: products of 16 bits
# 668 of 1,307 TFLOP/s (kernels.csv, K1262), of 8 bits 1,159 of 2,615, memory 4.26 of 5.3 TB/s (Azure's ND MI300X v5).
fit cdna3 inferencemax_aggregated rocm_points --base profiles/servers --where hardware=mi300x \
    --fit host.graph_launch,network.collective_overhead,chip.hbm_efficiency,attention.latent_graph_launch \
    --set assumptions.chip.math_efficiency=0.51 --set assumptions.chip.narrow_math_efficiency=0.87 \
    --set assumptions.chip.hbm_efficiency=0.8 --target tpot,ttft,throughput,request --reference inferencemax
fit atom atom_points --base profiles/servers --where hardware=mi355x --target tpot,ttft --reference rocm_atom --prior 0.5 \
    --fit host.graph_launch,network.collective_overhead,chip.hbm_efficiency,attention.latent_graph_launch,experts.kernel_efficiency,host.request_overhead
wait "$engines"
# What measured servers differ by from these, over the files above.
[ -n "$only" ] || .venv/bin/python -m data.levels
