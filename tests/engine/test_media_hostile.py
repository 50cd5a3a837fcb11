"""Files that are no picture, are damaged, or ask for too much: one sentence each, soon, and little memory."""

from __future__ import annotations

import io
import os
import pickle
import struct
import threading
import zlib

import numpy as np
import pytest
from PIL import Image

from engine.errors import EngineError, ParameterError
from engine.media import bounded_files, inputs, picture_decoder, to_picture
from engine.settings import Settings
from playground.i18n.translate import translator_for
from tests.helpers.media import (
    PNG,
    RED,
    chunk,
    corners,
    exif,
    huge,
    memory_of,
    noise,
    png,
    saved,
    tiff,
    with_segments,
)
from tests.helpers.patience import PATIENCE_S
from tests.helpers.sentences import clean

NOISE = noise(64, 64)
NO_PICTURE = "it must be a picture as PNG, JPEG, WebP, GIF, BMP or TIFF."
DAMAGED = "the picture is damaged or was cut off."
SEVERAL = "it has more than one frame or page, and one picture is wanted."
PIXELS = "at most 40 million pixels."
TIME = "opening it may take at most 0.5 seconds."
MODES = "its colours must be grey, RGB, CMYK or a palette of 8 or 16 bits a channel."


def refusal(value, name="image"):
    """Return the sentence that a value is refused with."""
    with pytest.raises(ParameterError) as caught:
        to_picture(value)
    sentence = clean(str(caught.value))
    assert caught.value.parameter == name
    assert sentence.startswith(f"{name} = ")
    assert sentence.endswith(".")
    assert sentence.count(". ") == 0
    assert str(pickle.loads(pickle.dumps(caught.value))) == sentence
    assert "is not allowed" not in translator_for("de").translate(sentence)
    return sentence


def half(kind, **how):
    data = saved(NOISE, kind, **how)
    return data[: len(data) // 2]


def moving(kind, **how):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue", "white")]
    return saved(frames[0], kind, save_all=True, append_images=frames[1:], **how)


def broken_checksum():
    data = bytearray(saved(NOISE))
    data[data.index(b"IDAT") + 10] ^= 255
    return bytes(data)


def strip(width, height, compression, data, *more):
    """Return a TIFF of grey pixels in one strip."""
    entries = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, compression)]
    entries += [(262, 3, 1, 1), (273, 4, 1, 8), (278, 4, 1, height), (279, 4, 1, len(data))]
    return tiff([*entries, *more], data)


def huge_tiles():
    """Return a picture of 16 by 16 pixels in a tile that unpacks to more than four billion."""
    data = zlib.compress(bytes(100_000))
    entries = [(256, 4, 1, 16), (257, 4, 1, 16), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1)]
    entries += [(322, 4, 1, 65_536), (323, 4, 1, 65_536), (324, 4, 1, 8), (325, 4, 1, len(data))]
    return tiff(entries, data)


def greedy_tags():
    """Return a TIFF whose 3,000 tags are each all of its 2 MB."""
    data = bytes(2_000_000)
    asked = [(0x8000 + n, 7, len(data), 8) for n in range(3000)]
    return strip(16, 16, 1, data, *asked)


def comments():
    """Return a GIF of 12 MB of comments; Pillow copies all before it for each."""
    data = saved(Image.new("P", (8, 8)), "GIF")
    at = data.rindex(b",")
    return data[:at] + b"!\xfe\x01x\0" * 2_400_000 + data[at:]


def marks():
    """Return a JPEG of 4 million empty segments."""
    return with_segments(saved(NOISE, "JPEG"), b"\xff\xe5\0\2" * 4_000_000)


def scans():
    """Return a JPEG of 36 million pixels whose scans come again and again."""
    data = saved(Image.new("L", (6000, 6000)), "JPEG", progressive=True)
    first = data.index(b"\xff\xda")
    second = data.index(b"\xff\xc4", first)
    end = data.index(b"\xff\xd9", second)
    again = data[second:end]
    return data[:end] + again * (19_000_000 // len(again)) + data[end:]


def large_palette():
    form = struct.pack("<IiiHHIIiiII", 40, 8, 8, 1, 8, 0, 0, 0, 0, 2**31 - 1, 0)
    return b"BM" + bytes(12) + form


LONG_TEXT = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(3_000_000)))
DAMAGES = [
    ("nothing but a mark", PNG, NO_PICTURE),
    ("words", b"This is no picture at all.", NO_PICTURE),
    ("zeros", bytes(5000), NO_PICTURE),
    ("html", b"<!doctype html><img src=x onerror=alert(1)>", NO_PICTURE),
    ("svg", b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>", NO_PICTURE),
    ("pdf", b"%PDF-1.7\n1 0 obj\n<</Type/Catalog>>\nendobj", NO_PICTURE),
    ("postscript", saved(NOISE, "EPS"), NO_PICTURE),
    ("a pdf of Pillow", saved(NOISE, "PDF"), NO_PICTURE),
    ("ico", saved(NOISE, "ICO"), NO_PICTURE),
    ("icns", saved(NOISE, "ICNS"), NO_PICTURE),
    ("ppm", saved(NOISE, "PPM"), NO_PICTURE),
    ("tga", saved(NOISE, "TGA"), NO_PICTURE),
    ("pcx", saved(NOISE, "PCX"), NO_PICTURE),
    ("jpeg 2000", saved(NOISE, "JPEG2000"), NO_PICTURE),
    ("a zip", b"PK\x03\x04" + bytes(200), NO_PICTURE),
    ("gzip", b"\x1f\x8b\x08" + bytes(200), NO_PICTURE),
    ("a program", b"\x7fELF" + bytes(200), NO_PICTURE),
    ("a pickle", pickle.dumps({"image": 1}), NO_PICTURE),
    ("a wav", b"RIFF\x10\0\0\0WAVEfmt " + bytes(30), NO_PICTURE),
    ("half a png", half("PNG"), DAMAGED),
    ("half a jpeg", half("JPEG"), DAMAGED),
    ("half a progressive jpeg", half("JPEG", progressive=True), DAMAGED),
    ("half a gif", half("GIF"), DAMAGED),
    ("half a bmp", half("BMP"), DAMAGED),
    ("half a tiff", strip(64, 64, 1, bytes(4096))[:2000], NO_PICTURE),
    ("half a tiff's pixels", strip(64, 64, 1, bytes(100)), DAMAGED),
    ("half a webp", half("WEBP"), DAMAGED),
    ("a png that breaks off in its head", saved(NOISE)[:20], DAMAGED),
    ("a png with a wrong sum", broken_checksum(), DAMAGED),
    ("a png without pixels", PNG + chunk(b"IHDR", bytes([0, 0, 0, 8] * 2 + [8, 2, 0, 0, 0])), None),
    ("a png of no width", png(0, 8, bytes(8)), None),
    ("a png whose pixels are none", png(64, 64, b"\0" * 9), DAMAGED),
    ("a png of odd bits", png(8, 8, bytes(200), bits=3), None),
    ("a jpeg of nothing", b"\xff\xd8\xff\xd9", NO_PICTURE),
    ("a gif without a frame", b"GIF89a" + bytes(7), None),
    ("a bmp with a large palette", large_palette(), None),
    ("lzw that is none", strip(64, 64, 5, b"\xff" * 500), DAMAGED),
    ("deflate that is none", strip(64, 64, 8, b"\xff" * 500), DAMAGED),
    ("a coding that nobody knows", strip(64, 64, 9999, bytes(4096)), None),
    ("a gif that moves", moving("GIF"), SEVERAL),
    ("a png that moves", moving("PNG"), SEVERAL),
    ("a webp that moves", moving("WEBP", lossless=True), SEVERAL),
    ("a tiff of three pages", moving("TIFF"), SEVERAL),
    ("numbers of 32 bits", saved(Image.fromarray(np.full((4, 4), 70_000, np.int32)), "TIFF"), MODES),
    ("fractions", saved(Image.fromarray(np.full((4, 4), 0.5, np.float32)), "TIFF"), MODES),
    ("lab", saved(Image.new("LAB", (4, 4)), "TIFF"), MODES),
    ("tags that are each all of the file", greedy_tags(), DAMAGED),
    ("huge tiles", huge_tiles(), PIXELS),
    ("text that unpacks to much", png(8, 8, bytes(200), more=LONG_TEXT), None),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("data", "says"), [row[1:] for row in DAMAGES], ids=[row[0] for row in DAMAGES]
)
def test_what_is_no_picture_is_refused(data, says):
    with memory_of() as told:
        sentence = refusal(data)
    assert sentence.endswith(says) if says else sentence.endswith((NO_PICTURE, DAMAGED))
    assert told["most"] < 60


@pytest.mark.parametrize("side", [6_500, 10_000, 14_000])
@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP", "JPEG", "WEBP", "TIFF"])
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_bomb_is_refused_by_its_header(kind, side):
    data = huge(kind, side)
    assert len(data) < 20_000
    with memory_of() as told:
        assert refusal(data).endswith(PIXELS)
    assert told["most"] < 30


def test_warnings_that_are_errors_change_no_sentence():
    """Pillow warns of what is larger than 89 million pixels; some programs make errors of warnings."""
    assert refusal(huge("PNG", 10_000)).endswith(PIXELS)


@pytest.mark.parametrize("make", [comments, marks, scans])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_asks_for_more_work_than_it_looks_is_ended(make, monkeypatch):
    monkeypatch.setattr(picture_decoder, "SETTINGS", Settings(max_open_s=0.5))
    data = make()
    assert len(data) < 20_000_000
    with memory_of() as told:
        assert refusal(data).endswith(TIME)
    assert told["most"] < 200


def test_a_reader_that_goes_round_in_circles_is_ended():
    file = bounded_files.BoundedFile(bytes(1000), PATIENCE_S)

    def circle():
        for _ in range(10_000):
            file.seek(0)
            file.read()

    with pytest.raises(bounded_files.ReadLimitError):
        circle()


def test_no_more_pixels_than_the_settings_say(monkeypatch):
    monkeypatch.setattr(picture_decoder, "SETTINGS", Settings(max_picture_pixels=1000))
    data = saved(corners(1001, 1))
    assert refusal(data) == (
        "image = '1001x1 pixels' is not allowed: at most 0.001 million pixels."
    )
    with Image.open(io.BytesIO(data)) as image:
        assert refusal(image).endswith("at most 0.001 million pixels.")


def test_no_more_bytes_than_the_settings_say(monkeypatch, tmp_path):
    data = saved(NOISE)
    path = tmp_path / "a.png"
    path.write_bytes(data)
    monkeypatch.setattr(inputs, "SETTINGS", Settings(max_picture_bytes=len(data) - 1))
    for value in (data, path):
        assert refusal(value).endswith(f"is not allowed: at most {(len(data) - 1) / 1e6:g} MB.")
    monkeypatch.setattr(inputs, "SETTINGS", Settings(max_picture_bytes=len(data)))
    assert to_picture(path).sha256 == to_picture(data).sha256


@pytest.mark.parametrize(
    "value",
    [None, 7, 1.5, True, [], {}, ("a", "b"), object(), np.zeros((4, 4, 3)), Image, print],
    ids=lambda value: type(value).__name__,
)
def test_what_is_neither_file_nor_image(value):
    assert refusal(value).endswith(
        "it must be a path, the bytes of a file, an image of Pillow, or example:NAME."
    )


def test_nothing_is_a_file_that_is_empty(tmp_path):
    (tmp_path / "a.png").touch()
    for value in (b"", bytearray(), tmp_path / "a.png"):
        assert refusal(value).endswith("the file is empty.")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gone.png", "the file cannot be read (No such file or directory)."),
        ("a\0b.png", "no file can have such a name."),
        ("\ud800.png", None),
        ("x" * 5000, "the file cannot be read (File name too long)."),
        ("; rm -rf / #\n\x1b[31m", "the file cannot be read (No such file or directory)."),
        ("loop", "the file cannot be read (Too many levels of symbolic links)."),
        (".", "it must be a file, and no folder or device."),
        ("pipe", "it must be a file, and no folder or device."),
        ("/dev/zero", "it must be a file, and no folder or device."),
        ("/dev/stdin", None),
        ("/proc/self/mem", None),
        ("", None),
    ],
    ids=ascii,
)
def test_what_is_no_file_is_not_read(tmp_path, name, says):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    sentence = refusal(str(tmp_path / name) if name else "")
    assert says is None or sentence.endswith(says)


def test_a_link_to_a_device_is_followed_and_refused(tmp_path):
    (tmp_path / "a.png").symlink_to("/dev/zero")
    assert refusal(tmp_path / "a.png").endswith("it must be a file, and no folder or device.")


def test_a_public_deployment_reads_no_path(monkeypatch, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(saved(NOISE))
    monkeypatch.setattr(bounded_files, "SETTINGS", Settings(public=True))
    for value in (path, str(path), "/etc/passwd", "gone.png"):
        assert refusal(value).endswith(
            "a public deployment reads no files of its machine; give the bytes."
        )
    assert to_picture(path.read_bytes()).image.size == (64, 64)


def test_an_image_of_a_kind_that_is_not_taken(tmp_path):
    path = tmp_path / "a.eps"
    path.write_bytes(saved(NOISE, "EPS"))
    with Image.open(path) as image:
        assert refusal(image).endswith("it must be one of PNG, JPEG, WEBP, GIF, BMP, TIFF.")


def test_an_image_whose_file_is_gone_or_cut(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(saved(NOISE)[:600])
    with Image.open(path) as image:
        assert refusal(image).endswith(DAMAGED)
    closed = Image.open(path)
    closed.close()
    assert refusal(closed).endswith(DAMAGED)


def test_an_image_that_is_nothing():
    assert refusal(Image.new("RGB", (0, 5))).endswith("at least one pixel.")
    assert refusal(Image.new("F", (5, 5))).endswith(MODES)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_changed_bytes_end_in_a_picture_or_a_sentence():
    """A hundred changes of a file of every kind, from a fixed seed."""
    draw = np.random.default_rng(5)
    kinds = [(kind, {}) for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP")]
    kinds += [("TIFF", {"compression": "tiff_lzw"})]
    ends = {"picture": 0, "refused": 0}
    for kind, how in kinds:
        whole = saved(noise(24, 24), kind, **how)
        for _ in range(100):
            data = bytearray(whole)
            for at in draw.integers(0, len(data), 3):
                data[at] = draw.integers(0, 256)
            try:
                assert to_picture(bytes(data)).image.mode == "RGB"
                ends["picture"] += 1
            except EngineError as error:
                clean(str(error))
                ends["refused"] += 1
    assert min(ends.values()) > 30, ends


def test_many_at_once_get_what_is_theirs():
    made = [noise(40, 40, seed) for seed in range(12)]
    wanted = [image.tobytes() for image in made]
    found = [b""] * len(made)

    def work(number):
        found[number] = to_picture(saved(made[number])).image.tobytes()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(made))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert found == wanted


def test_a_tiff_whose_second_page_is_its_first_has_one():
    data = bytearray(strip(16, 16, 1, bytes(256)))
    data[-4:] = data[4:8]
    assert to_picture(bytes(data)).image.size == (16, 16)


def test_exif_alone_makes_no_picture():
    assert refusal(b"\xff\xd8\xff\xe1\0\x20" + exif(6)).endswith(NO_PICTURE)
    assert refusal(saved(Image.new("RGB", (8, 8), RED), "JPEG")[:-40] + exif(6)).endswith(
        NO_PICTURE
    )
