from braid.process import main
from services.matcher.shell import Matcher

main("matcher", Matcher)
