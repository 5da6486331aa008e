from larc.reporting.tables import Table

TABLE = Table(
    "gains",
    "Gains in %.",
    ("Arm_name", "G", "Interval", "Calls"),
    (("a|b", 1.005, "[0.1, 2.0]", 1234), ("Δobj & more", -0.001, None, 5)),
)


def test_markdown_aligns_figures_and_escapes_bars():
    assert TABLE.markdown().splitlines()[:4] == [
        "| Arm_name | G | Interval | Calls |",
        "| :--- | ---: | :--- | ---: |",
        r"| a\|b | 1.00 | [0.1, 2.0] | 1,234 |",
        "| Δobj & more | 0.00 | – | 5 |",  # no negative zero
    ]


def test_latex_escapes_what_latex_reads_as_commands():
    latex = TABLE.latex()
    assert r"Arm\_name & G & Interval & Calls \\\midrule" in latex
    assert r"$\Delta$obj \& more & 0.00 & -- & 5 \\" in latex
    assert r"\caption{Gains in \%.}" in latex
    assert r"\label{tab:gains}" in latex


def test_csv_keeps_six_decimals_and_raw_counts():
    assert TABLE.csv().splitlines() == [
        "Arm_name,G,Interval,Calls",
        'a|b,1.005000,"[0.1, 2.0]",1234',
        "Δobj & more,-0.001000,,5",
    ]


def test_html_escapes_and_sets_numbers_and_intervals_apart_from_words():
    lines = TABLE.html().splitlines()
    assert lines[1] == (
        '<thead><tr><th scope="col">Arm_name</th><th scope="col" class="number">G</th>'
        '<th scope="col" class="number">Interval</th><th scope="col" class="number">Calls</th>'
        "</tr></thead>"
    )
    assert lines[4] == (
        '<tr><th scope="row">Δobj &amp; more</th><td class="number">0.00</td>'
        '<td class="number">–</td><td class="number">5</td></tr>'
    )
    html = Table("said", "", ("what",), [["<b>" + 60 * "long "]]).html()
    assert '<th scope="row" class="prose">&lt;b&gt;long' in html
    assert "<tbody>\n</tbody>" in Table("none", "", ("what", "G"), []).html()
