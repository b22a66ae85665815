"""What an image is asked to hold, and where its pins go."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buildspec import requirements
from buildspec.errors import BadInputError, ExitCode
from buildspec.matrix import load
from buildspec.project import Project

REAL = load(Path(__file__).resolve().parents[2] / "versions.yaml")


def write(project: Project, text: str, image: str = "train") -> Path:
    file = project.images / image / "requirements.in"
    file.write_text(text, encoding="utf-8")
    return file


def test_placeholders_become_pins(small: Project) -> None:
    asked = requirements.read(small.images, small.matrix.stack("tug"))
    assert asked.lines == ("ray==2.60.0", "torch==2.15.0", "nvidia-nccl-cu13==2.30.7")
    assert asked.received == {"ray", "torch", "nccl", "cuda_major"}
    assert asked.excluded == ()


def test_each_image_has_its_own_requirements(small: Project) -> None:
    asked = requirements.read(small.images, small.matrix.stack("barge"))
    assert asked.lines == (
        "ray[serve]==2.60.0",
        "vllm==0.29.0",
        "nixl-cu13==1.3.2",
        "torch==2.13.0",
        "nvidia-nccl-cu13==2.29.7",
    )
    assert asked.excluded == ("nixl-cu12",)


def test_comments_and_empty_lines_are_left_out_and_urls_stay(small: Project) -> None:
    write(small, "# {what}ever\n\n  a  # {b}\n\tb\t#c\nd @ https://e.example/d.whl#sha256=ab  # why\n#\n")
    asked = requirements.read(small.images, small.matrix.stack("tug"))
    assert asked.lines == ("a", "b", "d @ https://e.example/d.whl#sha256=ab")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends(small: Project, end: str) -> None:
    file = small.images / "train" / "requirements.in"
    file.write_bytes(end.join(["a=={ray}", "b", ""]).encode())
    assert requirements.read(small.images, small.matrix.stack("tug")).lines == ("a==2.60.0", "b")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ray=={rya}", "{rya} is not a pin of a train stack (did you mean 'ray'?)"),
        ("x=={cuda-major}", "{cuda-major} is not a pin of a train stack (did you mean 'cuda_major'?)"),
        ("x=={vllm}", "{vllm} is not a pin of a train stack"),
        ("x=={}", "{} is not a pin of a train stack"),
        ("x=={ray }", "{ray } is not a pin of a train stack (did you mean 'ray'?)"),
        ("x=={ray", "a brace without its partner: x=={ray"),
        ("x==ray}", "a brace without its partner: x==ray}"),
        ("x=={{ray}}", "a brace without its partner: x=={{ray}}"),
    ],
)
def test_what_is_no_pin_has_its_line(small: Project, line: str, message: str) -> None:
    file = write(small, f"# first\na\n{line}\n")
    with pytest.raises(BadInputError) as caught:
        requirements.read(small.images, small.matrix.stack("tug"))
    assert str(caught.value) == f"{file}:3: {message}"
    assert caught.value.code == ExitCode.BAD_INPUT


def test_no_requirements(small: Project) -> None:
    file = small.images / "train" / "requirements.in"
    file.unlink()
    with pytest.raises(BadInputError) as caught:
        requirements.read(small.images, small.matrix.stack("tug"))
    assert str(caught.value).startswith(f"{file} can't be read: ")
    assert "No such file" in str(caught.value)


def test_requirements_that_are_not_utf_8(small: Project) -> None:
    (small.images / "train" / "requirements.in").write_bytes(b"caf\xe9\n")
    with pytest.raises(BadInputError, match=r"requirements\.in can't be read: 'utf-8' codec"):
        requirements.read(small.images, small.matrix.stack("tug"))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.sampled_from("{}ray_vlm#= \n"), max_size=30))
def test_any_text_leaves_no_brace_or_is_refused(small: Project, text: str) -> None:
    write(small, text)
    try:
        asked = requirements.read(small.images, small.matrix.stack("tug"))
    except BadInputError:
        return
    for line in asked.lines:
        assert line == line.strip() != ""
        assert not set("{}") & set(line)


# Rule 1: every pin has a receiver, every argument a pin.


def declared(dockerfile: Path) -> list[str]:
    return re.findall(r"^\s*ARG\s+(.*)$", dockerfile.read_text(), re.MULTILINE | re.IGNORECASE)


@pytest.mark.parametrize("name", REAL.stacks)
def test_every_pin_of_a_stack_has_a_receiver(root: Path, name: str) -> None:
    stack = REAL.stack(name)
    asked = (root / "images" / stack.image / "requirements.in").read_text()
    code = "\n".join(line.split("#")[0] for line in asked.splitlines())
    in_requirements = set(re.findall(r"\{(\w+)\}", code))
    in_dockerfile = {
        argument.removesuffix("_VERSION").lower() for argument in declared(root / "images/Dockerfile")
    }
    for pin in stack.pins:
        assert pin in in_requirements or pin in in_dockerfile, f"nothing receives {pin}"


def test_every_placeholder_is_a_pin(root: Path) -> None:
    for name, stack in REAL.stacks.items():
        received = requirements.read(root / "images", stack).received
        assert received <= {*stack.pins, "cuda_major"}, name


def test_every_argument_of_a_dockerfile_is_a_pin_without_default(root: Path) -> None:
    pins = {pin for stack in REAL.stacks.values() for pin in stack.pins}
    arguments = declared(root / "images" / "Dockerfile")
    assert arguments
    for argument in arguments:
        assert "=" not in argument, f"ARG {argument} has a default"
        assert argument.endswith("_VERSION")
        assert argument.removesuffix("_VERSION").lower() in pins
    for file in (root / "images").glob("*Dockerfile"):
        assert all("=" not in argument for argument in declared(file)), file


def test_every_argument_is_used(root: Path) -> None:
    for file in (root / "images").glob("*Dockerfile"):
        text = file.read_text()
        for argument in declared(file):
            assert re.search(rf"\$\{{?{argument}\b", text), f"{file}: nothing uses {argument}"
