"""Two repairs for Triton's interpreter: triton 3.6 with numpy 2.4 or newer cannot loop up to a loaded bound; and every
launch copies each CPU tensor, a pool of gigabytes included, onto itself."""

import os

if os.environ.get("TRITON_INTERPRET") == "1":
    from triton.runtime import interpreter

    _patch_lang_tensor = interpreter._patch_lang_tensor

    def _with_index(tensor, *args, **kwargs):
        result = _patch_lang_tensor(tensor, *args, **kwargs)
        tensor.__index__ = lambda self: int(self.handle.data.reshape(-1)[0])
        return result

    interpreter._patch_lang_tensor = _with_index
    interpreter.GridExecutor._restore_args_dev = lambda self, *arguments: None  # all tensors are the host's own
