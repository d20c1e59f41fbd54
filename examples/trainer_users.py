"""User-level privacy with the Hugging Face Trainer and Opacus: fine-tune a small transformer, with accumulation.

    .venv-integrations/bin/python examples/trainer_users.py

The model is made from a configuration, so nothing is downloaded. A batch is one Poisson sample of the dataset. It is
cut into chunks that fit into memory, and one step is taken for all of them. The Trainer's gradient_accumulation_steps
stays at 1: it would join several samples into one step, in which an example can be several times.
"""

from __future__ import annotations

import tempfile
import warnings
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import groupdp
from groupdp.integrations.opacus import GroupPrivacyEngine

warnings.filterwarnings("ignore", message="Secure RNG turned off")
warnings.filterwarnings("ignore", message="Full backward hook is firing")
torch.set_num_threads(1)

CAP, DELTA, TARGET, EPOCHS, BATCH, CHUNK = 4, 1e-4, 6.0, 6, 160, 48
WORDS, LENGTH = 40, 7


def messages(number: int) -> TensorDataset:
    """CAP messages of each person: whether a message has more words of the first half of the vocabulary."""
    generator = np.random.default_rng(3)
    words = generator.integers(1, WORDS, size=(number * CAP, LENGTH))
    labels = (words < WORDS // 2).sum(axis=1) > LENGTH // 2
    return TensorDataset(torch.tensor(words), torch.tensor(labels.astype(np.int64)))


def named(rows: list[Any]) -> dict[str, torch.Tensor]:
    words, labels = (torch.stack(column) for column in zip(*rows, strict=True))
    return {"input_ids": words, "labels": labels}


def logits_of(model: Any, words: torch.Tensor) -> torch.Tensor:
    # Positions for every example: Opacus needs each input of a layer to have one row for each.
    places = torch.arange(LENGTH).expand(len(words), LENGTH)
    return model(input_ids=words, position_ids=places, token_type_ids=torch.zeros_like(words)).logits


class PrivateTrainer(Trainer):
    """A Trainer whose every step is one Poisson batch, computed in chunks."""

    def __init__(self, *, private_loader: DataLoader, **options: Any) -> None:
        super().__init__(**options)
        self.private_loader = private_loader

    def get_train_dataloader(self) -> DataLoader:
        return self.private_loader

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        model.train()
        # Opacus makes an empty batch a list of empty tensors: its step adds the noise alone.
        words, labels = (inputs["input_ids"], inputs["labels"]) if isinstance(inputs, dict) else inputs
        optimizer = self.optimizer.optimizer  # Opacus's, inside of Accelerate's
        optimizer.zero_grad()  # the Trainer clears the model's gradients alone
        total = torch.zeros(())
        for start in range(0, max(len(words), 1), CHUNK):
            chunk = slice(start, start + CHUNK)
            loss = torch.nn.functional.cross_entropy(logits_of(model, words[chunk]), labels[chunk], reduction="sum")
            loss.backward()
            total += loss.detach()
            if start + CHUNK < len(words):  # clip and sum this chunk; the Trainer takes the step after the last one
                optimizer.signal_skip_step(True)
                optimizer.step()
                optimizer.zero_grad()
        optimizer.signal_skip_step(False)
        return total / BATCH


def main() -> None:
    torch.manual_seed(0)
    data = messages(400)
    model: Any = BertForSequenceClassification(
        BertConfig(
            vocab_size=WORDS,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=LENGTH,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            attn_implementation="eager",
        )
    )
    model.train()
    engine = GroupPrivacyEngine(group_size=CAP)
    module, optimizer, loader = engine.make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=0.01),
        data_loader=DataLoader(data, batch_size=BATCH, shuffle=True, collate_fn=named),
        target_epsilon=TARGET,
        target_delta=DELTA,
        epochs=EPOCHS,
        max_grad_norm=1.0,
        loss_reduction="sum",
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = PrivateTrainer(
            private_loader=loader,
            model=module,
            args=TrainingArguments(
                output_dir=folder,
                max_steps=EPOCHS * len(loader),
                max_grad_norm=0.0,  # Opacus clips
                remove_unused_columns=False,
                use_cpu=True,
                report_to=[],
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
            ),
            optimizers=(optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)),
        )
        found = groupdp.inspect(trainer, claim=groupdp.PoissonSampling(rate=loader.sample_rate))
        print(found)
        print(f"Noise multiplier {optimizer.noise_multiplier:.4f} for epsilon {TARGET:g} at delta {DELTA:g}.")
        trainer.train()
    module.eval()
    with torch.no_grad():
        right = (logits_of(module, data.tensors[0]).argmax(1) == data.tensors[1]).float().mean().item()
    steps = sum(entry[2] for entry in engine.accountant.history)
    print(f"{steps} steps of Poisson batches in chunks of at most {CHUNK}; accuracy {right:.1%}.")
    print(f"Epsilon of a person with {CAP} messages: at most {engine.get_epsilon(DELTA):.4f}.")


if __name__ == "__main__":
    main()
