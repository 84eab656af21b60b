"""Data frames of pandas and polars: names are kept, compared, and given on."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.feature_selection import SelectFromModel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cofem.sklearn import SparseBayesRegressor

NAMES = ["age", "dose", "weight", "height", "pulse"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 5))
Y = 1 + 2 * X[:, 1] + 0.1 * RNG.normal(size=60)
FRAMES = {
    "pandas": lambda x, names: pd.DataFrame(x, columns=names),
    "polars": lambda x, names: pl.DataFrame(dict(zip(names, x.T, strict=True))),
}


def assert_close(one, other):
    # A frame lies in memory by columns, and sums over them round otherwise.
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-14)


@pytest.fixture(params=FRAMES)
def kind(request):
    return request.param


def test_a_frame_is_its_numbers_and_its_names(kind):
    frame = FRAMES[kind](X, NAMES)
    plain, named = SparseBayesRegressor().fit(X, Y), SparseBayesRegressor().fit(frame, Y)
    assert list(named.feature_names_in_) == NAMES
    assert not hasattr(plain, "feature_names_in_")
    assert_close(named.coef_, plain.coef_)
    assert_close(named.predict(frame), plain.predict(X))
    for one, other in zip(
        named.predict(frame, return_std=True), plain.predict(X, return_std=True), strict=True
    ):
        assert_close(one, other)


def test_outputs_in_a_frame_or_a_series(kind):
    series = {"pandas": pd.Series, "polars": pl.Series}[kind](Y)
    frame = FRAMES[kind](X, NAMES)
    one = SparseBayesRegressor().fit(frame, series)
    assert_close(one.coef_, SparseBayesRegressor().fit(X, Y).coef_)
    both = FRAMES[kind](np.stack([Y, -Y], axis=1), ["up", "down"])
    assert SparseBayesRegressor().fit(frame, both).coef_.shape == (2, 5)


def test_other_names_are_refused(kind):
    model = SparseBayesRegressor().fit(FRAMES[kind](X, NAMES), Y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(FRAMES[kind](X[:, ::-1], NAMES[::-1]))


def test_missing_values_are_refused(kind):
    gap = X.copy()
    gap[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        SparseBayesRegressor().fit(FRAMES[kind](gap, NAMES), Y)


def test_words_in_a_column_are_refused(kind):
    words = np.array(["a", "b"] * 30)
    frame = {
        "pandas": lambda: pd.DataFrame({"dose": X[:, 1], "site": words}),
        "polars": lambda: pl.DataFrame({"dose": X[:, 1], "site": words.tolist()}),
    }[kind]()
    with pytest.raises(TypeError, match="X must hold numbers, got strings such as 'a'"):
        SparseBayesRegressor().fit(frame, Y)


def test_set_output_gives_names_through_a_pipeline(kind):
    frame = FRAMES[kind](X, NAMES)
    chain = make_pipeline(StandardScaler(), SparseBayesRegressor()).set_output(transform=kind)
    assert list(chain.fit(frame, Y)[-1].feature_names_in_) == NAMES


def test_selected_columns_keep_their_names(kind):
    frame = FRAMES[kind](X, NAMES)
    chosen = SelectFromModel(SparseBayesRegressor(), threshold=1.0).set_output(transform=kind)
    found = chosen.fit(frame, Y).transform(frame)
    assert type(found) is type(frame)
    assert list(found.columns) == ["dose"]
