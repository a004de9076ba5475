"""Tiny models of random weights, LoRA adapters for them, and what transformers and PEFT compute: see README.md here."""

import json
import sys
from pathlib import Path

import peft
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

WORDS = 96
PROMPTS = [[5], [3, 17, 42, 8, 90, 1, 1, 61], list(range(2, 95, 3))]
SHARED = dict(
    vocab_size=WORDS, hidden_size=64, intermediate_size=144, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=128, rms_norm_eps=1e-6, bos_token_id=None, eos_token_id=0,
    pad_token_id=0, initializer_range=0.2,
)


def tokenizer(folder):
    words = {f"w{n}": n for n in range(WORDS)}
    made = Tokenizer(models.WordLevel(words, unk_token="w1"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.save(str(folder / "tokenizer.json"))


def adapter(model, folder, rank, rslora, modules, seed):
    """An adapter of random weights, `B` too, so that it changes something."""
    torch.manual_seed(seed)
    config = peft.LoraConfig(r=rank, lora_alpha=2 * rank, use_rslora=rslora, target_modules=modules, lora_dropout=0.0,
                             bias="none", task_type="CAUSAL_LM")
    made = peft.get_peft_model(model, config)
    for name, weight in made.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight, std=0.1)
    made.save_pretrained(folder)
    (folder / "README.md").unlink()  # A template without content.
    return made.unload()


def compute(model):
    rows = []
    for prompt in PROMPTS:
        with torch.no_grad():
            ids = torch.tensor([prompt])
            logits = model(ids).logits[0]
            answer = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False)
        answer = [token for token in answer[0, len(prompt):].tolist() if token != 0]
        rows.append({"prompt": prompt, "answer": answer, "logits": [[round(v, 6) for v in row] for row in logits.tolist()]})
    return rows


def main(out):
    every = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    kinds = {
        "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM, dict(rope_theta=10000.0, tie_word_embeddings=True)),
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM, dict(rope_theta=500000.0, tie_word_embeddings=False)),
    }
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__}
    for seed, (kind, (config, architecture, more)) in enumerate(kinds.items()):
        torch.manual_seed(seed)
        folder = out / kind
        model = architecture(config(**SHARED, **more)).float().eval()
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(weight, std=0.2)
        model.save_pretrained(folder)
        tokenizer(folder)
        computed = {"base": compute(model)}
        for name, rank, rslora, modules in [("all", 8, False, every), ("attention", 4, True, ["q_proj", "v_proj"])]:
            model = adapter(model, out / f"{kind}-{name}", rank, rslora, modules, 100 + seed)
            on = peft.PeftModel.from_pretrained(model, out / f"{kind}-{name}").eval()
            computed[name] = compute(on)
            model = on.unload()
        (folder / "logits.json").write_text(json.dumps({"versions": versions, "computed": computed}) + "\n")


main(Path(sys.argv[1]))
