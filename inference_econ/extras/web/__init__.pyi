"""What other packages may use; see ``__init__.py``."""

from .application import Application as Application
from .application import application as application
from .questions import WARM_UP as WARM_UP
from .questions import Answer as Answer
from .questions import Fields as Fields
from .questions import RefusedError as RefusedError
from .questions import answer as answer
from .questions import questions as questions
from .replies import reply as reply
from .server import is_loopback as is_loopback
from .server import listening as listening
from .server import run as run
from .tools import talk as talk
from .tools import tools as tools
from .workers import WorkerLimits as WorkerLimits
from .workers import prepare as prepare
