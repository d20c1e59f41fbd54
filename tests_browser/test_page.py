"""The page in a real browser: drag, type, bad input, link, file, downloads, two runs, dark, narrow, accessible."""

from __future__ import annotations

import json
import re

import pytest
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import expect

import groupdp
from groupdp.bounds import round_up
from groupdp.samplings import SAMPLINGS

RUN = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)


def value(page, index=0):
    return page.locator(".answer .value").nth(index)


def upper(run, **question):
    """The epsilon that the page must show."""
    return round_up(groupdp.epsilon(run, **{"delta": 1e-6, "group_size": 9, **question}).upper, 6)


def noisy(noise, **changes):
    return groupdp.DPSGD(
        **{"sampling": groupdp.PoissonSampling(rate=0.01), "noise_multiplier": noise, "steps": 2000, **changes}
    )


def test_it_opens_with_the_paper_s_setting(open_page):
    page = open_page()
    expect(value(page)).to_have_text(upper(RUN))
    expect(page.locator(".badge")).to_have_text("tight")
    expect(page.locator(".answer .sentence")).to_contain_text("up to 9 examples")
    expect(page.locator("#curve circle")).to_have_count(32)


def test_dragging_changes_the_answer(open_page):
    page = open_page()
    slider = page.locator("#phase0-noise_multiplier-slider")
    box = slider.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.26, box["y"] + box["height"] / 2)
    page.mouse.down()
    for step in range(10):
        page.mouse.move(box["x"] + box["width"] * (0.26 + 0.03 * step), box["y"] + box["height"] / 2)
    page.mouse.up()
    noise = float(page.locator("#phase0-noise_multiplier").input_value())
    assert noise > 1.5
    expect(value(page)).to_have_text(upper(noisy(noise)))
    slider.press("ArrowRight")  # and by keyboard
    pressed = float(page.locator("#phase0-noise_multiplier").input_value())
    assert pressed > noise
    expect(value(page)).to_have_text(upper(noisy(pressed)))


def test_typing_changes_the_answer_and_clicking_in_the_chart_the_group(open_page):
    page = open_page()
    page.fill("#phase0-noise_multiplier", "2.5")
    page.fill("#run-delta", "1e-8")
    expect(value(page)).to_have_text(upper(noisy(2.5), delta=1e-8))
    page.select_option("#phase0-sampling", "fixed-batch")
    page.fill("#phase0-batch_size", "512")
    sampling = groupdp.FixedBatchSampling(batch_size=512, dataset_size=50_000)
    expect(value(page)).to_have_text(upper(noisy(2.5, sampling=sampling), delta=1e-8))
    chart = page.locator("#curve svg").bounding_box()
    page.mouse.click(chart["x"] + 54 + (chart["width"] - 70) * 3 / 31, chart["y"] + 100)
    assert page.input_value("#run-group_size") == "4"
    expect(value(page)).to_have_text(upper(noisy(2.5, sampling=sampling), delta=1e-8, group_size=4))
    page.click("text=Give epochs instead")
    page.fill("#phase0-epochs", "20")
    expect(value(page)).to_have_text(upper(noisy(2.5, sampling=sampling, steps=1960), delta=1e-8, group_size=4))


def test_bad_input_gets_the_library_s_sentence_beside_the_field(open_page):
    page = open_page(refusals=True)
    height = page.locator("#fields").bounding_box()["height"]
    page.fill("#phase0-sampling_rate", "1.7")
    error = page.locator("#phase0-sampling_rate-error")
    expect(error).to_contain_text("sampling_rate must be a probability in (0, 1], got 1.7")
    expect(page.locator("#phase0-sampling_rate")).to_have_attribute("aria-invalid", "true")
    expect(value(page)).to_have_text("—")
    assert page.locator("#fields").bounding_box()["height"] == height  # nothing jumps
    page.fill("#phase0-sampling_rate", "much")
    expect(error).to_have_text("sampling_rate must be a finite number, got 'much'.")
    page.fill("#phase0-sampling_rate", "")
    expect(error).to_contain_text("sampling_rate must be given")
    page.fill("#phase0-sampling_rate", "0.01")
    expect(error).to_have_text("")
    expect(value(page)).to_have_text(upper(RUN))


def test_a_link_reproduces_the_page(open_page, address):
    page = open_page()
    page.fill("#phase0-noise_multiplier", "1.25")
    page.click("text=Add a phase")
    page.fill("#phase1-steps", "500")
    page.fill("#run-group_size", "5")
    page.select_option("#run-adjacency", "remove")
    page.click("#copy-link")
    link = page.evaluate("navigator.clipboard.readText()")
    phases = [noisy(1.25), noisy(1.25, steps=500)]
    expected = upper(phases, group_size=5, adjacency="remove")
    expect(value(page)).to_have_text(expected)
    again = open_page(link.removeprefix(address))
    assert again.url == link
    expect(value(again)).to_have_text(expected)
    assert again.input_value("#phase1-steps") == "500"
    assert again.input_value("#run-adjacency") == "remove"


def test_every_sampling_is_offered_and_shuffled_runs_show_the_false_claim(open_page):
    page = open_page()
    names = page.locator("#phase0-sampling option").evaluate_all("all => all.map((one) => one.value)")
    assert names == list(SAMPLINGS)
    page.select_option("#phase0-sampling", "shuffled")
    page.fill("#phase0-noise_multiplier", "4")
    assert page.input_value("#run-adjacency") == "substitute"
    sampling = groupdp.ShuffledSampling(batch_size=500, dataset_size=50_000)
    expect(value(page)).to_have_text(upper(noisy(4.0, sampling=sampling), adjacency="substitute"))
    expect(page.locator(".badge")).to_have_text("valid, not tight")
    claim = page.locator(".before > div", has_text="not a guarantee: these batches")
    expect(claim.locator("dd")).to_have_text(upper(noisy(4.0), adjacency="substitute"))
    page.select_option("#phase0-sampling", "poisson-sources")
    expect(page.locator(".answer .sentence")).to_contain_text("3 examples from web and 5 from books")
    page.select_option("#phase0-sampling", "poisson")
    page.select_option("#run-adjacency", "exchange")
    page.fill("#run-removed", "2")
    page.fill("#run-added", "3")
    expected = groupdp.epsilon(noisy(4.0), delta=1e-6, removed=2, added=3).upper
    expect(value(page)).to_have_text(round_up(expected, 6))


def test_hostile_links_do_no_harm(open_page):
    fragment = "#sampling=%3Cb%3E&delta=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E&phase99.steps=1&b.__proto__=1&x&steps=2000"
    page = open_page(fragment, refusals=True)
    expect(page.locator("#run-delta-error")).to_contain_text("got '<img src=x onerror=alert(1)>'")
    page.fill("#run-delta", "1e-6")
    expect(value(page)).to_have_text(upper(RUN))


def test_a_dropped_file_shows_everybody(open_page):
    page = open_page()
    counts = "n\n" + "1\n" * 70 + "3\n" * 20 + "12\n" * 10
    transfer = page.evaluate_handle(
        """(text) => {
            const data = new DataTransfer();
            data.items.add(new File([text], "counts.csv"));
            return data;
        }""",
        counts,
    )
    page.dispatch_event(".drop", "drop", {"dataTransfer": transfer})
    expect(page.locator(".people-result")).to_contain_text("100 people with 250 examples")
    expect(page.locator(".bar").nth(2)).to_contain_text("70 of 100")  # epsilon of one example is 2.96
    page.set_input_files("#counts", {"name": "few.csv", "mimeType": "text/csv", "buffer": b"n\n1\n2\n"})
    expect(page.locator(".people-result")).to_contain_text("few.csv: 2 people")


def test_downloads_and_hand_over(open_page):
    page = open_page()
    expect(page.locator("#curve circle")).to_have_count(32)
    with page.expect_download() as taken:
        page.click('[data-take="csv"]')
    rows = taken.value.path().read_text().splitlines()
    assert rows[0].startswith("group_size,epsilon_lower,epsilon_upper")
    assert float(rows[9].split(",")[2]) == groupdp.epsilon(RUN, delta=1e-6, group_size=9).upper
    with page.expect_download() as taken:
        page.click('[data-take="svg"]')
    picture = taken.value.path().read_text()
    assert picture.count("<circle") == 32
    assert "class=" not in picture
    with page.expect_download() as taken:
        page.click('[data-take="png"]')
    assert taken.value.path().read_bytes().startswith(b"\x89PNG")
    text = page.locator("#handover pre")
    expect(text).to_contain_text("groupdp epsilon --sampling poisson --sampling-rate 0.01")
    page.click('[data-kind="toml"]')
    expect(text).to_contain_text("[[phase]]")
    page.click('[data-kind="markdown"]')
    expect(text).to_contain_text("# Privacy statement")
    with page.expect_download() as taken:
        page.click("#download-text")
    assert taken.value.suggested_filename == "statement.md"
    page.click('[data-kind="python"]')
    expect(text).to_contain_text("import groupdp")
    page.click("#copy-text")
    assert "groupdp.epsilon(run, delta=1e-06, group_size=9)" in page.evaluate("navigator.clipboard.readText()")


def test_two_runs_side_by_side_and_calibration(open_page):
    page = open_page()
    page.click("#compare")
    page.fill("#phase0-noise_multiplier", "2")
    expect(value(page, 0)).to_have_text(upper(RUN))
    expect(value(page, 1)).to_have_text(upper(noisy(2.0)))
    expect(page.locator("#curve circle.run1")).to_have_count(32)
    expect(page.locator(".calibrate .found")).to_contain_text("Noise multiplier 2.76625")
    page.click("text=Use it")
    assert page.input_value("#phase0-noise_multiplier").startswith("2.76625")
    expect(value(page, 1)).to_have_text("8")
    page.click("#compare")
    expect(page.locator(".answer")).to_have_count(1)


def test_the_attacker_and_the_baselines_arrive(open_page):
    page = open_page()
    expect(page.locator("#attack-words")).to_contain_text("and is wrong in at most 1\u00a0in\u00a01\u202f000")
    expect(page.locator("#curve path.vadhan")).to_have_count(1)
    expect(page.locator("#curve text.old-tool")).to_have_text("∞")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (360, False), (360, True)])
def test_accessible_light_and_dark_wide_and_narrow(open_page, width, dark):
    page = open_page(width=width, dark=dark)
    expect(page.locator("#attack-words")).to_contain_text("guesses")
    page.wait_for_timeout(500)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    colours = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in re.findall(r"\d+", colours)[:3])
    assert (brightness < 200) == dark
    result = Axe().run(page)
    serious = [one for one in result["violations"] if one["impact"] in ("serious", "critical")]
    assert serious == [], json.dumps(serious, indent=1)[:4000]


def test_nothing_jumps_while_values_change(open_page):
    page = open_page()
    expect(page.locator("#attack-words")).to_contain_text("guesses")

    def boxes():
        return page.evaluate("[...document.querySelectorAll('.card')].map((card) => card.getBoundingClientRect().top)")

    before = boxes()
    for noise in ("0.9", "1.7", "3", "12"):
        page.fill("#phase0-noise_multiplier", noise)
        expect(value(page)).to_have_text(upper(noisy(float(noise))))
        assert boxes() == before


def test_a_rate_may_be_given_by_the_sizes_of_batch_and_dataset(open_page, address):
    page = open_page()
    page.get_by_role("button", name="Give batch and dataset size instead").click()
    page.locator("#phase0-batch_size").fill("512")
    page.locator("#phase0-dataset_size").fill("1008000")
    expected = upper(noisy(1.0, sampling=groupdp.PoissonSampling(rate=512 / 1_008_000)))
    expect(value(page)).to_have_text(expected)
    page.locator('[data-kind="toml"]').click()
    expect(page.locator("#handover pre")).to_contain_text("batch_size = 512\ndataset_size = 1008000")
    page.wait_for_function("location.hash.includes('dataset_size=1008000')")
    again = open_page(page.evaluate("location.hash"))
    expect(again.locator("#phase0-dataset_size")).to_have_value("1008000")
    expect(value(again)).to_have_text(expected)


def test_a_slow_question_says_so_and_gives_way_to_a_newer_one(open_page):
    """A refusal does not stay while the next question is computed, and the one after that does not wait for it."""
    page = open_page(refusals=True)
    expect(value(page)).to_have_text(upper(RUN))
    held = []

    def hold(route):
        if route.request.post_data_json["phases"][0]["noise_multiplier"] == 3:
            held.append(route)  # never answered
        else:
            route.continue_()

    page.route("**/api/epsilon", hold)
    noise = page.locator("#phase0-noise_multiplier")
    noise.fill("-1")
    expect(page.locator(".answer .refusal")).to_contain_text("noise_multiplier must be")
    noise.fill("3")
    expect(page.locator(".answer .certified")).to_have_text("computing")
    expect(page.locator(".answer .refusal")).to_have_text("")
    expect(page.locator(".field.wrong")).to_have_count(0)
    assert len(held) == 1
    noise.fill("4")
    expect(value(page)).to_have_text(upper(noisy(4.0)))


def test_a_shuffled_run_shows_what_spread_allocation_would_give(open_page):
    page = open_page()
    row = page.locator(".before div", has_text="With spread allocation")
    expect(value(page)).to_have_text(upper(RUN))
    expect(row).to_be_hidden()
    page.locator("#phase0-sampling").select_option("shuffled")
    for name, text in {"batch_size": "600", "dataset_size": "60000", "noise_multiplier": "4", "steps": "2000"}.items():
        page.locator(f"#phase0-{name}").fill(text)
    page.locator("#run-adjacency").select_option("zero-out")
    page.locator("#run-group_size").fill("4")
    spread = groupdp.DPSGD(groupdp.SpreadSampling(batches=100), noise_multiplier=4.0, steps=2000)
    found = groupdp.epsilon(spread, delta=1e-6, group_size=4, adjacency="zero-out")
    expect(row.locator("dd")).to_have_text(round_up(found.upper, 6))
    expect(row).to_contain_text("groupdp.loading.SpreadBatches")


def test_sources_have_room_and_no_chart_of_another_run(open_page):
    page = open_page()
    expect(page.locator("#curve circle")).to_have_count(32)
    page.locator("#phase0-sampling").select_option("poisson-sources")
    entry = page.locator("#phase0-sampling_rates")
    seen, needed = entry.evaluate("one => [one.clientWidth, one.scrollWidth]")
    assert needed <= seen
    expect(page.locator("#curve")).to_be_hidden()
    expect(page.locator("#curve-note")).to_contain_text("A curve needs a group")
    page.locator("#phase0-sampling").select_option("poisson")
    expect(page.locator("#curve")).to_be_visible()


def test_the_short_summary_is_five_sentences_without_greek(open_page):
    page = open_page()
    page.locator('[data-kind="short"]').click()
    text = page.locator("#handover pre")
    expect(text).to_contain_text("The same holds with the two cases exchanged.")
    lines = text.inner_text().strip().splitlines()
    assert len(lines) == 5
    assert not re.search("epsilon|delta|[α-ω]", " ".join(lines))


def test_errors_name_no_options_of_the_command_line(open_page):
    page = open_page(refusals=True)
    ids = "user_id\n" + "".join(f"{5000 + n}\n" for n in range(30))
    for content in (ids, "user,n\na,1\nb,2\n"):
        page.set_input_files("#counts", {"name": "rows.csv", "mimeType": "text/csv", "buffer": content.encode()})
        wrong = page.locator("#people")
        expect(wrong).to_contain_text("counts must be")
        assert "--" not in wrong.inner_text()
