"""Operators of lineax and deepinv, known by what they can do."""

from dataclasses import dataclass

import numpy as np
import pytest
from operator_tools import assert_near, random_array

import cofem
from cofem.operators import as_operator, check_adjoint, from_physics

REAL = random_array((4, 6), "float64", 0)
COMPLEX = random_array((4, 6), "complex128", 1)


# -- lineax ------------------------------------------------------------------------------


@dataclass
class Structure:
    """What lineax's in_structure() and out_structure() return."""

    shape: tuple[int, ...]
    dtype: np.dtype


@dataclass
class Lineax:
    """The methods of a lineax operator, on NumPy arrays."""

    matrix: np.ndarray
    into: tuple[int, ...] = (6,)
    out: tuple[int, ...] = (4,)

    def mv(self, x):
        assert x.shape == self.into
        assert x.dtype == self.matrix.dtype
        return (self.matrix @ x.reshape(-1)).reshape(self.out)

    def transpose(self):
        return Lineax(self.matrix.T, self.out, self.into)

    def in_structure(self):
        return Structure(self.into, self.matrix.dtype)

    def out_structure(self):
        return Structure(self.out, self.matrix.dtype)


@pytest.mark.parametrize("matrix", [REAL, COMPLEX], ids=["real", "complex"])
@pytest.mark.parametrize(("into", "out"), [((6,), (4,)), ((2, 3), (2, 2))])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_lineax(matrix, into, out, dtype):
    op = as_operator(Lineax(matrix, into, out))
    assert (op.shape, op.is_complex, op.trusted) == ((4, 6), np.iscomplexobj(matrix), False)
    x, y = random_array((2, 3, 6), dtype, 2), random_array((2, 3, 4), dtype, 3)
    assert_near(op.forward(x), x @ matrix.T, "float64")
    assert_near(op.adjoint(y), y @ matrix.conj(), "float64")
    assert op.forward(x[:0]).shape == (0, 3, 4)
    check_adjoint(op)


@pytest.mark.parametrize("matrix", [REAL, COMPLEX], ids=["real", "complex"])
def test_lineax_computes_in_its_own_precision(matrix):
    single = matrix.astype("complex64" if np.iscomplexobj(matrix) else "float32")
    op = as_operator(Lineax(single))
    assert op.single_precision
    assert not as_operator(Lineax(matrix)).single_precision
    check_adjoint(op)  # as exact as single precision can be
    x = random_array((6,), "float64", 2)
    assert op.forward(x).dtype == matrix.dtype
    assert_near(op.forward(x), single @ x, "float32")


def test_lineax_between_trees_is_refused():
    class Trees(Lineax):
        def in_structure(self):
            return {"a": Structure((3,), np.dtype(float)), "b": Structure((3,), np.dtype(float))}

    with pytest.raises(ValueError, match="phi is a lineax operator between trees"):
        as_operator(Trees(REAL))


def test_lineax_refuses_torch():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="JAX and NumPy arrays; got an array of torch"):
        as_operator(Lineax(REAL)).forward(torch.ones(6))


def test_the_real_lineax():
    jax = pytest.importorskip("jax")
    lineax = pytest.importorskip("lineax")
    with jax.enable_x64(True):
        for matrix in (REAL, COMPLEX):
            theirs = 2 * lineax.MatrixLinearOperator(jax.numpy.asarray(matrix))
            op = as_operator(theirs)
            check_adjoint(op)
            x = random_array((2, 6), "float64", 2)
            assert_near(op.forward(x), 2 * x @ matrix.T, "float64")
            out = op.forward(jax.numpy.asarray(x))
            assert isinstance(out, jax.Array)
            assert_near(np.asarray(out), 2 * x @ matrix.T, "float64")
        shape = jax.ShapeDtypeStruct((2, 3), jax.numpy.float64)
        function = lineax.FunctionLinearOperator(lambda v: v[:, 1:] - v[:, :-1], shape)
        assert as_operator(function).shape == (4, 6)
        check_adjoint(as_operator(function))


# -- deepinv -----------------------------------------------------------------------------


def physics(matrix=REAL, img_size=(1, 2, 3), dtype="float32"):
    """Return an object with the methods of a deepinv physics, its filter in a buffer."""
    torch = pytest.importorskip("torch")

    class Blur(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.img_size = img_size
            self.register_buffer("filter", torch.asarray(matrix).to(getattr(torch, dtype)))

        def A(self, x, **kwargs):  # noqa: N802
            assert x.shape[1:] == (1, 2, 3)
            return (x.reshape(len(x), 6) @ self.filter.T).reshape(len(x), 1, 2, 2)

        def A_adjoint(self, y, **kwargs):  # noqa: N802
            assert y.shape[1:] == (1, 2, 2)
            return (y.reshape(len(y), 4) @ self.filter.conj()).reshape(len(y), 1, 2, 3)

    return Blur()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_physics(dtype):
    torch = pytest.importorskip("torch")
    op = as_operator(physics(dtype=dtype))
    assert (op.shape, op.is_complex, op.trusted) == ((4, 6), False, False)
    x, y = random_array((2, 3, 6), dtype, 2), random_array((2, 3, 4), dtype, 3)
    assert_near(op.forward(torch.asarray(x)).numpy(), x @ REAL.astype(dtype).T, dtype)
    assert_near(op.adjoint(torch.asarray(y)).numpy(), y @ REAL.astype(dtype), dtype)
    both = torch.asarray(x + 1j * x[::-1])
    assert_near(op.forward(both).numpy(), both.numpy() @ REAL.astype(dtype).T, dtype)
    assert op.forward(torch.asarray(x[:0])).shape == (0, 3, 4)
    check_adjoint(op, like=torch.asarray(x))


def test_a_fit_through_a_physics():
    torch = pytest.importorskip("torch")
    y = torch.asarray(REAL[:, 2] * 3, dtype=torch.float32)
    post = cofem.posterior(physics(), y, precision=1.0, noise_precision=4.0)
    exact = np.linalg.solve(4 * REAL.T @ REAL + np.eye(6), 4 * REAL.T @ y.numpy())
    np.testing.assert_allclose(post.mean.numpy(), exact, atol=1e-4)


def test_physics_without_a_size_says_what_to_do():
    blur = physics(img_size=None)
    with pytest.raises(ValueError, match=r"from_physics\(physics, img_size=\(C, H, W\)\)"):
        as_operator(blur)
    assert from_physics(blur, (1, 2, 3)).shape == (4, 6)
    with pytest.raises(TypeError, match="phi must have A and A_adjoint, got int"):
        from_physics(3)


def test_physics_meets_the_wrong_arrays():
    torch = pytest.importorskip("torch")
    op = as_operator(physics())
    with pytest.raises(TypeError, match="works on torch tensors; got an array of numpy"):
        op.forward(np.ones(6))
    assert op.forward(torch.ones(6, dtype=torch.float64)).dtype == torch.float64

    class Crash:
        img_size = (1, 2, 3)

        def A(self, x):  # noqa: N802
            return x if not x.any() else x @ x

        A_adjoint = A

    with pytest.raises(ValueError, match=r"phi: A failed on a tensor of torch\.float32 on cpu"):
        as_operator(Crash()).forward(torch.ones(6))


def test_stacked_physics_are_refused():
    class Several:
        img_size = (1, 2, 3)

        def A(self, x):  # noqa: N802
            return [x, x]

        def A_adjoint(self, y):  # noqa: N802
            return y[0] + y[1]

    with pytest.raises(TypeError, match="A returned list, expected one tensor"):
        as_operator(Several())


def test_classes_are_not_instances():
    with pytest.raises(TypeError, match="itself rather than an instance"):
        as_operator(Lineax)
