"""Pictures of every kind that is taken: the pixels are right, and nothing but pixels is kept."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms, ImageOps

from engine.media import Picture, picture_decoder, to_media_info, to_picture
from engine.media.picture import MAX_SIDE
from engine.settings import Settings
from tests.helpers.media import (
    BLUE,
    GREEN,
    RED,
    WHITE,
    chunk,
    corners,
    exif,
    greedy_exif,
    memory_of,
    noise,
    png,
    saved,
    tiff,
    with_segments,
)

ROOT = Path(__file__).parents[2]
PLAIN = corners()
HALF = Image.new("RGBA", (4, 4), (255, 0, 0, 128))


def grey16(value):
    return Image.fromarray(np.full((3, 5), value, dtype=np.uint16))


def palette(**how):
    image = Image.new("P", (4, 4), 1)
    image.putpalette([*GREEN, *RED])
    image.putpixel((3, 3), 0)
    return saved(image, transparency=0, **how)


def several_in_one():
    return saved(PLAIN.resize((60, 40)), "MPO", save_all=True, append_images=[noise(60, 40)])


def keyed():
    """RGB whose green is transparent."""
    rows = bytes([0, *GREEN, *RED]) + bytes([0, *RED, *RED])
    return png(2, 2, rows, more=chunk(b"tRNS", bytes([0, 0, 0, 255, 0, 0])))


def keyed_grey16():
    rows = b"\0\x12\x34\x80\x80"
    return png(2, 1, rows, bits=16, colour=0, more=chunk(b"tRNS", b"\x12\x34"))


def bigendian16():
    data = np.full((3, 5), 0x8080, dtype=">u2").tobytes()
    entries = [(256, 4, 1, 5), (257, 4, 1, 3), (258, 3, 1, 16), (259, 3, 1, 1), (262, 3, 1, 1)]
    table = [*entries, (273, 4, 1, 8), (277, 3, 1, 1), (278, 4, 1, 3), (279, 4, 1, len(data))]
    head = b"MM\0*" + (8 + len(data)).to_bytes(4, "big")
    body = b"".join(
        tag.to_bytes(2, "big")
        + kind.to_bytes(2, "big")
        + count.to_bytes(4, "big")
        + (value.to_bytes(4, "big") if kind == 4 else value.to_bytes(2, "big") + bytes(2))
        for tag, kind, count, value in table
    )
    return head + data + len(table).to_bytes(2, "big") + body + bytes(4)


def in_cmyk(kind):
    return saved(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), kind)


# What it is, the file, (x, y), the colour there, how far it may be off.
RIGHT = [
    ("png", saved(PLAIN), (5, 0), GREEN, 0),
    ("png in strips of colours", saved(PLAIN, optimize=True), (0, 3), BLUE, 0),
    ("jpeg", saved(Image.new("RGB", (16, 16), RED), "JPEG"), (8, 8), RED, 2),
    ("jpeg that comes in scans", saved(noise(64, 64), "JPEG", progressive=True), None, None, 0),
    ("webp", saved(PLAIN, "WEBP", lossless=True), (5, 0), GREEN, 0),
    ("webp with alpha", saved(HALF, "WEBP", lossless=True), (1, 1), (255, 127, 127), 1),
    ("gif", saved(PLAIN, "GIF"), (0, 3), BLUE, 0),
    ("bmp", saved(PLAIN, "BMP"), (0, 0), RED, 0),
    ("tiff", saved(PLAIN, "TIFF"), (5, 0), GREEN, 0),
    ("tiff by lzw", saved(PLAIN, "TIFF", compression="tiff_lzw"), (5, 0), GREEN, 0),
    ("tiff by deflate", saved(PLAIN, "TIFF", compression="tiff_deflate"), (0, 3), BLUE, 0),
    ("grey", saved(Image.new("L", (3, 3), 77)), (1, 1), (77, 77, 77), 0),
    ("black and white", saved(Image.new("1", (9, 3), 1)), (8, 2), WHITE, 0),
    ("grey with alpha", saved(Image.new("LA", (3, 3), (0, 0))), (1, 1), WHITE, 0),
    ("alpha", saved(HALF), (1, 1), (255, 127, 127), 1),
    ("nothing to see", saved(Image.new("RGBA", (3, 3), (0, 0, 0, 0))), (1, 1), WHITE, 0),
    ("grey of 16 bits", saved(grey16(0x8080)), (1, 1), (128, 128, 128), 0),
    ("dark grey of 16 bits", saved(grey16(0x0303)), (1, 1), (3, 3, 3), 0),
    ("white of 16 bits", saved(grey16(0xFFFF)), (1, 1), WHITE, 0),
    ("grey of 16 bits, tiff", saved(grey16(0x4040), "TIFF"), (4, 2), (64, 64, 64), 0),
    ("grey of 16 bits, big end first", bigendian16(), (4, 2), (128, 128, 128), 0),
    ("grey of 16 bits, clear", keyed_grey16(), (0, 0), WHITE, 0),
    ("grey of 16 bits, not clear", keyed_grey16(), (1, 0), (128, 128, 128), 0),
    ("RGB of 16 bits", png(1, 1, b"\0\x80\x80\0\0\xff\xff", bits=16), (0, 0), (128, 0, 255), 0),
    ("cmyk jpeg", in_cmyk("JPEG"), (8, 8), RED, 3),
    ("cmyk tiff", in_cmyk("TIFF"), (8, 8), RED, 0),
    ("palette", palette(), (1, 1), RED, 0),
    ("a clear colour of a palette", palette(), (3, 3), WHITE, 0),
    ("a clear colour of a gif", palette(kind="GIF"), (3, 3), WHITE, 0),
    ("a clear colour of RGB", keyed(), (0, 0), WHITE, 0),
    ("beside a clear colour of RGB", keyed(), (1, 1), RED, 0),
    ("one pixel", saved(Image.new("RGB", (1, 1), BLUE)), (0, 0), BLUE, 0),
    ("a zip behind it", saved(PLAIN) + b"PK\x03\x04" + bytes(500), (5, 0), GREEN, 0),
    ("further pictures behind a jpeg", several_in_one(), None, None, 0),
    ("a profile that is none", saved(PLAIN, icc_profile=b"nonsense" * 40), (5, 0), GREEN, 0),
]


@pytest.mark.parametrize(
    ("data", "place", "colour", "off"), [row[1:] for row in RIGHT], ids=[row[0] for row in RIGHT]
)
def test_pixels_are_right(data, place, colour, off):
    found = to_picture(data).image
    assert found.mode == "RGB"
    assert found.info == {}
    if place is None:
        # What Pillow alone makes of it, where nothing has to be done besides.
        with Image.open(io.BytesIO(data)) as image:
            assert found.tobytes() == image.convert("RGB").tobytes()
    else:
        apart = np.abs(np.subtract(found.getpixel(place), colour))
        assert apart.max() <= off, found.getpixel(place)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_a_picture_is_upright(kind, orientation):
    tags = Image.Exif()
    tags[0x112] = orientation
    how = {"lossless": True} if kind == "WEBP" else {}
    data = saved(corners(48, 32).resize((48, 32)), kind, exif=tags, **how)
    with Image.open(io.BytesIO(data)) as image:
        wanted = ImageOps.exif_transpose(image).convert("RGB")
    found = to_picture(data)
    assert found.image.size == ((48, 32) if orientation < 5 else (32, 48))
    assert found.image.tobytes() == wanted.tobytes()
    with Image.open(io.BytesIO(data)) as image:
        assert to_picture(image).sha256 == found.sha256


@pytest.mark.parametrize(
    "said",
    [
        exif(9),
        exif(0),
        exif(6)[:20],
        b"Exif\0\0II*\0\xff\xff\xff\xff",
        b"Exif\0\0" + b"II*\0" + b"\x08\0\0\0" + b"\xff\xff" + bytes(40),
        b"Exif\0\0nonsense",
        b"Exif\0\0",
        b"Exif\0\0" + tiff([(0x112, 2, 4, 0x41414141)]),
        b"Exif\0\0" + tiff([(0x112, 3, 2**31, 8)]),
    ],
    ids=["9", "0", "cut", "offset", "entries", "nonsense", "empty", "text", "count"],
)
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_exif_that_says_nothing_turns_nothing(said):
    for kind in ("JPEG", "PNG"):
        with_it, without = saved(PLAIN, kind, exif=said), saved(PLAIN, kind)
        assert to_picture(with_it).sha256 == to_picture(without).sha256


def test_exif_that_asks_for_gigabytes_is_not_read():
    """Pillow itself reads all of a JPEG's EXIF when it opens one: here 20,000 times 300 KB."""
    plain = saved(noise(16, 16), "JPEG")
    data = with_segments(plain, *greedy_exif(600_000, 20_000))
    with memory_of() as told:
        assert to_picture(data).sha256 == to_picture(plain).sha256
    assert told["most"] < 100


@pytest.mark.parametrize("profile", [None, "sRGB", "LAB"])
def test_a_colour_profile_changes_no_number(profile):
    made = profile and ImageCms.ImageCmsProfile(ImageCms.createProfile(profile)).tobytes()
    assert to_picture(saved(PLAIN, icc_profile=made)).sha256 == to_picture(PLAIN).sha256


@pytest.mark.parametrize(
    ("size", "kept"),
    [
        ((2048, 3), (2048, 3)),
        ((2049, 1), (2048, 1)),
        ((1, 9000), (1, 2048)),
        ((20_000, 2), (2048, 1)),
        ((3000, 1500), (2048, 1024)),
    ],
)
def test_a_large_picture_is_scaled(size, kept):
    assert kept[0] <= MAX_SIDE
    found = to_picture(saved(Image.new("RGB", size, RED)))
    assert found.image.size == kept
    assert found.image.getpixel((0, 0)) == RED
    info = to_media_info(found)
    assert (info.width, info.height) == kept


@pytest.mark.parametrize("mode", ["1", "P", "L", "LA", "RGBA", "CMYK", "I;16"])
def test_scaling_mixes_neighbours_whatever_the_mode(mode):
    """Pillow alone would leave out pixels of a palette, and mix clear ones into their neighbours."""
    stripes = Image.new("L", (4096, 1))
    stripes.putdata([0, 255] * 2048)
    if mode == "I;16":
        values = np.asarray(stripes).astype(np.uint16) * 257
        image = Image.fromarray(values)
    else:
        image = stripes.convert("RGB").convert(mode)
    found = np.asarray(to_picture(image).image).astype(int)
    assert found.shape == (1, 2048, 3)
    assert np.abs(found[:, 4:-4] - 127.5).max() < 20


def test_the_same_picture_has_one_name_however_it_comes(tmp_path):
    image = noise(70, 50)
    path = tmp_path / "no picture by its name.txt"
    path.write_bytes(saved(image))
    data = path.read_bytes()
    ways = [path, str(path), data, bytearray(data), memoryview(data), image, Image.open(path)]
    ways += [saved(image, "BMP"), saved(image, "WEBP", lossless=True), saved(image, "TIFF")]
    first = to_picture(path)
    assert {to_picture(way).sha256 for way in ways} == {first.sha256}
    assert to_picture(first) is first
    assert len(first.sha256) == 64
    assert to_picture(noise(50, 70)).sha256 != first.sha256
    other = image.copy()
    other.putpixel((0, 0), tuple(255 - part for part in image.getpixel((0, 0))))
    assert to_picture(other).sha256 != first.sha256


def test_another_shape_of_the_same_bytes_is_another_picture():
    raw = bytes(range(36))
    one, other = (Image.frombytes("RGB", size, raw) for size in ((3, 4), (4, 3)))
    assert to_picture(one).sha256 != to_picture(other).sha256


def test_an_image_that_is_given_stays_as_it_is():
    image = noise(3000, 10).convert("RGBA")
    image.info["comment"] = b"mine"
    before = image.tobytes()
    found = to_picture(image)
    assert (image.mode, image.size, image.info) == ("RGBA", (3000, 10), {"comment": b"mine"})
    assert image.tobytes() == before
    assert found.image is not image


def test_a_content_counts_and_no_name(tmp_path):
    for name in ("a.jpg", "a.svg", "a", "\N{SNOWMAN} ; rm -rf %s\n.gif", "." + "x" * 200):
        path = tmp_path / name
        path.write_bytes(saved(PLAIN))
        assert to_picture(path).image.size == PLAIN.size


def test_a_comment_is_not_kept():
    """Pillow writes the comment of a file that it has read into the next one."""
    data = saved(noise(40, 30), "JPEG", comment=b"where it was taken")
    found = to_picture(data)
    assert found.image.info == {}
    assert b"where" not in base64.b64decode(to_media_info(found).preview)


def test_nothing_but_pixels_is_kept():
    tags = Image.Exif()
    tags[0x112], tags[0x10F], tags[0x13B] = 6, "a camera", "a person"
    tags.get_ifd(0x8825).update({1: "N", 2: (52.0, 31.0, 12.0)})
    secret = b"where it was taken"
    data = saved(noise(400, 300), "JPEG", exif=tags, comment=secret, xmp=b"<x:xmpmeta>secret</x>")
    assert b"a person" in data
    assert secret in data
    found = to_picture(data)
    assert found.image.info == {}
    assert not found.image.getexif()
    assert found.image.size == (300, 400)
    preview = base64.b64decode(to_media_info(found).preview)
    for word in (b"Exif", b"a camera", b"a person", secret, b"secret", b"GPS"):
        assert word not in preview
    with Image.open(io.BytesIO(preview)) as image:
        assert image.format == "JPEG"
        assert image.size == (120, 160)
        assert set(image.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
        assert not image.getexif()


@pytest.mark.parametrize("size", [(1, 1), (2048, 1), (159, 161), (2000, 1000)])
def test_a_preview_is_small(size):
    info = to_media_info(to_picture(noise(*size)))
    assert len(info.preview) < 40_000
    with Image.open(io.BytesIO(base64.b64decode(info.preview))) as image:
        image.load()
        assert max(image.size) <= 160
        assert max(image.size) == min(160, max(size))


def test_what_is_said_of_a_picture():
    info = to_media_info(to_picture(PLAIN))
    assert (info.kind, info.width, info.height, info.example) == ("image", 6, 4, None)
    assert (info.seconds, info.rate, info.peaks) == (None, None, ())


def test_a_picture_cannot_be_exchanged():
    found = to_picture(PLAIN)
    assert isinstance(found, Picture)
    with pytest.raises(AttributeError):
        found.image = PLAIN


def test_the_room_is_entered_before_anything_heavy_is_imported():
    code = (
        "import sys, engine.media, engine.trace.json_io;"
        " bad = {'PIL', 'numpy', 'soundfile', 'soxr', 'torch'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_limits_are_the_settings(monkeypatch):
    data = saved(noise(40, 25))
    monkeypatch.setattr(picture_decoder, "SETTINGS", Settings(max_picture_pixels=1000))
    assert to_picture(data).image.size == (40, 25)
