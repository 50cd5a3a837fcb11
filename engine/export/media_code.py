"""Exported code that gives the model a picture or a sound."""

from __future__ import annotations

from pathlib import Path

from engine.errors import ExportError
from engine.export.filter_code import filter_list
from engine.export.plan import MediaSource, Plan
from engine.media import load_trace_media, to_file_bytes
from engine.models.readers.families import BLIP, PROMPTED, WHISPER
from engine.trace.records import MediaInfo

FILE_NAMES = {"image": "picture.png", "audio": "sound.wav"}
"""Kind of media -> name of the file that the code reads from its own folder."""
_IMAGE_TOKEN = "getattr(processor, 'image_token', '')"
_SPEECH_RULES = """speech = GenerationConfig.from_pretrained(MODEL, revision=REVISION)
speech.return_timestamps, speech.no_speech_threshold = {times!r}, None
rules = model._retrieve_logit_processors(speech, None, {begin}, 1, DEVICE)  # the model's own"""


def media_imports(plan: Plan) -> tuple[list[str], list[str]]:
    """Return lines that import packages, and names to import from transformers."""
    media = plan.media
    if media is None:
        return [], []
    paths = [] if media.info.example is not None else ["from pathlib import Path", ""]
    if media.info.kind == "image":
        return [*paths, "from PIL import Image"], [_processor_class(media)]
    names = [_processor_class(media)] + (["GenerationMixin"] if media.kind == WHISPER else [])
    return [*paths, "import soundfile", "import soxr"], names


def media_constants(plan: Plan) -> list[str]:
    """Return the lines that define the path of the picture or the sound."""
    media = plan.media
    if media is None:
        return []
    what = "pixels" if media.info.kind == "image" else "rate and samples"
    note = f"  # SHA-256 of its {what}: {media.info.sha256}"
    if media.info.example is not None:
        return [f"FILE = {_file_path(media.info)!r}{note}"]
    return [
        'here = Path(globals().get("__file__", "notebook")).resolve().parent',
        f"FILE = here / {FILE_NAMES[media.info.kind]!r}{note}",
    ]


def _file_path(info: MediaInfo) -> str:
    if info.example is not None:
        return f"assets/media/{info.example}{'.png' if info.kind == 'image' else '.flac'}"
    return FILE_NAMES[info.kind]


def _processor_class(media: MediaSource) -> str:
    if media.info.kind == "audio":
        return "AutoFeatureExtractor"
    return "AutoProcessor" if media.whole else "AutoImageProcessor"


def model_input_lines(plan: Plan) -> list[str]:
    """Return the lines that define ``given``, the input arguments of generate()."""
    media = plan.media
    assert media is not None
    load = f"{_processor_class(media)}.from_pretrained(MODEL, revision=REVISION)"
    lines = [f"processor = {load}", *_open_lines(media), *_process_lines(plan, media)]
    dtype = "{n: v.to(DEVICE, model.dtype if v.is_floating_point() else v.dtype) for n, v in found.items()}"
    lines += [f"given = {dtype}", "prompt = torch.tensor([PROMPT_IDS], device=DEVICE)"]
    # BLIP's own generate() runs both parts, so the code runs the first and calls the second's.
    if media.kind == BLIP:
        lines += [
            "with torch.no_grad():",
            "    states = model.vision_model(**given).last_hidden_state",
            "seen = torch.ones(states.shape[:-1], dtype=torch.long, device=DEVICE)",
            "given = {'encoder_hidden_states': states, 'encoder_attention_mask': seen}",
            "model = model.text_decoder",
        ]
    if media.encodes and media.kind != BLIP:
        lines.append('given["decoder_input_ids"] = prompt')
    else:
        lines.append('given |= {"inputs": prompt, "attention_mask": torch.ones_like(prompt)}')
    if media.kind == WHISPER:
        times = bool((plan.trace.speech or {}).get("return_timestamps"))
        # GenerationMixin's generate(), which the code calls, does not add the rules of Whisper's own.
        lines += _SPEECH_RULES.format(times=times, begin=media.begin).splitlines()
        added = filter_list(plan)
        rules = f"[*rules, *{added}]" if added else "rules"
        lines.append(f'given["logits_processor"] = {rules}')
    return lines


def _open_lines(media: MediaSource) -> list[str]:
    if media.info.kind == "image":
        return ["image = Image.open(FILE).convert('RGB')"]
    return [
        "samples, rate = soundfile.read(FILE, dtype='float32')",
        "if rate != processor.sampling_rate:",
        "    samples = soxr.resample(samples, rate, processor.sampling_rate, quality='HQ')",
    ]


def _process_lines(plan: Plan, media: MediaSource) -> list[str]:
    if media.info.kind == "audio":
        rate = "sampling_rate=processor.sampling_rate"
        return [f"found = dict(processor(samples, {rate}, return_tensors='pt'))"]
    if not media.whole:
        return ["found = dict(processor(images=image, return_tensors='pt'))"]
    text = f"{_IMAGE_TOKEN} + (PROMPT or '')"
    return [
        f"found = dict(processor(images=image, text={text}, return_tensors='pt'))",
        "read = found.pop('input_ids').shape[1]",
        "found.pop('attention_mask', None)",
        "for name in ('token_type_ids', 'mm_token_type_ids'):",
        "    if name in found:  # what stands after the picture's prompt is text",
        "        found[name] = torch.nn.functional.pad(found[name], (0, len(PROMPT_IDS) - read))",
    ]


def short_input_lines(plan: Plan) -> list[str]:
    """Return the lines that define ``given`` in the short script."""
    media = plan.media
    assert media is not None
    place = ", ".join(plan.model.arguments)
    load = f"{_processor_class(media)}.from_pretrained({place})"
    file = _file_path(media.info)
    if media.info.kind == "audio":
        rate = "samples, sampling_rate=rate"
        return [
            f"samples, rate = soundfile.read({file!r}, dtype='float32')  # at the rate that the model hears",
            f"given = {load}({rate}, return_tensors='pt')",
        ]
    image = f"images=Image.open({file!r}).convert('RGB')"
    if media.whole:
        return [
            f"processor = {load}",
            f"text = {_IMAGE_TOKEN} + {plan.trace.prompt or ''!r}",
            f"given = processor({image}, text=text, return_tensors='pt')",
        ]
    lines = [f"given = {load}({image}, return_tensors='pt')"]
    split = "split_special_tokens=True, " if plan.trace.literal_tokens else ""
    if plan.trace.prompt and media.kind != PROMPTED:
        options = f"add_special_tokens=False, {split}return_tensors='pt'"
        asked = f"tokenizer({plan.trace.prompt!r}, {options})"
        name = "input_ids" if media.kind == BLIP else "decoder_input_ids"
        lines.append(f"given[{name!r}] = {asked}['input_ids']")
    elif media.kind == PROMPTED:
        lines.append(f"given |= tokenizer({plan.trace.prompt or ''!r}, {split}return_tensors='pt')")
    return lines


def check_media_exportable(plan: Plan) -> None:
    """Check that a run with a picture or a sound can be written as code.

    Raises:
        ExportError: it is a conversation, or a speech model with an exported loop.
    """
    if plan.media is None:
        return
    if plan.trace.messages is not None:
        raise ExportError("A conversation about a picture cannot be written as code.")
    if plan.media.kind == WHISPER and plan.has_folder:
        raise ExportError(
            "This model has its own generate(), so a bundled loop cannot be exported as code."
        )


def write_media_file(plan: Plan, folder: str) -> None:
    """Write the picture or sound that the code reads into a folder; built-in examples are skipped.

    Raises:
        EngineError: the picture or the sound is not in memory any more.
    """
    if plan.media is None or plan.media.info.example is not None:
        return
    found = load_trace_media(plan.trace)
    for medium in filter(None, (found.picture, found.sound)):
        (Path(folder) / FILE_NAMES[plan.media.info.kind]).write_bytes(to_file_bytes(medium))
