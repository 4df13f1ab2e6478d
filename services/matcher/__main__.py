from braid.slice import main
from services.matcher.shell import Matcher

main("matcher", Matcher)
