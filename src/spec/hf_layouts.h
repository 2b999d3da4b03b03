// What no column of the family table says: biases, norms, windows, experts.
// Each function turns what is common to all families into one family's layers,
// as transformers' modeling_<model_type>.py builds them.
#pragma once

#include "spec/hf_families.h"

namespace ztplan {

void lay_out_bloom(HfReading& r);
void lay_out_deepseek_v2(HfReading& r);
void lay_out_deepseek_v3(HfReading& r);
void lay_out_falcon(HfReading& r);
void lay_out_gemma(HfReading& r);
void lay_out_gemma2(HfReading& r);
void lay_out_gemma3(HfReading& r);
void lay_out_glm4(HfReading& r);
void lay_out_glm4_moe(HfReading& r);
void lay_out_gpt2(HfReading& r);
void lay_out_gpt_neox(HfReading& r);
void lay_out_gpt_oss(HfReading& r);
void lay_out_gptj(HfReading& r);
void lay_out_llama(HfReading& r);
void lay_out_llama4(HfReading& r);
void lay_out_mistral(HfReading& r);
void lay_out_mixtral(HfReading& r);
void lay_out_mpt(HfReading& r);
void lay_out_olmo(HfReading& r);
void lay_out_olmo2(HfReading& r);
void lay_out_olmoe(HfReading& r);
void lay_out_opt(HfReading& r);
void lay_out_phi(HfReading& r);
void lay_out_phi3(HfReading& r);
void lay_out_phimoe(HfReading& r);
void lay_out_qwen2(HfReading& r);
void lay_out_qwen2_moe(HfReading& r);
void lay_out_qwen3(HfReading& r);
void lay_out_qwen3_moe(HfReading& r);
void lay_out_smollm3(HfReading& r);
void lay_out_starcoder2(HfReading& r);
void lay_out_t5(HfReading& r);

}  // namespace ztplan
