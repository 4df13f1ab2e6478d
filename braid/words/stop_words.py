"""English words that say nothing about what a text is about.

Only words that are nothing else: "will", "may", "can", "mine" and "us" are also a name, a month, a tin, a pit and a
country, so they stay. The list is part of the meaning of a subscription: a word that is added here is no longer
demanded by those that ask for it.
"""

_ARTICLES_AND_POINTERS = """
a an the this that these those such same other another each every either neither both all any some none no few more most
own
"""

_PRONOUNS = """
i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
it its itself they them their theirs themselves who whom whose which what
"""

_AUXILIARIES = """
am is are was were be been being have has had having do does did doing would should could shall must ought cannot
"""

_PREPOSITIONS_AND_CONJUNCTIONS = """
about above across after against along although among and around as at because before behind below beneath beside
besides between beyond but by despite down during except for from if in into nor of off on onto or out over per since so
than then though through throughout to toward towards under unless until up upon via whereas while with within without
"""

_ADVERBS = """
again also ever here how however just not now once only quite rather there thus too very when where why yet
"""

_CONTRACTIONS = """
i'm i've i'd i'll you're you've you'd you'll he's he'd he'll she's she'd she'll it's it'd it'll we're we've we'd we'll
they're they've they'd they'll that's that'd that'll this'll who's who'd who'll what's what're here's there's there'd
when's where's why's how's let's isn't aren't wasn't weren't hasn't haven't hadn't doesn't don't didn't won't wouldn't
shan't shouldn't can't couldn't mustn't mightn't needn't ain't
"""

# As people type them in a hurry; those that are also other words ("ill", "well", "wont", "cant", "id") are left out.
_CONTRACTIONS_WITHOUT_APOSTROPHE = """
im ive youre youve theyre theyve thats whats isnt arent wasnt werent hasnt havent hadnt doesnt dont didnt wouldnt
shouldnt couldnt aint
"""

STOP_WORDS = frozenset(
    " ".join(
        (
            _ARTICLES_AND_POINTERS,
            _PRONOUNS,
            _AUXILIARIES,
            _PREPOSITIONS_AND_CONJUNCTIONS,
            _ADVERBS,
            _CONTRACTIONS,
            _CONTRACTIONS_WITHOUT_APOSTROPHE,
        )
    ).split()
)
