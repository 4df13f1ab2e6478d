"""The last word of a connection point to access points that leave."""

from braid.messages import GoesElsewhere, Send
from braid.topology import Configuration


def last_words(configuration: Configuration) -> list[Send]:
    """Everything that this connection point sends under this configuration goes to others.

    It is said in each phase behind the cut, because one that hears of the scaling late may miss all but one.
    """
    in_force = configuration.in_force()
    word = GoesElsewhere(in_force.epoch)
    return [Send(name, [word]) for name in configuration.accesspoints if name not in in_force.accesspoints]
