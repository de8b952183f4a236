"""Facts that tell the layers of one kind from others of a model; their name and notes are made of them."""

from dataclasses import dataclass

INDEXES = ("indexed_attention", "shared_index")  # words of layers with an index of tokens


@dataclass(frozen=True, kw_only=True)
class LayerFacts:
    """Facts of the layers of one kind.

    word: of their class, such as full_attention. stack: decoder or encoder, "" where there is one.
    is_only: whether all layers of the stack are of this kind. is_full: whether the word is that of
    the class for layers that see the whole text. has_attention: False for layers that keep a state or
    nothing. in_blocks: whether the class has RoPE by rope blocks. rotates: whether these layers rotate.
    source: the layer whose keys and values they use, None for their own. base: their own of a list by
    layer, 0 without one; bases_differ: whether other layers have another. latent: rotated width, width
    of a head and width of the latent vector, where one vector is cached for all heads. own_notes: the
    sentences of the class.
    """

    word: str
    stack: str = ""
    is_only: bool = True
    is_full: bool = True
    has_attention: bool = True
    in_blocks: bool = False
    rotates: bool = True
    source: int | None = None
    base: float = 0.0
    bases_differ: bool = False
    latent: tuple[int, int, int] | None = None
    own_notes: tuple[str, ...] = ()

    @property
    def lacks_rope(self) -> bool:
        """Whether these layers have none while the class has RoPE; those with an index count as theirs."""
        is_plain = self.in_blocks and self.has_attention and self.word not in INDEXES
        return is_plain and not self.rotates
