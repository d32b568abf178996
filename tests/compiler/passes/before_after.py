"""Tests a pass on text: what it makes of a module, and that it is done with it then."""

from ipu_tf.compiler.hlo import parse, to_text, verify


def check(run, before, after):
    """Checks that `run` makes `after` of `before`, well formed, and leaves `after` as it is."""
    result = run(parse(before))
    verify(result)
    assert to_text(result) == to_text(parse(after))
    assert to_text(run(result)) == to_text(result)


def entry(body, others=""):
    """Returns the text of a module whose entry has these lines."""
    return f"{others}\nENTRY main {{\n{body}\n}}\n"
