from .catalogue import CATALOGUE as CATALOGUE
from .domain import Task as Task
from .domain import TaskData as TaskData
from .domain import TaskOptions as TaskOptions
from .loading import load_set as load_set
from .synthetic import GaussianTask as GaussianTask
from .tasks import TASKS as TASKS
from .tasks import task as task
