// SPDX-License-Identifier: Apache-2.0
// The table of record shapes: which columns a public data set has, and what each of them is. The
// last column names the data set, or where none is known by that shape, the columns.
//
// The first row whose columns all exist decides. "prompt=question" reads the part prompt from the
// column question, "output" the part output from the column of that name. "*.messages" is that key
// within any object, "translation.1" the first key of that object. Optional parts (tools, system,
// input, history, media) are found by name for every shape, also beside a part within an object:
// record_optional_columns.

#include "core/data/record_internal.h"

const struct record_signature record_signatures[] = {
    // Conversations that branch.
    { RECORD_TREE, "message_tree_id prompt", "OpenAssistant/oasst1 (trees.jsonl.gz)" },

    // Two answers to one prompt.
    { RECORD_PREFERENCE, "prompt chosen rejected", "HuggingFaceH4/ultrafeedback_binarized" },
    { RECORD_PREFERENCE, "prompt=instruction chosen rejected",
      "instruction beside chosen and rejected" },
    { RECORD_PREFERENCE, "prompt=question chosen rejected", "Intel/orca_dpo_pairs" },
    { RECORD_PREFERENCE, "messages=conversations chosen rejected", "llamafactory/DPO-En-Zh-20k" },
    { RECORD_PREFERENCE, "prompt=input chosen rejected",
      "argilla/distilabel-intel-orca-dpo-pairs" },
    { RECORD_PREFERENCE, "prompt=query chosen rejected", "query beside chosen and rejected" },
    { RECORD_PREFERENCE, "chosen rejected", "Anthropic/hh-rlhf" },
    { RECORD_PREFERENCE, "chosen=chosen_messages rejected=rejected_messages",
      "chosen_messages and rejected_messages" },
    { RECORD_PREFERENCE, "prompt=question chosen=response_j rejected=response_k",
      "lvwerra/stack-exchange-paired" },
    { RECORD_PREFERENCE, "chosen=response_j rejected=response_k", "response_j and response_k" },
    { RECORD_PREFERENCE,
      "prompt=input.messages chosen=preferred_output rejected=non_preferred_output",
      "OpenAI preference files" },

    // Conversations.
    { RECORD_MESSAGES, "messages", "HuggingFaceH4/ultrachat_200k" },
    { RECORD_MESSAGES, "messages=conversations", "anon8231489123/ShareGPT_Vicuna_unfiltered" },
    { RECORD_MESSAGES, "messages=conversation", "lmsys/lmsys-chat-1m" },
    { RECORD_MESSAGES, "messages=contents", "Gemini tuning files" },
    { RECORD_MESSAGES, "messages=chat", "glaiveai/glaive-function-calling-v2" },
    { RECORD_COMPLETION, "prompt=dialogue completion=summary", "knkarthick/samsum" },
    { RECORD_MESSAGES, "messages=dialogue", "dialogue as a list of turns" },
    { RECORD_MESSAGES, "messages=dialog", "daily_dialog" },
    { RECORD_MESSAGES, "messages=data", "stingning/ultrachat" },
    { RECORD_MESSAGES, "messages=trajectory", "nebius/SWE-agent-trajectories" },
    { RECORD_MESSAGES, "messages=*.messages", "OpenAI batch files (body.messages)" },
    { RECORD_MESSAGES, "messages=*.conversations", "ShareGPT within an object" },

    // An instruction and its answer.
    { RECORD_ALPACA, "instruction output", "tatsu-lab/alpaca" },
    { RECORD_ALPACA, "instruction output=response", "databricks/databricks-dolly-15k" },
    { RECORD_ALPACA, "instruction output=answer", "instruction and answer" },
    { RECORD_ALPACA, "instruction output=completion", "instruction and completion" },
    { RECORD_ALPACA, "instruction=definition input=inputs output=targets",
      "Muennighoff/natural-instructions" },

    // A prompt and its completion.
    { RECORD_COMPLETION, "prompt completion", "trl-lib/tldr" },
    { RECORD_COMPLETION, "prompt completion=response", "prompt and response" },
    { RECORD_QUESTION, "prompt=question completion=answer", "openai/gsm8k" },
    { RECORD_QUESTION, "prompt=question completion=response", "Open-Orca/OpenOrca" },
    { RECORD_QUESTION, "prompt=query completion=response", "meta-math/MetaMathQA" },
    { RECORD_QUESTION, "prompt=query completion=answer", "query and answer" },
    { RECORD_QUESTION, "prompt=query completion=answers", "Salesforce/xlam-function-calling-60k" },
    { RECORD_QUESTION, "prompt=question completion=answers.text", "rajpurkar/squad" },
    { RECORD_QUESTION, "prompt=question completion=output", "question and output" },
    { RECORD_QUESTION, "prompt=question completion=generated_solution",
      "nvidia/OpenMathInstruct-1" },
    { RECORD_QUESTION, "prompt=problem completion=generated_solution",
      "nvidia/OpenMathInstruct-2" },
    { RECORD_QUESTION, "prompt=problem completion=solution", "AI-MO/NuminaMath-1.5" },
    { RECORD_QUESTION, "prompt=user completion=assistant", "user and assistant" },
    { RECORD_QUESTION, "prompt=human completion=assistant", "human and assistant" },
    { RECORD_COMPLETION, "prompt=inputs completion=targets", "Muennighoff/flan" },
    { RECORD_COMPLETION, "prompt=input completion=target", "T0's input and target" },
    { RECORD_COMPLETION, "prompt=input completion=output", "input and output" },
    { RECORD_COMPLETION, "prompt completion=answer", "prompt and answer" },
    { RECORD_COMPLETION, "prompt=document completion=summary", "EdinburghNLP/xsum" },
    { RECORD_COMPLETION, "prompt=article completion=highlights", "abisee/cnn_dailymail" },
    { RECORD_COMPLETION, "prompt=article completion=abstract", "ccdv/arxiv-summarization" },
    { RECORD_COMPLETION, "prompt=article completion=summary", "article and summary" },
    { RECORD_COMPLETION, "prompt=text completion=summary", "FiscalNote/billsum" },
    { RECORD_COMPLETION, "prompt=translation.1 completion=translation.2", "wmt/wmt16" },

    // Text alone, and prompts alone.
    { RECORD_TEXT, "text", "allenai/c4" },
    { RECORD_TEXT, "text=content", "bigcode/the-stack" },
    { RECORD_TEXT, "text=completion", "completions alone" },
    { RECORD_TEXT, "text=code", "codeparrot/github-code" },
    { RECORD_PROMPT, "prompt", "trl-lib/ultrafeedback-prompt" },
    { RECORD_PROMPT, "prompt=problem", "problems alone" },
    { RECORD_PROMPT, "prompt=question", "questions alone" },
    { 0 },
};

// Shapes that no trainer reads without a choice of the user's.
const struct record_refusal record_refusals[] = {
    { "message_id parent_id text role", "single messages of OpenAssistant's trees (oasst1, oasst2)",
      "read its file of whole trees (trees.jsonl.gz), of which each thread is a conversation; or "
      "write threads of your choice as rows of \"messages\"; or count each message by itself with "
      "--format text",
      false },
    { "input_ids", "token ids, which a tokenizer made already",
      "give the data that they were made from, or what you know of them: plan --tokens N "
      "--mean-length TOKENS",
      true },
    { 0 },
};

// Columns of the parts that any shape may have besides its own, in order of preference.
const char *const record_optional_columns[RECORD_FIELDS][RECORD_NAMES] = {
    [RECORD_F_TOOLS] = { "tools", "functions" },
    [RECORD_F_SYSTEM] = { "system", "system_prompt", "systemInstruction", "system_instruction",
                          "system_message" },
    [RECORD_F_INPUT] = { "input", "context" },
    [RECORD_F_HISTORY] = { "history" },
    [RECORD_F_MEDIA] = { "images", "image", "videos", "video", "audios", "audio" },
};
