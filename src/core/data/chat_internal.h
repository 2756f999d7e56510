// SPDX-License-Identifier: Apache-2.0
// chat_internal: what chat.c (text) and chat_labels.c (which bytes carry loss) share.

#pragma once

#include "core/data/chat.h"

// Renders the first count messages into out, which is emptied first.
enum err chat_render_first(struct chat *chat, struct out *out, const struct template_list *messages,
                           size_t count, bool generation_prompt);

bool chat_is_role(struct template_value message, const char *role);

// Adds bytes start … end - 1 to the labels.
void chat_label(struct chat *chat, size_t start, size_t end);

// Labels chat->out, the text of all messages, as chat->settings.labels asks. prompt_count messages
// are the prompt; 0 means that the row does not say.
void chat_label_messages(struct chat *chat, const struct template_list *messages,
                         size_t prompt_count);

// Rewrites what the template does not render (see chat.h); tools becomes none if they were moved
// into a message. Sets chat->adapted. The messages themselves are not changed.
const struct template_list *chat_adapt(struct chat *chat, const struct template_list *messages,
                                       struct template_value *tools, size_t *added,
                                       size_t *prompt_count);

// The parts of these messages that the template renders in general but left out of chat->out.
int chat_left_out(struct chat *chat, const struct template_list *messages);
