"""The torch-free tokenizer against transformers, and chat templates."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.bundled import MODEL_DIR
from engine.config import WorkerConfig
from engine.errors import InvalidRequest, UnsupportedModel
from engine.tokenizer import load

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message.role }}] {{ message.content | trim }}\n"
    "{% if loop.last %}{% break %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
MESSAGES = [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Who made the world?"}]


def with_template(folder: Path, template: str, in_settings: bool = False) -> WorkerConfig:
    """The bundled model's tokenizer with a chat template, in either of the two places where models keep it."""
    folder.mkdir(exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        shutil.copy(MODEL_DIR / name, folder)
    if in_settings:
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": template}))
    else:
        (folder / "chat_template.jinja").write_text(template)
    return WorkerConfig(model=str(folder))


@pytest.mark.parametrize("in_settings", [False, True])
def test_agrees_with_transformers(tmp_path: Path, in_settings: bool) -> None:
    """Guards reading ``tokenizer.json`` directly: ids, text and chat prompts equal those of transformers."""
    from transformers import AutoTokenizer

    config = with_template(tmp_path, TEMPLATE, in_settings)
    ours, theirs = load(config), AutoTokenizer.from_pretrained(tmp_path)
    for text in ("In the beginning", " leading, and wörld 世界", "<|endoftext|>x"):
        assert ours.encode(text) == theirs(text)["input_ids"]
        assert ours.decode(ours.encode(text)) == theirs.decode(theirs(text)["input_ids"], skip_special_tokens=True)
    expected = theirs.apply_chat_template(MESSAGES, add_generation_prompt=True, tokenize=False)
    assert ours.chat(MESSAGES) == theirs(expected, add_special_tokens=False)["input_ids"]
    assert ours.eos_ids == {theirs.eos_token_id}


def test_E_08_a_base_model_names_what_it_lacks() -> None:
    """E-08: a model without a chat template used to end in an internal error."""
    tokenizer = load(WorkerConfig())
    with pytest.raises(InvalidRequest, match=r"'bundled' has no chat_template"):
        tokenizer.chat(MESSAGES)
    with pytest.raises(InvalidRequest, match="chat_template"):
        load(WorkerConfig(random_weights="tiny")).chat(MESSAGES)
    assert tokenizer.encode("plain prompts still work")


@pytest.mark.parametrize(
    ("template", "messages"),
    [
        ("{{ raise_exception('roles must alternate') }}", MESSAGES),
        ("{{ ''.__class__.__mro__ }}", MESSAGES),
        (TEMPLATE, [{"content": "who speaks?"}]),
        (TEMPLATE, ["text"]),
    ],
)
def test_bad_chats_are_the_callers_error(tmp_path: Path, template: str, messages: list) -> None:
    """Guards the sandbox: a template that rejects, misbehaves or gets nonsense is one clear line, never a crash."""
    with pytest.raises(InvalidRequest, match="messages"):
        load(with_template(tmp_path, template)).chat(messages)


def test_a_missing_model_is_one_line(tmp_path: Path) -> None:
    """Guards the message for a typo in ``--model``: what was wanted and why it failed."""
    with pytest.raises(UnsupportedModel, match=r"no tokenizer\.json"):
        load(WorkerConfig(model=str(tmp_path)))
    with pytest.raises(UnsupportedModel, match="no/such/folder"):
        load(WorkerConfig(model="/no/such/folder"))


def test_random_weights_speak_bytes() -> None:
    """Guards prompts on models without a tokenizer: any text is its bytes; ids beyond them are shown as numbers."""
    tokenizer = load(WorkerConfig(random_weights="tiny"))
    assert tokenizer.decode([*tokenizer.encode("é"), 300]) == "é[300]"


def test_the_app_process_needs_no_torch() -> None:
    """Guards start-up and memory of the app: driver, tokenizer and serving load neither torch nor transformers."""
    code = (
        "import sys, engine.driver, engine.serving.standalone;"
        "bad = {'torch', 'triton', 'transformers', 'streamlit'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True)
