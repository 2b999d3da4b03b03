// Rows of a table of measured runs, and what each becomes.
#include "interop/training_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "interop/run_cells.h"
#include "interop/run_inputs.h"
#include "spec/catalog.h"
#include "support/messages.h"

using namespace ztplan;

namespace {

constexpr char kColumns[] =
    "id,source,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,gpu,gpus,"
    "gpus_per_node,tp,pp,vpp,dp,cp,ep,sp,zero_stage,fsdp,offload,micro_batch,"
    "global_batch,recompute,precision,attention,measured_step_s,"
    "measured_tokens_per_s_per_gpu,measured_peak_mem_gb,notes\n";

/// A run of a known model on one node, in which a test changes a few cells.
struct Cells {
  std::string source = "mine", model = "Llama3-8B";
  std::string shape = "32,4096,32,8,14336,128256,8192";
  std::string gpu = "H100-SXM-80GB", gpus = "8", per_node = "8";
  std::string sizes = "2,1,,4,1,1,1";  // tp pp vpp dp cp ep sp
  std::string zero = "1", fsdp, offload = "none", micro = "1", batch = "64";
  std::string recompute = "full", precision = "bf16", attention;
  std::string step = "10", rate, memory = "40", notes;

  std::string line() const {
    std::string out = "r1";
    for (const std::string& cell :
         {source, model, shape, gpu, gpus, per_node, sizes, zero, fsdp, offload,
          micro, batch, recompute, precision, attention, step, rate, memory,
          notes}) {
      out += "," + cell;
    }
    return out + "\n";
  }
};

CsvTable table_of(const Cells& cells) {
  return CsvTable::parse(kColumns + cells.line(), "runs.csv");
}

TrainingRun read(const Cells& cells) {
  return read_run(table_of(cells)[0], all_models());
}

std::string reason(const Cells& cells) {
  try {
    read(cells);
  } catch (const Skip& skip) {
    return skip.what();
  }
  return "";
}

template <class Change>
Cells with(Change change) {
  Cells cells;
  change(cells);
  return cells;
}

}  // namespace

TEST_CASE("a row becomes a question and a strategy") {
  const TrainingRun run = read({});
  CHECK(run.question.model.name == "llama3-8b");
  CHECK(run.question.cluster.device.id == "h100-sxm-80gb");
  CHECK(run.question.cluster.devices == 8);
  CHECK(to_text(run.strategy) ==
        "tp=2,pp=1,vpp=1,cp=1,ep=1,dp=4,sp=1,zero=1,offload=none,"
        "recompute=full,micro=1,schedule=1f1b");
  CHECK(run.question.workload.sequence == 8192);
  CHECK(run.question.workload.global_batch == 64);
  CHECK(run.step->value == 10);
  CHECK(run.peak->value == 40 * kGiB);
}

TEST_CASE("missing cells take defaults") {
  const TrainingRun run = read(with([](Cells& c) {
    c.sizes = "2,,,,,,";
    c.zero = c.offload = c.micro = c.batch = c.recompute = c.precision = "";
  }));
  CHECK(run.strategy.data == 4);
  CHECK(run.strategy.sequence_parallel);
  CHECK(run.strategy.zero == 0);
  CHECK(run.strategy.micro_batch == 1);
  CHECK(run.question.workload.global_batch == 4);  // dp * micro-batch
  CHECK(run.question.workload.precision == Precision::bf16);
}

TEST_CASE("a step follows from tokens per second where it is not given") {
  const TrainingRun run = read(with([](Cells& c) {
    c.step = "";
    c.rate = "1024";
  }));
  CHECK(run.step->value == doctest::Approx(64.0 * 8192 / (1024 * 8)));
}

TEST_CASE("words of sources become a strategy") {
  struct Row {
    const char *offload, *recompute, *fsdp, *text;
  };
  for (const Row& row :
       {Row{"optimizer-cpu", "none", "", "offload=cpu,recompute=none"},
        Row{"optimizer-cpu+params-cpu", "", "",
            "offload=cpu+parameters,recompute=none"},
        Row{"none", "\"selective:layernorm,moe_act\"", "",
            "recompute=selective:norms+activation"},
        Row{"none", "selective:core_attn", "", "recompute=selective,"},
        Row{"none", "\"selective:mla_up_proj,mlp\"", "",
            "recompute=selective:mla_up_proj+mlp"},
        Row{"none", "\"selective:layernorm,moe_act,moe,shared_experts,att\"",
            "",
            "recompute=selective:attention+norms+activation+moe+"
            "shared_experts"},
        Row{"none", "selective:every-2nd-layer", "", "recompute=full:16"},
        Row{"none", "none", "FSDP2 2", "shard=2"}}) {
    const TrainingRun run = read(with([&](Cells& c) {
      c.offload = row.offload;
      c.recompute = row.recompute;
      c.fsdp = row.fsdp;
    }));
    CAPTURE(to_text(run.strategy));
    CHECK(to_text(run.strategy).find(row.text) != std::string::npos);
  }
}

TEST_CASE("the meter that showed the memory is read from the notes") {
  const auto meter = [](const char* notes) {
    return read(with([&](Cells& c) { c.notes = notes; })).meter;
  };
  CHECK(meter("memory = nvidia-smi snapshot") == Meter::driver);
  CHECK(meter("peak = torch max_memory_allocated GiB") == Meter::allocated);
  CHECK(meter("memory = max reserved GiB") == Meter::reserved);
  CHECK(meter("") == Meter::reserved);
}

TEST_CASE("a meter that is not named is taken for reserved, and said so") {
  const auto names = [](const char* notes) {
    return read(with([&](Cells& c) { c.notes = notes; })).names_meter;
  };
  CHECK(names("memory = nvidia-smi snapshot"));
  CHECK(names("memory = max reserved GiB"));
  CHECK(!names(""));
}

TEST_CASE("a row that ran out of memory is predicted too") {
  for (const char* notes : {"OOM: activations", "BLOOM; OOM on 80 GB"}) {
    const TrainingRun run = read(with([&](Cells& c) {
      c.step = c.memory = "";
      c.notes = notes;
    }));
    CHECK(run.ran_out);
  }
  CHECK(!read(with([](Cells& c) { c.notes = "; OOM later"; })).ran_out);
}

TEST_CASE("runs that differ in layout alone share a question") {
  const auto question = [](const char* sizes, const char* batch) {
    return question_text(read(with([&](Cells& c) {
      c.sizes = sizes;
      c.batch = batch;
    })));
  };
  CHECK(question("2,1,,4,1,1,1", "64") == question("4,1,,2,1,1,1", "64"));
  CHECK(question("2,1,,4,1,1,1", "64") != question("2,1,,4,1,1,1", "32"));
  const auto released = [](const char* notes) {
    return question_text(read(with([&](Cells& c) {
      c.source = "megatron-bridge";
      c.notes = notes;
    })));
  };
  CHECK(released("NeMo container 25.09; x") !=
        released("NeMo container 25.11; x"));
  CHECK(released("NeMo container 25.09; x") ==
        released("NeMo container 25.09; y"));
  const std::vector<RunInput> inputs = inputs_of_run(read({}));
  const auto model = std::ranges::find(inputs, "model", &RunInput::name);
  REQUIRE(model != inputs.end());
  CHECK(model->value == "5B to 15B");
}

TEST_CASE("layers that do not divide are cut as their source did") {
  // BLOOM-176B: 70 layers with both ends as a layer each over 12 stages.
  Cells bloom = with([](Cells& c) {
    c.source = "bigscience-176b";
    c.model = "BLOOM-proto-176B";
    c.shape = "70,14336,112,112,57344,250880,2048";
    c.gpu = "A100-SXM-80GB";
    c.gpus = "384";
    c.sizes = "4,12,,8,1,1,0";
    c.batch = "2048";
  });
  std::vector<int> counts(12, 6);  // PipelineModule takes a list
  counts.front() = counts.back() = 5;
  CHECK(read(bloom).strategy.stage_layers == counts);
  bloom.source = "mine";
  CHECK(read(bloom).strategy.ends_as_layers);
  const Cells uneven = with([](Cells& c) {
    c.model = "other";
    c.shape = "14,1024,16,16,4096,50304,2048";
    c.sizes = "1,4,,2,1,1,0";
  });
  CHECK(to_text(read(uneven).strategy).ends_with("stages=ends"));
  const Cells odd = with([](Cells& c) {
    c.model = "other";
    c.shape = "13,1024,16,16,4096,50304,2048";
    c.sizes = "1,4,,2,1,1,0";
  });
  CHECK(to_text(read(odd).strategy).ends_with("stages=3-4-3-3"));
  // NVIDIA-NeMo/Megatron-Bridge, recipes: 61 layers over 4 stages of 4 chunks.
  const Cells deepseek = with([](Cells& c) {
    c.model = "other";
    c.shape = "61,1024,16,16,4096,50304,2048";
    c.gpus = "16";
    c.sizes = "1,4,4,4,1,1,0";
  });
  std::vector<int> chunks(16, 4);
  chunks.back() = 1;
  CHECK(read(deepseek).strategy.stage_layers == chunks);
}

// torchtitan, --experimental.pipeline_parallel_microbatches: as many as stages.
TEST_CASE("a pipeline of torchtitan cuts the batch of a rank by its stages") {
  Cells titan = with([](Cells& c) {
    c.source = "torchtitan";
    c.sizes = "1,4,,2,1,1,0";
    c.micro = "32";
    c.zero = "3";
  });
  CHECK(read(titan).strategy.micro_batch == 8);
  CHECK(read(titan).strategy.schedule == Schedule::one_f_one_b);
  titan.notes = "Interleaved 1F1B (virtual stages not stated)";
  CHECK(read(titan).strategy.virtual_stages == 2);
  titan.sizes = "4,1,,2,1,1,0";
  CHECK(read(titan).strategy.micro_batch == 32);
}

TEST_CASE("a model that is not known has its family's habits") {
  const TrainingRun gated = read(with([](Cells& c) { c.model = "Qwen-9B"; }));
  CHECK(gated.question.model.layers[0].layer.ffn.gated);
  CHECK(gated.question.model.norm == Norm::rms);
  const TrainingRun gpt = read(with([](Cells& c) { c.model = "GPT-9B"; }));
  CHECK(!gpt.question.model.layers[0].layer.ffn.gated);
  CHECK(gpt.question.model.tied);
  const TrainingRun noted = read(with([](Cells& c) {
    c.model = "GPT-9B";
    c.notes =
        "swiglu; untie-embeddings-and-output-weights; experts 8 top-2 "
        "moe-ffn 1024 shared 512 etp 1";
  }));
  CHECK(noted.question.model.layers[0].layer.ffn.experts == 8);
  CHECK(noted.question.model.layers[0].layer.ffn.top_k == 2);
  CHECK(noted.question.model.layers[0].layer.ffn.shared_width == 512);
}

TEST_CASE("what cannot be predicted is skipped with a reason") {
  struct Row {
    void (*change)(Cells&);
    const char* why;
  };
  for (const Row& row :
       {Row{[](Cells& c) { c.model = "Llama3-8B (Adapter v2)"; },
            "adapters other than LoRA cannot be said yet"},
        Row{[](Cells& c) {
              c.model = "Llama3-8B (LoRA)";
              c.notes = "LoRA (emb); trains embedding and output too";
            },
            "embeddings are trained beside adapters"},
        Row{[](Cells& c) { c.notes = "SUSPICIOUS: twice the peak"; },
            "its source's figures contradict each other"},
        Row{[](Cells& c) { c.notes = "baseline (unpacked)"; },
            "how long its sequences are is not stated"},
        Row{[](Cells& c) { c.offload = "activations-cpu"; },
            "activations or gradients are offloaded"},
        Row{[](Cells& c) { c.offload = "optimizer-cpu 25%"; },
            "a part of the optimizer is offloaded"},
        Row{[](Cells& c) { c.gpus = ""; }, "the number of GPUs is not stated"},
        Row{[](Cells& c) { c.gpus = "12"; },
            "tp*pp*dp*cp is not the number of GPUs"},
        Row{[](Cells& c) { c.gpu = "Blackwell (unnamed)"; },
            "the GPU is not named"},
        Row{[](Cells& c) { c.step = c.memory = ""; },
            "nothing comparable was measured"},
        Row{[](Cells& c) {
              c.step = c.memory = "";
              c.notes = "BLOOM; close to OOM";
            },
            "nothing comparable was measured"},
        Row{[](Cells& c) { c.step = "-1"; },
            "measured_step_s is no positive number"},
        Row{[](Cells& c) { c.memory = "1e9"; },
            "measured_peak_mem_gb is absurd"},
        Row{[](Cells& c) { c.micro = "x"; },
            "micro_batch is no whole number from 0 to 1000000"},
        Row{[](Cells& c) {
              c.model = "other";
              c.shape = ",,,,,,";
            },
            "the model's shape is not stated"},
        Row{[](Cells& c) {
              c.model = "other";
              c.shape = "2,64,7,5,256,1000,128";
            },
            "the model's shape is impossible"}}) {
    CAPTURE(std::string(row.why));
    CHECK(reason(with(row.change)) == row.why);
  }
}

TEST_CASE("adapters are those of the row, else of its source") {
  struct Row {
    const char *source, *notes, *text;
  };
  for (const Row& row :
       {Row{"mine", "LoRA rank 32 on q,v", "r=32,targets=q,v"},
        Row{"mine", "LoRA rank 10 on MLP", "r=10,targets=gate,up,down"},
        Row{"ms-swift", "LoRA rank 2 on DEFAULT (c_attn)", "r=2,targets=q,k,v"},
        Row{"ms-swift", "LoRA rank 8 on ALL (all linear)", "r=8,targets=all"},
        Row{"litgpt", "LoRA, 4,194,304 trainable", "r=8,targets=q,v"},
        Row{"qwen-finetune", "LoRA", "r=64,targets=all"}}) {
    CAPTURE(std::string(row.notes));
    const TrainingRun run = read(with([&](Cells& c) {
      c.source = row.source;
      c.model = "Llama3-8B (LoRA)";
      c.notes = "\"" + std::string(row.notes) + "\"";
    }));
    CHECK(to_text(run.question.workload.adapters) == row.text);
  }
  CHECK(!read({}).question.workload.adapters.any());
}

TEST_CASE("frozen weights have the width of their cell") {
  const auto width = [](const char* precision) {
    return read(with([&](Cells& c) {
             c.model = "Llama3-8B (QLoRA)";
             c.precision = precision;
           }))
        .question.workload.quantize;
  };
  CHECK(width("bf16") == Quantize::none);
  CHECK(width("bnb.nf4 base + bf16") == Quantize::nf4);
  CHECK(width("bnb.nf4-dq base + bf16") == Quantize::nf4_double);
  CHECK(width("int4 base + bf16 adapters") == Quantize::nf4_double);
  CHECK(width("int8 (gptq) base + bf16 adapters") == Quantize::int8);
}

TEST_CASE("what a source leaves out is as its own recipes have it") {
  const auto of = [](const char* source, const char* notes) {
    return read(with([&](Cells& c) {
      c.source = source;
      c.recompute = "";
      c.notes = notes;
    }));
  };
  using Mode = Recompute::Mode;
  CHECK(of("mine", "").strategy.recompute.mode == Mode::none);
  CHECK(of("torchtune", "").strategy.recompute.mode == Mode::full);
  CHECK(of("litgpt", "").question.workload.loading == Loading::replicated);
  CHECK(of("mine", "Liger kernels").question.workload.loss ==
        LossKernel::fused_linear);
  CHECK(of("ms-swift", "").question.workload.lengths == Lengths::varied);
  CHECK(of("megatron-bridge-cards", "").question.workload.gradient ==
        Precision::bf16);
  CHECK(of("mine", "").question.workload.gradient == Precision::fp32);
  CHECK(of("mine", "bf16 weights and optimizer states")
            .question.workload.parameter == Precision::bf16);
  CHECK(
      of("megatron-bridge", "token balance forced").question.workload.routing ==
      Routing::forced);
  CHECK(of("mine", "").question.workload.routing == Routing::learned);
  const auto bridge = [&](const char* notes) {
    return of("megatron-bridge", notes).question.workload.framework.id;
  };
  CHECK(bridge("NeMo container 25.11") == "megatron-core");
  CHECK(bridge("NeMo container 26.04.01") == "megatron-bridge-26.02");
  CHECK(bridge("NeMo container 26.08") == "megatron-bridge-26.06");
  CHECK(of("xtuner", "Megatron (Pai patch) 256 H800")
            .question.workload.framework.id == "megatron-core");
  CHECK(of("xtuner", "").question.workload.framework.id == "fsdp");
  CHECK(of("paper-megascale-2024", "Megatron-LM; batch 768")
            .question.workload.framework.id == "megatron-2023");
  CHECK(of("paper-megascale-2024", "MegaScale; batch 768")
            .question.workload.framework.id == "megatron-core");
  CHECK(of("torchtitan", "llama3-8b_h200_202506")
            .question.workload.framework.id == "torchtitan-2025");
}

TEST_CASE("a narrow precision is that of its cell") {
  const auto precision_of = [](const char* text) {
    return read(with([&](Cells& c) { c.precision = text; }))
        .question.workload.precision;
  };
  CHECK(precision_of("nvfp4") == Precision::fp4);
  CHECK(precision_of("mxfp8") == Precision::fp8);
  CHECK(precision_of("fp8 (finer)") == Precision::fp8);
}

TEST_CASE("numbers and states are those of a source's own scripts") {
  const auto of = [](const char* source, const char* model, const char* zero,
                     const char* precision) {
    return read(with([&](Cells& c) {
      c.source = source;
      c.model = model;
      c.zero = zero;
      c.precision = precision;
      c.recompute = "";
    }));
  };
  const auto stored = [&](const char* source, const char* model,
                          const char* precision) {
    return of(source, model, "", precision).question.workload.parameter;
  };
  const char* const tuned = "Llama3-8B (LoRA)";
  const char* const full = "Llama3-8B";
  CHECK(of("qwen-finetune", full, "", "bf16").strategy.zero == 3);
  CHECK(of("qwen-finetune", full, "2", "bf16").strategy.zero == 2);
  CHECK(of("qwen-finetune", tuned, "", "bf16").strategy.zero == 0);
  CHECK(stored("ms-swift", full, "bf16") == Precision::bf16);
  CHECK(!stored("ms-swift", tuned, "bf16"));
  CHECK(stored("megatron-bridge", full, "mxfp8") == Precision::fp8);
  CHECK(stored("megatron-bridge", full, "fp8 (finer-grained scaling)") ==
        std::nullopt);
  CHECK(!stored("megatron-bridge", tuned, "mxfp8"));
  CHECK(!stored("mine", full, "fp8"));
  using Mode = Recompute::Mode;
  const auto mode = [&](const char* source, const char* model) {
    return of(source, model, "", "bf16").strategy.recompute.mode;
  };
  CHECK(mode("nemo-automodel", full) == Mode::full);
  CHECK(mode("megatron-bridge", full) == Mode::none);
}

TEST_CASE("a table without the columns it needs is refused by name") {
  const auto check = [](const char* header) {
    const CsvTable table = CsvTable::parse(header, "runs.csv");
    return refusal([&] { check_columns(table); });
  };
  CHECK(check("id,model\n") ==
        "the table has no column gpu, gpus, measured_step_s or "
        "measured_peak_mem_gb");
  CHECK(check("model,gpu,gpus,measured_peak_mem_gb\n").empty());
}

TEST_CASE("every row gets a result, in the order of the table") {
  const Cells lora = with([](Cells& c) { c.model = "Llama3-8B (Adapter)"; });
  const CsvTable table =
      CsvTable::parse(kColumns + Cells().line() + lora.line(), "runs.csv");
  std::int64_t done = 0;
  const auto results =
      predict_runs(table, [&](std::int64_t count) { done = count; });
  CHECK(done == 2);
  REQUIRE(results.size() == 2);
  CHECK(results[0].skipped.empty());
  CHECK(results[0].engine == "native");
  CHECK(results[0].predicted_step->value > 0);
  CHECK(results[0].predicted_peak->value > 0);
  CHECK(results[1].skipped == "adapters other than LoRA cannot be said yet");
}

// Lightning-AI/litgpt tutorials/resource-tables.md: Llama 2 7B, LoRA on two
// GPUs, peaks at 22.18 GiB, not at the 9 that its steps take.
TEST_CASE("a peak over a whole run is that of loading where it is higher") {
  const auto peak = [](const char* source) {
    const Cells cells = with([&](Cells& c) {
      c.source = source;
      c.model = "Llama2-7B (LoRA)";
      c.shape = "32,4096,32,32,11008,32000,1304";
      c.gpu = "A100-SXM-40GB";
      c.gpus = "2";
      c.sizes = "1,1,,2,1,1,0";
      c.zero = "3";
      c.batch = "128";
    });
    return predict_runs(table_of(cells), [](std::int64_t) {})[0].predicted_peak;
  };
  REQUIRE(peak("litgpt"));
  CHECK(peak("litgpt")->value > 18 * kGiB);
  CHECK(peak("litgpt")->value < 24 * kGiB);
  CHECK(peak("mine")->value < 11 * kGiB);
}
