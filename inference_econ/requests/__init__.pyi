"""What other packages may use; see ``__init__.py``."""

from . import by_name as by_name
from . import kinds as kinds
from . import places as places
from . import prices as prices
from . import subject as subject
from . import tables as tables
from . import words as words
from . import workload as workload
from .request import Host as Host
from .request import Invocation as Invocation
from .request import Request as Request
from .request import refuse as refuse
from .request import too_much as too_much
from .tables import COMMANDS as COMMANDS
from .tables import Command as Command
from .tables import Parameter as Parameter
