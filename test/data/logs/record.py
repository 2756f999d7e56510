# Records what the real tqdm draws when it is driven as transformers' Trainer and Lightning drive it:
#
#     script -q -c 'python3 record.py trainer' -T transformers.times transformers.log
#
# (util-linux script keeps the bytes and the seconds between them.) The steps are sleeps; nothing is trained.
# Made with tqdm 4.64.1 of Debian 12.

import sys
import time

from tqdm import tqdm


def trainer():
    """transformers: a bar without a name, log dicts written through it, evaluation bars inside, saves."""
    total, training = 60, None
    for _ in tqdm(range(400), desc="Map", unit=" examples"):
        time.sleep(0.0005)
    training = tqdm(total=total, dynamic_ncols=True)
    for step in range(1, total + 1):
        time.sleep(0.9 if step == 1 else 0.35 if step < 4 else 0.12)
        if step % 30 == 0:
            time.sleep(0.5)  # a checkpoint
        training.update(1)
        if step % 10 == 0:
            training.write(str({"loss": round(2.5 - step / 60, 4), "grad_norm": 1.0625,
                                "learning_rate": 1e-4 * (1 - step / total), "epoch": round(step / 30, 2)}))
        if step % 20 == 0:
            prediction = tqdm(total=8, leave=False, dynamic_ncols=True)
            for _ in range(8):
                time.sleep(0.11)
                prediction.update(1)
            prediction.close()
            training.write(str({"eval_loss": round(2.4 - step / 80, 4), "eval_runtime": 0.9,
                                "eval_samples_per_second": 71.1, "eval_steps_per_second": 8.9,
                                "epoch": round(step / 30, 2)}))
    training.write(str({"train_runtime": 12.3, "train_samples_per_second": 78.0, "train_steps_per_second": 4.88,
                        "train_loss": 1.98, "epoch": 2.0}))
    training.close()


def nested():
    """Bars one below the other: the cursor goes up and down."""
    outer = tqdm(total=3, desc="Epochs", position=0)
    for epoch in range(3):
        inner = tqdm(total=20, desc=f"Training Epoch: {epoch + 1}/3", position=1, leave=False, colour="green")
        for step in range(20):
            time.sleep(0.11)
            inner.update(1)
            inner.set_postfix(loss=f"{2 - (epoch * 20 + step) / 60:.4f}")
        inner.close()
        for _ in tqdm(range(5), desc="evaluating Epoch", position=1, leave=False):
            time.sleep(0.11)
        outer.update(1)
    outer.close()


{"trainer": trainer, "nested": nested}[sys.argv[1]]()
