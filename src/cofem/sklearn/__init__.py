"""A regressor with scikit-learn's interface, for pipelines and grid searches."""

try:
    import sklearn.utils.validation as _validation
except ImportError as missing:
    raise ImportError(
        "cofem.sklearn needs scikit-learn, which is not installed: pip install scikit-learn"
    ) from missing
if not hasattr(_validation, "validate_data"):
    raise ImportError(
        "cofem.sklearn needs scikit-learn 1.6 or newer: pip install --upgrade scikit-learn"
    )

from cofem.sklearn.convergence import ConvergenceWarning
from cofem.sklearn.regressor import SparseBayesRegressor

__all__ = ["ConvergenceWarning", "SparseBayesRegressor"]
