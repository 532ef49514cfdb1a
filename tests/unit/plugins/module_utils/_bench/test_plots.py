# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drawings: text that stays text, the page's colours, and nothing of the machine that draws."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import page, plots
from ansible_collections.modelops.vllm.plugins.module_utils._bench.document import (
    Bar,
    Bars,
    Chart,
    Charts,
    Curve,
    Document,
    Dot,
    Section,
)

HOSTILE = "$\\frac{1}$ <script>&amp; é"


def chart(label: str = "tp8-ep", name: str = "pareto") -> Chart:
    curves = [
        Curve(label, [Dot(1.0, 10.0, 9.0, 12.0, "C 1"), Dot(8.0, 70.0, 70.0, 70.0, "C 8")]),
        Curve("baseline", [Dot(1.0, 9.0, 9.0, 9.0, "not written")], muted=True),
    ]
    return Chart(name, "Title", "requests under way", "output (tok/s)", curves, "How to read it.", x_scale="log2")


def bars() -> Bars:
    drawn = [Bar("c8 output", -0.2, "-20.0%", 0.05, "worse"), Bar("c8 TTFT", 0.01, "+1.0%", 0.3, "same")]
    return Bars("changes", "Title", "change", drawn, "How to read it.")


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in ET.fromstring(svg).iter() if element.tag.endswith("text")]


def test_a_chart_has_its_labels_as_text() -> None:
    found = texts(plots.draw(chart()))
    for text in ("requests under way", "output (tok/s)", "tp8-ep", "baseline", "C 1", "C 8"):
        assert text in found
    # The loads that were measured are the ticks.
    assert {"1", "8"} <= set(found)
    assert "not written" not in found


def test_bars_have_their_labels_texts_and_percentages() -> None:
    found = texts(plots.draw(bars()))
    assert {"c8 output", "c8 TTFT", "-20.0%", "+1.0%", "0%", "change"} <= set(found)


@pytest.mark.parametrize("drawing", [chart(), bars()])
def test_colours_are_those_of_the_page(drawing: Chart | Bars) -> None:
    svg = plots.draw(drawing)
    assert "var(--text)" in svg or "var(--series-0)" in svg
    # What is left has no part in it: the only colours are the page's.
    assert not re.search(r"#[0-9a-f]{6}\b", svg)
    head = svg.split(">", 1)[0]
    assert "viewBox" in head
    assert "width=" not in head


def test_the_same_drawing_is_the_same_text_and_another_id_shares_no_names() -> None:
    assert plots.draw(chart()) == plots.draw(chart())
    first, second = (set(re.findall(r'\sid="([^"]+)"', plots.draw(chart(name=name)))) for name in ("a", "b"))
    assert first
    assert not first & second


def test_names_are_not_read_as_formulas_or_markup() -> None:
    svg = plots.draw(chart(HOSTILE))
    assert HOSTILE in texts(svg)
    assert "<script>" not in svg


def test_without_matplotlib_the_page_says_so_and_drawing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "MISSING", "Traceback: no module named matplotlib")
    with pytest.raises(RuntimeError, match="matplotlib"):
        plots.draw(chart())
    text = page.render(Document("t", "recorded", "h", [], [Section("Diagrams", Charts([chart()]))]))
    assert "matplotlib is not installed" in text
    assert "<svg" not in text
