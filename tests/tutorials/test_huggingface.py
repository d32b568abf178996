"""The tutorial of Hugging Face's models trains the same weights whole and in stages."""

import pytest

from ipu_tf import config

pytest.importorskip("transformers", reason='needs the extra: pip install "ipu_tf[huggingface]"')
pytest.importorskip("tf_keras")


@pytest.mark.slow
def test_the_layers_of_a_model_train_in_stages_what_it_trains(capsys):
    from tutorials import huggingface

    huggingface.main(["--epochs", "4"])
    config.reset_ipu_configuration()
    printed = capsys.readouterr().out.splitlines()
    whole, staged = (line for line in printed if ": accuracy " in line)
    assert whole.startswith("the model as it is, on one IPU")
    assert staged.startswith("two stages on two IPUs")
    assert min(float(line.split()[-1].rstrip("%")) for line in (whole, staged)) > 75
    assert any(line.split()[:2] == ["stage", "IPU"] for line in printed)
    assert printed[-1].startswith("largest difference between the weights of both: ")
    assert float(printed[-1].split()[-1]) < 1e-3
