"""Tiny models with random weights, and what the reference makes of them.

usage: make_models.py        (with torch, transformers, safetensors, Pillow; the versions are noted
                              in models/README)

Writes tests/golden/models/NAME/: a model folder as Hugging Face publishes it, and expected.safetensors
with inputs (pixels, tokens) and the embeddings that the reference computes in f32. tests/test_encoder.c
compares.
"""

import json
import pathlib
import shutil

import numpy as np
import torch
import transformers
from PIL import Image
from safetensors.torch import save_file
from transformers import (CLIPConfig, CLIPModel, CLIPTextConfig,
                          CLIPTextModelWithProjection, CLIPTokenizer, CLIPVisionConfig,
                          CLIPVisionModelWithProjection, SiglipConfig, SiglipModel)

OUT = pathlib.Path(__file__).parent / "models"
TEXTS = ["a photo of a cat", "the photo", "", "a painting of the sea, at night", "cat",
         "one two three four five six seven eight nine ten eleven twelve"]
CONTEXT = 16


def words():
    """A vocabulary of single bytes and a few merges, in CLIP's spelling."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    alphabet = [chr(b) for b in keep] + [chr(256 + i) for i in range(256 - len(keep))]
    merges = [("p", "h"), ("o", "t"), ("ph", "ot"), ("phot", "o</w>"), ("t", "h"), ("th", "e</w>"),
              ("o", "f</w>"), ("c", "a"), ("ca", "t</w>"), ("i", "n"), ("in", "g</w>")]
    vocabulary = alphabet + [a + "</w>" for a in alphabet] + [a + b for a, b in merges]
    return vocabulary + ["<|startoftext|>", "<|endoftext|>"], merges


def write_tokenizer(folder):
    vocabulary, merges = words()
    (folder / "vocab.json").write_text(
        json.dumps({word: i for i, word in enumerate(vocabulary)}, ensure_ascii=False))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    return CLIPTokenizer.from_pretrained(folder)


def fill(model, seed):
    """Weights that make something of their input: the initial ones of the reference hardly do."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if "norm" in name:
                p.copy_(0.1 * noise + (1 if name.endswith("weight") else 0))
            elif "embedding" in name and "patch" not in name or "probe" in name:
                p.copy_(0.5 * noise)
            elif p.ndim >= 2:
                p.copy_(1.2 * noise / (p[0].numel() ** 0.5))
            elif p.ndim == 1:
                p.copy_(0.1 * noise)
    return model.eval()


def pictures():
    """Three small pictures of different shapes and kinds."""
    folder = OUT / "pictures"
    folder.mkdir(parents=True)
    y, x = np.mgrid[0:30, 0:44]
    rng = np.random.default_rng(5)
    a = np.stack([x * 5 % 256, y * 8 % 256, (x * y) % 256], -1)
    b = rng.integers(0, 256, (21, 17, 3))
    c = 128 + 100 * np.sin(np.stack([x / 3, y / 4, (x + y) / 5], -1))
    Image.fromarray(a.astype("u1")).save(folder / "a.png", optimize=True)
    Image.fromarray(b.astype("u1")).save(folder / "b.png", optimize=True)
    Image.fromarray(c.astype("u1")).resize((25, 60)).convert("L").save(folder / "c.png", optimize=True)
    return [Image.open(folder / f"{name}.png").convert("RGB") for name in "abc"]


def write_processor(folder, size, siglip=False):
    """As older models have it, CLIP; SigLIP stretches and does not crop."""
    half = [0.5, 0.5, 0.5]
    config = {"image_processor_type": "CLIPImageProcessor", "do_resize": True, "resample": 3,
              "size": {"shortest_edge": size}, "do_center_crop": True,
              "crop_size": {"height": size, "width": size}, "do_rescale": True,
              "rescale_factor": 1 / 255, "do_normalize": True, "do_convert_rgb": True,
              "image_mean": [0.48145466, 0.4578275, 0.40821073],
              "image_std": [0.26862954, 0.26130258, 0.27577711]}
    if siglip:
        config |= {"image_processor_type": "SiglipImageProcessor", "do_center_crop": False,
                   "size": {"height": size, "width": size}, "image_mean": half, "image_std": half}
        del config["crop_size"]
    (folder / "preprocessor_config.json").write_text(json.dumps(config, indent=1) + "\n")


def processed(folder, images, siglip):
    kind = transformers.SiglipImageProcessorPil if siglip else transformers.CLIPImageProcessorPil
    return kind.from_pretrained(folder)(images=images, return_tensors="pt")["pixel_values"]


@torch.no_grad()
def expect(folder, model, vision, text, seed, images, siglip=False):
    """Inputs and the reference's embeddings, of the model as it is read back from the folder."""
    generator = torch.Generator().manual_seed(seed + 1000)
    out = {}
    if vision is not None:
        pixels = torch.randn(5, 3, vision.image_size, vision.image_size, generator=generator)
        write_processor(folder, vision.image_size, siglip)
        photographs = processed(folder, images, siglip)
        run = lambda x: (model.get_image_features(pixel_values=x).pooler_output
                         if hasattr(model, "get_image_features") else model(x).image_embeds)
        out |= {"pixels": pixels, "image": run(pixels), "pictures": run(photographs)}
    if text is not None:
        tokenizer = write_tokenizer(folder)
        tokens = tokenizer(TEXTS, padding="max_length", truncation=True, max_length=CONTEXT,
                           return_tensors="pt")
        inputs = {"input_ids": tokens["input_ids"], "attention_mask": tokens["attention_mask"]}
        out["tokens"] = tokens["input_ids"].to(torch.int32)
        out["text"] = (model.get_text_features(**inputs).pooler_output
                       if hasattr(model, "get_text_features") else model(**inputs).text_embeds)
    for name in "image", "text":
        if name in out:
            unit = torch.nn.functional.normalize(out[name].double())
            gram = unit @ unit.T - 2 * torch.eye(len(unit))
            print(f"{folder.name:14} {name:6} largest cosine between rows {gram.max():.3f}")
            assert gram.max() < 0.98
    save_file({k: v.contiguous() for k, v in out.items()}, folder / "expected.safetensors")


def build(name, kind, config, dtype, seed, images, shards=None, siglip=False, rewrite=None):
    folder = OUT / name
    model = fill(kind(config), seed).to(dtype)
    model.save_pretrained(folder, **({"max_shard_size": shards} if shards else {}))
    (folder / "generation_config.json").unlink(missing_ok=True)
    if rewrite:
        path = folder / "config.json"
        path.write_text(json.dumps(rewrite(json.loads(path.read_text())), indent=2) + "\n")
    again = kind.from_pretrained(folder, dtype=torch.float32).eval()
    vision = getattr(again.config, "vision_config", again.config if "vision" in name else None)
    text = getattr(again.config, "text_config", again.config if "text" in name else None)
    expect(folder, again, vision, None if siglip else text, seed, images, siglip)


def old_spelling(config):
    """Early files: what counts is in *_config_dict, and *_config may say something else."""
    for tower in "text", "vision":
        config[f"{tower}_config_dict"] = config[f"{tower}_config"]
        config[f"{tower}_config"] = {"hidden_size": 99, "num_hidden_layers": 7}
    return config


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    images = pictures()
    end = len(words()[0]) - 1
    text = dict(vocab_size=end + 1, max_position_embeddings=CONTEXT, bos_token_id=end - 1,
                eos_token_id=end, pad_token_id=end)
    f32, f16, bf16 = torch.float32, torch.float16, torch.bfloat16
    build("clip-f32", CLIPModel, CLIPConfig(
        projection_dim=24,
        vision_config=dict(hidden_size=48, intermediate_size=96, num_hidden_layers=2,
                           num_attention_heads=3, image_size=32, patch_size=8),
        text_config=dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                         num_attention_heads=2, **(text | {"eos_token_id": 2}))), f32, 1, images)
    build("clip-f16", CLIPModel, CLIPConfig(
        projection_dim=37,
        vision_config=dict(hidden_size=40, intermediate_size=70, num_hidden_layers=3, hidden_act="gelu",
                           num_attention_heads=4, image_size=20, patch_size=4, layer_norm_eps=1e-6),
        text_config=dict(hidden_size=24, intermediate_size=50, num_hidden_layers=2, hidden_act="gelu",
                         num_attention_heads=3, **text)), f16, 2, images)
    build("clip-bf16", CLIPModel, CLIPConfig(
        projection_dim=16,
        vision_config=dict(hidden_size=32, intermediate_size=64, num_hidden_layers=1,
                           hidden_act="gelu_new", num_attention_heads=2, image_size=16, patch_size=4),
        text_config=dict(hidden_size=32, intermediate_size=33, num_hidden_layers=1,
                         hidden_act="gelu_pytorch_tanh", num_attention_heads=4, **text)), bf16, 3,
        images, shards="30KB", rewrite=old_spelling)
    build("clip-vision", CLIPVisionModelWithProjection, CLIPVisionConfig(
        projection_dim=13, hidden_size=33, intermediate_size=50, num_hidden_layers=2,
        num_attention_heads=3, image_size=30, patch_size=8), f32, 4, images)
    build("clip-text", CLIPTextModelWithProjection, CLIPTextConfig(
        projection_dim=65, hidden_size=24, intermediate_size=40, num_hidden_layers=3,
        num_attention_heads=2, **text), f32, 5, images)
    build("siglip", SiglipModel, SiglipConfig(
        vision_config=dict(hidden_size=36, intermediate_size=56, num_hidden_layers=2,
                           num_attention_heads=3, image_size=27, patch_size=6),
        text_config=dict(hidden_size=36, intermediate_size=8, num_hidden_layers=1,
                         num_attention_heads=2, vocab_size=32, max_position_embeddings=4)), f16, 6,
        images, siglip=True)
    (OUT / "README").write_text(
        f"Made by ../make_models.py with torch {torch.__version__}, transformers "
        f"{transformers.__version__} and Pillow {Image.__version__}.\n")
    total = sum(f.stat().st_size for f in OUT.rglob("*") if f.is_file())
    print(f"{total} bytes")
    assert total < 1.2e6


if __name__ == "__main__":
    main()
