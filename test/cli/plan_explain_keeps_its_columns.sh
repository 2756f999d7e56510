# SPDX-License-Identifier: Apache-2.0
# Values end in one column and explanations begin in another, however long a name is.
explain() {
    LC_ALL=C "$GPUHOURS" plan --tokens 20M --gpu h100 --explain --ledger off "$@" |
        awk -v of="$*" '/^How each number/ { on = 1 }
            on && /^  / && length($0) > 41 {
                lines++
                wrong += substr($0, 42, 2) != "  " || substr($0, 44, 1) == " " ||
                    (substr($0, 1, 43) ~ /[^ ]/ && substr($0, 3, 1) == " " && substr($0, 41, 1) == " ")
            }
            END { print of ": " (lines > 60 ? "" : "few lines, ") wrong + 0 " out of place" }'
}
explain --model mixtral-8x7b --gpus 8
explain --model llama-3.1-8b --gpus 8 --runs 20 --parallel-runs 4
explain --model llama-3.1-8b --stack unsloth --method qlora
explain --model qwen2.5-vl-7b --gpus 2
explain --model llama-3.1-8b --objective grpo --steps 100 --response-length 600,1400,4096 --gpus 8
