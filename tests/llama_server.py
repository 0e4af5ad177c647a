"""llama-cpp-python's server, without the kernels that need AMX.

Some sandboxes show the AMX units of their processor and withhold the registers: the model then ends
in a segmentation fault. Weights that are not repacked for them are computed elsewhere.

    python llama_server.py --model FILE --port PORT
"""

from __future__ import annotations

from typing import Any

import llama_cpp.llama_cpp as bindings
from llama_cpp.server.__main__ import main

defaults = bindings.llama_model_default_params


def without_extra_buffers() -> Any:
    """The library's defaults, but for the repacked weights."""
    parameters = defaults()
    parameters.use_extra_bufts = False
    return parameters


bindings.llama_model_default_params = without_extra_buffers

if __name__ == "__main__":
    main()
