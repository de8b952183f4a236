"""Marks of tests that need hardware."""

import pytest
import torch

# Put on a test as a decorator: `@needs_cuda`.
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
