"""Everything that runs on Spark. It is one file for pytest, so that one worker runs it all and Spark starts once."""

import pytest

from tests.spark.analysing import *
from tests.spark.compiling import *
from tests.spark.following import *
from tests.spark.generating import *
from tests.spark.learning import *
from tests.spark.matching import *
from tests.spark.profiling import *
from tests.spark.reading import *
from tests.spark.reporting import *
from tests.spark.requesting import *
from tests.spark.windowing import *
from tests.spark.word_counting import *

pytestmark = pytest.mark.slow
