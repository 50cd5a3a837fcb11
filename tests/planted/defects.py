"""All defects that are planted."""

from __future__ import annotations

from tests.planted.of_engine import ENGINE
from tests.planted.of_files import FILES
from tests.planted.of_page import PAGE
from tests.planted.of_rooms import ROOMS

DEFECTS = (*ENGINE, *FILES, *PAGE, *ROOMS)
