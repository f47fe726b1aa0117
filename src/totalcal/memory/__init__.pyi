from .domain import DomainMemory as DomainMemory
from .domain import Memorised as Memorised
from .domain import NoDomain as NoDomain
from .remembering import remember as remember
