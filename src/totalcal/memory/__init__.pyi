from .domain import Memorised as Memorised
from .domain import NoDomain as NoDomain
from .domain_memory import DomainMemory as DomainMemory
from .remembering import remember as remember
