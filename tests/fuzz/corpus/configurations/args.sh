# Arguments of pretrain_gpt.py; sourced by launch.sh.
# shellcheck shell=bash disable=SC2034
ARGS=(
  --num-layers 32
  --hidden-size 4096
  --ffn-hidden-size 14336
  --num-attention-heads 32
  --group-query-attention
  --num-query-groups 8
  --swiglu
  --normalization RMSNorm
  --disable-bias-linear
  --untie-embeddings-and-output-weights
  --position-embedding-type rope
  --seq-length 8192
  --max-position-embeddings 8192
  --tokenizer-type NullTokenizer
  --vocab-size 128256
  --make-vocab-size-divisible-by 128
  --tensor-model-parallel-size 1
  --micro-batch-size 1
  --global-batch-size 64
  --train-iters "${TRAIN_ITERS:-100}"
  --use-megatron-fsdp
  --data-parallel-sharding-strategy optim_grads_params
  --ckpt-format fsdp_dtensor
  --overlap-grad-reduce
  --overlap-param-gather
  --bf16
  --attention-backend auto
  --lr 1e-4
  --clip-grad 1.0
  --mock-data
)
