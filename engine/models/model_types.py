"""Types of the objects that transformers hands out, for annotations only.

A model has other fields and layers for every architecture, and its outputs and its configuration
do, too. These classes give types to what all of them have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import torch
    import transformers
    from transformers.utils.generic import ModelOutput

    class GenerationConfig(transformers.GenerationConfig):
        """The settings of a run, as generate() prepared them, with the tensors that it adds."""

        do_sample: bool
        max_length: int
        num_beams: int
        num_return_sequences: int
        length_penalty: float
        early_stopping: bool | str
        penalty_alpha: float
        top_k: int
        dola_layers: Any

        def __getattr__(self, name: str) -> Any: ...

    # Without GenerationMixin, whose methods a type checker accepts for its own protocol only.
    class Model(transformers.PreTrainedModel):
        """A model that generates."""

        config: Any
        generation_config: GenerationConfig

        def generate(self, *args: Any, **kwargs: Any) -> Any: ...
        def get_input_embeddings(self) -> torch.nn.Embedding: ...
        def modules(self, remove_duplicate: bool = True) -> Iterator[Any]: ...
        def get_output_embeddings(self) -> Any: ...

        def __getattr__(self, name: str) -> Any: ...

    class StoppingCriteria(Protocol):
        """Says for every row whether its text ends."""

        def __call__(self, input_ids: torch.Tensor, scores: Any, /) -> torch.Tensor: ...

    class StoppingCriteriaList(StoppingCriteria, Protocol):
        """Stopping criteria, of which one is enough."""

        def __iter__(self) -> Iterator[StoppingCriteria]: ...

    class Outputs(ModelOutput):
        """The outputs of a forward pass."""

        logits: torch.Tensor
        hidden_states: tuple[torch.Tensor, ...]
        attentions: tuple[torch.Tensor, ...]

        def __getattr__(self, name: str) -> Any: ...

    class Tokenizer(transformers.PreTrainedTokenizerBase):
        """A tokenizer; other fields depend on its kind."""

        def __getattr__(self, key: str) -> Any: ...
        # Text for one id or row, a list for several; transformers says either for both.
        def convert_ids_to_tokens(self, ids: object, skip_special_tokens: bool = False) -> Any: ...
        def decode(self, token_ids: object, *args: Any, **options: Any) -> Any: ...
        def apply_chat_template(self, conversation: object, *args: Any, **options: Any) -> Any: ...
else:
    GenerationConfig = Model = Outputs = Tokenizer = object
    StoppingCriteria = StoppingCriteriaList = object

# Not transformers.LogitsProcessor: it takes a LongTensor, which no tensor is for a type checker.
Processor: TypeAlias = "Callable[..., torch.Tensor]"
LoadingReport: TypeAlias = "Mapping[str, Iterable[Any]]"
"""What ``from_pretrained(output_loading_info=True)`` says of missing and mismatched weights."""
Processors: TypeAlias = Sequence[Processor]
"""Logits processors, in the order in which they run."""
