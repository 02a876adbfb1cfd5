"""All slices as one."""

from dataclasses import dataclass, replace

from calibdask.statistics.block import NO_GROUPS, Block
from calibdask.statistics.layout import Layout
from calibdask.statistics.views.view import View


@dataclass(frozen=True)
class Pooled(View):
    """The rows of all slices, without slices."""

    def layout(self, layout: Layout) -> Layout:
        """One slice."""
        return replace(layout, groups=1)

    def block(self, block: Block) -> Block:
        """The rows without their slices."""
        return replace(block, layout=self.layout(block.layout), group=NO_GROUPS)
