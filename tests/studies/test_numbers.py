"""Numbers of results by name."""

from pathlib import Path

import pytest

import inference_econ as ie
from inference_econ.inputs import Settings
from inference_econ.studies.settings import frontier_of, number, with_numbers
from tests.reading import tables

QUESTION = Settings(**tables(Path(__file__))["QUESTION"])


@pytest.mark.rows
def test_numbers_are_read_from_settings_and_specifications(name: str, value: float) -> None:
    assert number(QUESTION, name) == pytest.approx(value, rel=1e-3)


def test_the_price_is_that_of_the_answer() -> None:
    assert number(QUESTION, "price") == frontier_of(QUESTION).dollars_per_accelerator_hour
    assert number(QUESTION.replace(price=3.0), "price") == 3.0


@pytest.mark.parametrize(
    "name", ["price", "isl", "acceptance", "hardware.hbm_bytes_per_second", "model.experts", "assumptions.host.launch"]
)
def test_what_is_set_is_read_again(name: str) -> None:
    changed = with_numbers(QUESTION, {name: 0.5 * number(QUESTION, name)})
    assert number(changed, name) == pytest.approx(0.5 * number(QUESTION, name))


def test_what_is_set_counts_last() -> None:
    assert number(with_numbers(QUESTION, {"hardware.watts": 1000.0}), "hardware.watts") == 1000.0


def test_a_changed_question_has_another_answer() -> None:
    slower = with_numbers(QUESTION, {"hardware.hbm_bytes_per_second": 2.4e12})
    assert frontier_of(slower).tokens_per_second.max() < frontier_of(QUESTION).tokens_per_second.max()


@pytest.mark.rows
def test_what_is_no_number_is_refused(name: str, message: str) -> None:
    with pytest.raises(ie.InputError, match=message):
        number(QUESTION, name)


def test_names_that_are_none_cannot_be_set() -> None:
    with pytest.raises(ie.InputError, match="'speed' is not a number"):
        with_numbers(QUESTION, {"speed": 1.0})
