# ruff: noqa: E501 -- the templates stand here as they are published
"""Tiny models with chat templates, written after the published ones of five families."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

from tokenizers import AddedToken

from engine.models.loading import LoadedModel
from tests.helpers.heads import with_heads
from tests.helpers.models import tiny_llama
from tests.helpers.tokenizers import make_sentencepiece, make_tokenizer

CHATML = """\
{%- if messages[0]['role'] != 'system' -%}
{{- '<|im_start|>system\\nYou are a helpful bear.<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"""

LLAMA_3 = """\
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if 'tool_calls' in message %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
        {{- '{"name": "' + tool_call.name + '", "parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}<|eot_id|>" }}
    {%- elif message.role == "tool" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {{- message.content }}
        {{- "<|eot_id|>" }}
    {%- else %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
        {{- message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}"""

GEMMA = """\
{{ bos_token }}{% if messages[0]['role'] == 'system' %}\
{{ raise_exception('System role not supported') }}{% endif %}\
{% for message in messages %}\
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}\
{% endif %}\
{% if (message['role'] == 'assistant') %}{% set role = 'model' %}\
{% else %}{% set role = message['role'] %}{% endif %}\
{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}\
{% endfor %}\
{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}"""

MISTRAL = """\
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message["role"] == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("After the optional system message, conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"] | trim + eos_token }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported") }}
    {%- endif %}
{%- endfor %}"""

QWEN_3 = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or reasoning_content) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- set call = tool_call.function %}
                {{- '\\n<tool_call>\\n{"name": "' + call.name + '", "arguments": ' }}
                {{- call.arguments | tojson }}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

# family -> (template, kind of tokenizer, special tokens, added tokens that are none)
FAMILIES: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "chatml": (CHATML, "byte_level", ("<|im_start|>", "<|im_end|>"), ()),
    "llama3": (
        LLAMA_3,
        "byte_level",
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        (),
    ),
    "gemma": (GEMMA, "sentencepiece", ("<start_of_turn>", "<end_of_turn>"), ()),
    "mistral": (MISTRAL, "sentencepiece", ("[INST]", "[/INST]"), ()),
    "qwen3": (
        QWEN_3,
        "byte_level",
        ("<|im_start|>", "<|im_end|>"),
        ("<think>", "</think>", "<tool_call>", "</tool_call>"),
    ),
}
SYSTEMLESS = ("gemma",)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "sun",
            "description": "Says where the sun is.",
            "parameters": {"type": "object", "properties": {"hour": {"type": "integer"}}},
        },
    }
]


@cache
def tokenizer_of_family(family: str) -> Any:
    """Return a tokenizer with the chat template of a family."""
    template, kind, special, others = FAMILIES[family]
    tokenizer = make_tokenizer(400) if kind == "byte_level" else make_sentencepiece()
    tokenizer.add_special_tokens({"additional_special_tokens": list(special)})
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in others])
    tokenizer.chat_template = template
    return tokenizer


@cache
def talker(family: str = "chatml", layers: int = 6, seed: int = 4) -> LoadedModel:
    """Return a tiny model with random weights that is talked to through a family's template."""
    tokenizer = tokenizer_of_family(family)
    ids = {"bos_token_id": 1, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": 0}
    settings = {"max_position_embeddings": 1024, **ids}
    model = with_heads(tiny_llama(layers, vocab_size=len(tokenizer), seed=seed, **settings))
    return LoadedModel(model, tokenizer, f"tiny-{family}")


def with_template(template: str | None, family: str = "chatml") -> LoadedModel:
    """Return a family's model with another chat template, or with none."""
    made = talker(family)
    tokenizer = deepcopy(made.tokenizer)
    tokenizer.chat_template = template
    return LoadedModel(made.model, tokenizer, made.name)


def said(*turns: str, system: str | None = None) -> list[dict[str, Any]]:
    """Return messages that alternate between user and assistant."""
    first = [{"role": "system", "content": system}] if system is not None else []
    roles = ("user", "assistant")
    return first + [{"role": roles[n % 2], "content": text} for n, text in enumerate(turns)]
